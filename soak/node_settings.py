"""Runs a module with the settings of an installed node's process: `python -m soak.node_settings MODULE ..`.

They are made before the module imports NumPy: the first thread that allocates memory fixes how many heaps the
process may have, and the gaps in each of them grow.
"""

from __future__ import annotations

import sys

from edgetpu_driver.node_kit.process_entry import run_main


def main() -> int:
    """Run `main` of the module that the first argument names, which it does not get."""
    return run_main(sys.argv.pop(1))


if __name__ == "__main__":
    sys.exit(main())
