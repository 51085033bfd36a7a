"""The entry point of the command `edgetpu`, which loads the rest of it."""

from __future__ import annotations

from edgetpu_driver.cli.keyboard_interrupt import end_at_once, ending_at_once


def main() -> int:
    """Run the command line of this process and return the exit status."""
    with ending_at_once():
        from edgetpu_driver.cli.main import main as run
    try:
        return run()
    finally:
        end_at_once()
