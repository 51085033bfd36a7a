"""The parameters that all perception nodes have."""

from __future__ import annotations

from edgetpu_driver.ros.parameters import Setting

SETTINGS = (
    Setting(
        "driver",
        "edgetpu",
        "Name of the driver node, relative to this node's namespace or absolute (/...). Default: edgetpu.",
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
        "rate_limit",
        0.0,
        "Most images per second to work on, by their stamps, Hz. 0 (default): all.",
        0.0,
        1000.0,
        read_only=False,
    ),
    Setting(
        "min_confidence",
        0.2,
        "Results of less confidence are published as not valid, 0..1. Default: 0.2.",
        0.0,
        1.0,
        read_only=False,
    ),
)
