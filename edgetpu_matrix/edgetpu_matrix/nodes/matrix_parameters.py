"""The parameters that all nodes of this package have."""

from __future__ import annotations

import re
from pathlib import Path

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.spin import FatalError
from edgetpu_driver.nodes.driver_parameters import default_model_dir
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.toolchain.graph_family import build_graph
from edgetpu_driver.toolchain.model_files import write_file

_DENSE = re.compile(r"dense_\d+")

SETTINGS = (
    Setting(
        "driver",
        "edgetpu",
        "Name of the driver node, relative to this node's namespace or absolute (/...). Default: edgetpu.",
    ),
    Setting(
        "model",
        "dense_256",
        "Dense model that takes the matrix, in tiles where it is smaller: file stem, file name or path for "
        "the driver. Default: dense_256. dense_<size> is written to model_dir unless there is such a file.",
    ),
    Setting(
        "model_dir",
        "",
        "Directory the suite's own graph is written to; must be one of the driver's model_dirs. "
        "Empty (default): edgetpu/models in $ROS_HOME or ~/.ros.",
    ),
    Setting(
        "rescale_rows",
        False,
        "Rewrite the model's multipliers with the weights, so that its output range is used fully. Not yet "
        "tried on silicon. Default: false.",
    ),
    Setting(
        "passes",
        1,
        "Repetitions of every product that average out what rounding takes. Default: 1.",
        1,
        64,
    ),
    Setting(
        "input_type",
        "std_msgs/msg/Float32MultiArray",
        "Type of the messages to subscribe to. Default: std_msgs/msg/Float32MultiArray.",
    ),
    Setting(
        "input_fields",
        "data",
        "Fields of it to read, separated by commas: paths such as angular_velocity.x, with an index or a "
        "slice at the end if wanted, such as data[0::2]. Default: data.",
    ),
    Setting(
        "qos_reliability",
        "best_effort",
        "Reliability of the subscriptions. Default: best_effort, which every publisher satisfies.",
        choices=("best_effort", "reliable"),
    ),
    Setting("qos_depth", 100, "Queue depth of the subscriptions, messages. Default: 100.", 1, 10000),
)


def directory_setting(what: str) -> Setting:
    """Describe the parameter for a node that keeps files."""
    return Setting(
        "directory",
        "",
        f"Directory for files of {what}. Empty (default): edgetpu/{what} in $ROS_HOME or ~/.ros.",
    )


def directory(value: str, what: str) -> Path:
    """Give the directory of that parameter."""
    return Path(value).expanduser() if value else Path(default_model_dir()).parent / what


def provide_model(model: str, model_dir: str) -> None:
    """Put the suite's own graph where the driver finds it, if `model` names one and there is none yet.

    FatalError when it cannot be written.
    """
    directory = Path(model_dir or default_model_dir()).expanduser()
    files = (directory / f"{model}.tflite", directory / f"{model}_edgetpu.tflite")
    if _DENSE.fullmatch(model) is None or any(file.is_file() for file in files):
        return
    try:
        write_file(files[0], build_graph(model, dense.FAMILIES))
    except (EdgeTpuError, OSError) as error:
        raise FatalError(f"cannot write the model {model} to {directory}: {error}") from error
