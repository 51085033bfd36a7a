"""The parameters that all perception nodes have."""

from __future__ import annotations

import re

from edgetpu_driver.node_kit.parameters import Setting

_NODE_NAME = re.compile(r"(~?/)?[A-Za-z_]\w*(/[A-Za-z_]\w*)*", re.ASCII)

_MOST_PIXELS = 2**16


def _bad_node_name(name: str) -> str | None:
    if _NODE_NAME.fullmatch(name):
        return None
    return f"expected a node's name, letters, digits and _ between slashes; got '{name}'"


def _no_region(values: list[int]) -> str | None:
    if len(values) == 4 and all(0 <= value < _MOST_PIXELS for value in values):
        return None
    return f"expected x offset, y offset, width and height, 0 px or more; got {values}"


def min_confidence(default: float) -> Setting:
    """Describe the parameter for a node of which the results are useful from that confidence on."""
    return Setting(
        "min_confidence",
        default,
        f"Results of less confidence are published as not valid, 0..1. Default: {default:g}.",
        0.0,
        1.0,
        read_only=False,
    )


SETTINGS = (
    Setting(
        "driver",
        "edgetpu",
        "Name of the driver node, relative to this node's namespace or absolute (/...). Default: edgetpu.",
        check=_bad_node_name,
    ),
    Setting(
        "model",
        "",
        "Model to run: file stem, file name or path for the driver. Empty (default): the suite's own graph.",
    ),
    Setting(
        "model_dir",
        "",
        "Directory the suite's own graph is written to; must be one of the driver's model_dirs. "
        "Empty (default): edgetpu/models in $ROS_HOME or ~/.ros.",
    ),
    Setting(
        "image_transport",
        "raw",
        "raw: subscribe image; compressed: subscribe image/compressed (JPEG or PNG). Default: raw.",
        choices=("raw", "compressed"),
    ),
    Setting(
        "qos_reliability",
        "best_effort",
        "Reliability of the image subscription. Default: best_effort, which every publisher satisfies.",
        choices=("best_effort", "reliable"),
    ),
    Setting("qos_depth", 5, "Queue depth of the image subscription, frames. Default: 5.", 1, 1000),
    Setting(
        "rectified",
        False,
        "The images are rectified: directions follow P of camera_info, without distortion. Default: false.",
    ),
    Setting(
        "horizontal_fov",
        0.0,
        "Horizontal field of view of a camera without calibration, rad: until a usable camera_info comes, a "
        "pinhole camera with square pixels and this angle is assumed. 0 (default): nothing is assumed.",
        0.0,
        3.1,
    ),
    Setting(
        "rate_limit",
        0.0,
        "Most images per second to work on, by their stamps, Hz; images without a stamp always pass. "
        "0 (default): all.",
        0.0,
        1000.0,
        read_only=False,
    ),
    Setting(
        "roi",
        [0, 0, 0, 0],
        "Part of the image to look at, px: x offset, y offset, width, height; a width or height of 0 reaches "
        "to the edge. Results remain in px, and directions, of the whole image. Default: all of it.",
        read_only=False,
        check=_no_region,
    ),
    min_confidence(0.2),
)
