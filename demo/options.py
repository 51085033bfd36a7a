"""The options of the demo's command line."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgetpu_driver.cli.number_arguments import number


def parser() -> argparse.ArgumentParser:
    """The parser of `python -m demo`."""
    options = argparse.ArgumentParser(
        prog="python -m demo",
        description=(
            "Replay images through the live ROS graph, and write the results of the nodes, with plots and "
            "debug images, to OUTPUT/report.html and OUTPUT/summary.json."
        ),
    )
    _add_images(options)
    _add_nodes(options)
    options.add_argument(
        "--output", type=Path, default=Path("build", "demo"), help="directory (default: build/demo)"
    )
    options.add_argument("--gif", type=Path, help="also write an animation of the debug images to this file")
    options.add_argument(
        "--timeout",
        type=_seconds,
        default=5.0,
        help="seconds to wait for the results of an image, and for its debug images (default: 5)",
    )
    options.add_argument(
        "--startup-timeout",
        type=_seconds,
        default=30.0,
        help="seconds to wait for the nodes to start (default: 30)",
    )
    return options


def _add_images(options: argparse.ArgumentParser) -> None:
    options.add_argument(
        "--bag", type=Path, help="rosbag2 to replay, sqlite3 or mcap (default: a rendered scene)"
    )
    options.add_argument("--topic", help="topic of its images (default: the only one)")
    options.add_argument(
        "--rate",
        type=_rate,
        default="max",
        help="max (default): publish the next image when every node has answered; a number: factor to the "
        "recorded speed",
    )
    options.add_argument(
        "--hfov",
        type=_degrees,
        default=90.0,
        help="horizontal field of view, degrees, for a bag without camera_info (default: 90)",
    )


def _add_nodes(options: argparse.ArgumentParser) -> None:
    options.add_argument(
        "--backend",
        choices=("cpu", "virtual", "usb"),
        default="virtual",
        help="of the driver (default: virtual)",
    )
    options.add_argument(
        "--nodes",
        help="nodes, separated by commas (default: the perception nodes, whose models come with the suite)",
    )
    options.add_argument(
        "--model",
        help=".tflite file for a vision node; the segments of a pipeline, separated by commas",
    )
    options.add_argument("--labels", help="class names of that model: a file, coco or pascal_voc")
    options.add_argument(
        "--params-file",
        type=Path,
        help="parameters of the nodes (default: config/edgetpu.yaml)",
    )


def _rate(text: str) -> float | None:
    """Read --rate: the factor on the recorded speed; None for "max"."""
    return None if text == "max" else number(text, lambda value: value > 0, "max or a number above 0")


def _degrees(text: str) -> float:
    return number(text, lambda value: 0 < value < 180, "degrees above 0 and below 180")


def _seconds(text: str) -> float:
    return number(text, lambda value: value > 0, "seconds above 0")
