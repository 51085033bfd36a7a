"""The parameters of every perception node."""

from __future__ import annotations

from edgetpu_driver.node_kit.images.image_parameters import image_settings
from edgetpu_driver.node_kit.parameters import Setting, merge_settings

RECTIFIED = Setting(
    "rectified",
    False,
    "The images are rectified: directions are computed from P of camera_info, without distortion.",
)
"""A parameter of every node that computes directions."""

_SETTINGS = image_settings(
    Setting(
        "model",
        "",
        "Model to run: file stem, file name or path, as the driver's load_model takes it. Empty: the suite's "
        "own graph.",
    ),
    Setting(
        "model_dir",
        "",
        "Directory the suite's own graph is written to; must be one of the driver's model_dirs. "
        "Empty: edgetpu/models in $ROS_HOME or ~/.ros.",
    ),
    RECTIFIED,
    Setting(
        "horizontal_fov",
        0.0,
        "Horizontal field of view, rad, of a camera without calibration: until a usable camera_info arrives, "
        "a pinhole camera with square pixels and this field of view is assumed. 0: none is assumed.",
        0.0,
        3.1,
    ),
)

SIZES = (64, 96, 128)
"""Widths and heights of a model's input that nodes offer, px. Their figures by `make accuracy` are in the
README; 128 takes up to 8 times as long as 64."""


def model_size(meaning: str) -> Setting:
    """The parameter for the size of a model's input; `meaning`: what the larger ones are for."""
    description = f"Width and height of the model's input, px: {meaning}"
    return Setting("size", SIZES[0], description, SIZES[0], SIZES[-1], check=_bad_size)


def _bad_size(value: int) -> str | None:
    return None if value in SIZES else f"expected 64, 96 or 128; got {value}"


def perception_settings(*own: Setting) -> tuple[Setting, ...]:
    """The parameters of all perception nodes and a node's own, which replace those of the same name."""
    return merge_settings(_SETTINGS, own)
