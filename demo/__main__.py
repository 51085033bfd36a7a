"""The command line of the demo: `python -m demo` in the root of the repository."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from demo.errors import DemoError

EXIT_FAILURE, EXIT_INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return 0 if every node gave results, otherwise 1 after a line on standard error."""
    try:  # imported here, so that a missing package is reported in one line
        from demo.options import parser

        options = parser().parse_args(arguments)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        from edgetpu_driver.cli.keyboard_interrupt import ending_at_once

        with ending_at_once():
            from demo.processes import PARAMETERS
            from demo.run import run
            from edgetpu_driver.errors import reason_of
    except ImportError as error:
        return _print_error(
            f"{error}: run `make demo`, or install requirements.txt and source a built workspace"
        )
    options.params_file = options.params_file or PARAMETERS
    try:
        run(options)
    except DemoError as error:
        return _print_error(str(error))
    except OSError as error:  # mostly for OUTPUT
        return _print_error(reason_of(error))
    except KeyboardInterrupt:
        _print_error("interrupted")
        return EXIT_INTERRUPTED
    return 0


def _print_error(text: str) -> int:
    print(f"[demo] {text}", file=sys.stderr)
    return EXIT_FAILURE


if __name__ == "__main__":
    sys.exit(main())
