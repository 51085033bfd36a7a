"""The parameters of every perception node."""

from __future__ import annotations

from edgetpu_driver.node_kit.image_parameters import image_settings
from edgetpu_driver.node_kit.parameters import Setting, merge_settings

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
    Setting(
        "rectified",
        False,
        "The images are rectified: directions are computed from P of camera_info, without distortion.",
    ),
    Setting(
        "horizontal_fov",
        0.0,
        "Horizontal field of view, rad, of a camera without calibration: until a usable camera_info arrives, "
        "a pinhole camera with square pixels and this field of view is assumed. 0: none is assumed.",
        0.0,
        3.1,
    ),
)


def perception_settings(*own: Setting) -> tuple[Setting, ...]:
    """The parameters of every perception node and those of one; own ones replace common ones of that name."""
    return merge_settings(_SETTINGS, own)
