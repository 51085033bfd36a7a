"""The command line of the demo: `python -m demo` in the root of the repository."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from demo.errors import DemoError
from edgetpu_driver.cli.number_arguments import number

EXIT_FAILURE, EXIT_INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if every node gave results, otherwise 1 and one line on standard error."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:  # here, so that a missing package is reported in one line
        from edgetpu_driver.cli.interrupts import ending_at_once

        with ending_at_once():
            from demo.processes import PARAMETERS
            from demo.run import run
    except ImportError as error:
        return _complain(
            f"{error}: run `make demo`, or install requirements.txt and source a built workspace"
        )
    options.params_file = options.params_file or PARAMETERS
    try:
        run(options)
    except DemoError as error:
        return _complain(str(error))
    except OSError as error:  # of OUTPUT, above all
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        _complain("interrupted")
        return EXIT_INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description=(
            "Replay images through the live ROS graph, and write the results of the nodes, with plots and "
            "debug images, to OUTPUT/report.html and OUTPUT/summary.json."
        ),
    )
    parser.add_argument(
        "--bag", type=Path, help="rosbag2 to replay, sqlite3 or mcap (default: a rendered scene)"
    )
    parser.add_argument("--topic", help="topic of its images (default: the only one)")
    parser.add_argument(
        "--backend",
        choices=("cpu", "virtual", "usb"),
        default="virtual",
        help="of the driver (default: virtual)",
    )
    parser.add_argument(
        "--nodes",
        help="nodes, separated by commas (default: the perception nodes, whose models come with the suite)",
    )
    parser.add_argument(
        "--model",
        help=".tflite file for a vision node; the segments of a pipeline, separated by commas",
    )
    parser.add_argument("--labels", help="class names of that model: a file, coco or pascal_voc")
    parser.add_argument(
        "--rate",
        type=_rate,
        default="max",
        help="max (default): publish the next image when every node has answered; a number: factor to the "
        "recorded speed",
    )
    parser.add_argument(
        "--hfov",
        type=_degrees,
        default=90.0,
        help="horizontal field of view, degrees, for a bag without camera_info (default: 90)",
    )
    parser.add_argument(
        "--params-file",
        type=Path,
        help="parameters of the nodes (default: config/edgetpu.yaml)",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build", "demo"), help="directory (default: build/demo)"
    )
    parser.add_argument("--gif", type=Path, help="also write an animation of the debug images to this file")
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=5.0,
        help="seconds to wait for the results of an image (default: 5)",
    )
    parser.add_argument(
        "--startup-timeout",
        type=_seconds,
        default=30.0,
        help="seconds to wait for the nodes to start (default: 30)",
    )
    return parser


def _rate(text: str) -> float | None:
    """None for "max", otherwise the factor to the recorded speed."""
    return None if text == "max" else number(text, lambda value: value > 0, "max or a number above 0")


def _degrees(text: str) -> float:
    return number(text, lambda value: 0 < value < 180, "degrees above 0 and below 180")


def _seconds(text: str) -> float:
    return number(text, lambda value: value > 0, "seconds above 0")


def _complain(text: str) -> int:
    print(f"[demo] {text}", file=sys.stderr)
    return EXIT_FAILURE


if __name__ == "__main__":
    sys.exit(main())
