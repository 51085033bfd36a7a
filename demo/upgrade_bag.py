"""Command line: `python -m demo.upgrade_bag OLD NEW` rewrites a bag of an older version of the suite."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from demo.errors import DemoError

EXIT_FAILURE, EXIT_INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the bag NEW; return 0 on success, otherwise 1 after a line on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.upgrade_bag",
        description=(
            "Copy a bag of an older version of the suite, with the fields that its messages lack, so that it "
            "can be played back with this version."
        ),
    )
    parser.add_argument("old", type=Path, help="rosbag2 to read, sqlite3 or mcap")
    parser.add_argument("new", type=Path, help="directory of the new bag")
    options = parser.parse_args(arguments)
    try:
        from demo.bag.appended_fields import (
            upgrade_bag,  # imported here, so that a missing package is reported in one line
        )

        extended = upgrade_bag(options.old, options.new)
    except (DemoError, ImportError, OSError) as error:
        print(f"[upgrade_bag] {error}", file=sys.stderr)
        return EXIT_FAILURE
    except KeyboardInterrupt:
        print("[upgrade_bag] interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    for topic, number in sorted(extended.items()):
        print(f"{topic}: {number} messages extended")
    print(f"wrote {options.new}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
