"""The parameters of every matrix node."""

from __future__ import annotations

import os
import re
from pathlib import Path

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.files.default_paths import default_model_dir
from edgetpu_driver.files.file_access import user_path, write_file
from edgetpu_driver.node_kit.driver_choice import DRIVER_SETTING
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.parameters import Setting, merge_settings
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.toolchain.graph_family import build_graph

_DENSE = re.compile(r"dense_\d+")

INPUT_TYPE = Setting("input_type", "std_msgs/msg/Float32MultiArray", "Type of the messages to subscribe to.")

INPUT_FIELDS = Setting(
    "input_fields",
    "data",
    "Fields of the message to read, separated by commas: paths such as angular_velocity.x, optionally "
    "with an index or a slice at the end, such as data[0::2].",
)

_SETTINGS = (
    DRIVER_SETTING,
    Setting(
        "model",
        "dense_256",
        "Dense model that takes the matrix, in tiles if it is smaller: file stem, file name or path, as the "
        "driver's load_model takes it. dense_<size> is written to model_dir unless such a file is there.",
    ),
    Setting(
        "model_dir",
        "",
        "Directory the suite's own graph is written to; must be one of the driver's model_dirs. "
        "Empty: edgetpu/models in $ROS_HOME or ~/.ros.",
    ),
    Setting(
        "rescale_rows",
        False,
        "Rewrite the model's multipliers with the weights, so that its whole output range is used. Not yet "
        "tried on silicon.",
    ),
    Setting("passes", 1, "Repetitions of every product; their mean has less rounding error.", 1, 64),
    INPUT_TYPE,
    INPUT_FIELDS,
    Setting(
        "qos_reliability",
        "best_effort",
        "Reliability of the subscription. best_effort is compatible with every publisher.",
        choices=("best_effort", "reliable"),
    ),
    Setting("qos_depth", 100, "Queue depth of the subscription, messages.", 1, 10000),
)


def matrix_settings(*own: Setting) -> tuple[Setting, ...]:
    """The parameters of every matrix node and those of one; own ones replace common ones of that name."""
    return merge_settings(_SETTINGS, own)


def directory_setting(what: str) -> Setting:
    """Describe the parameter `directory` for a node that keeps files."""
    return Setting(
        "directory", "", f"Directory for files of {what}. Empty: edgetpu/{what} in $ROS_HOME or ~/.ros."
    )


def files_directory(value: str, what: str) -> Path:
    """Return the directory that a value of that parameter stands for."""
    return user_path(value) if value else default_model_dir().parent / what


def provide_model(model: str, model_dir: str) -> None:
    """Write the suite's own graph to the model directory if `model` names one and it is not there yet.

    Raises FatalError when it cannot be written.
    """
    directory = user_path(model_dir or default_model_dir())
    files = (directory / f"{model}.tflite", directory / f"{model}_edgetpu.tflite")
    if _DENSE.fullmatch(model) is None or any(map(os.path.isfile, files)):
        return
    try:
        write_file(files[0], build_graph(model, dense.FAMILIES))
    except (EdgeTpuError, OSError) as error:
        raise FatalError(f"cannot write the model {model} to {directory}: {error}") from error
