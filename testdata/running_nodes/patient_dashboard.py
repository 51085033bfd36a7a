"""The dashboard with a generous time limit for stopping, since the tests are about its page."""

from __future__ import annotations

import sys

from edgetpu_driver.node_kit.process_entry import run_node
from testdata.timeouts import PATIENCE


def main() -> int:
    """Run the dashboard until a signal stops it."""
    from edgetpu_driver.node_kit.process import spin

    spin.STOP_DEADLINE = PATIENCE
    return run_node("dashboard")


if __name__ == "__main__":
    sys.exit(main())
