"""Runs a module with the settings of an installed node's process: `python -m soak.node_settings MODULE ..`.

They are applied before the module imports NumPy: the first thread that allocates memory fixes the number of
heaps of the process, and the fragmentation of each heap grows.
"""

from __future__ import annotations

import sys

from edgetpu_driver.node_kit.process_entry import run_main


def main() -> int:
    """Run `main` of the module named by the first argument, with the other arguments."""
    return run_main(sys.argv.pop(1))


if __name__ == "__main__":
    sys.exit(main())
