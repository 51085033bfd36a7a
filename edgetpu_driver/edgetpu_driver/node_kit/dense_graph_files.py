"""The graphs of Dense models that nodes write for the driver, and the parameter for their directory."""

from __future__ import annotations

import os
import re

from edgetpu_driver.errors import EdgeTpuError, reason_of
from edgetpu_driver.files.default_paths import default_model_dir
from edgetpu_driver.files.file_access import user_path, write_file
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.toolchain.graph_family import build_graph

_DENSE = re.compile(r"dense_\d+")

MODEL_DIR = Setting(
    "model_dir",
    "",
    "Directory the suite's own graph is written to; must be one of the driver's model_dirs. "
    "Empty: edgetpu/models in $ROS_HOME or ~/.ros.",
)


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
        raise FatalError(f"cannot write the model {model} to {directory}: {reason_of(error)}") from error
