"""Models as messages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.node_kit.messages.tensor_messages import spec_to_message
from edgetpu_driver.nodes.model_messages import model_info
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_msgs.msg import ModelInfo


def test_a_model_on_its_way_has_the_tensors_that_its_file_names() -> None:
    numbers, sums = (TensorSpec(name, (1, 4), np.dtype(np.int8), 0.5, 3) for name in ("numbers", "sums"))
    model = HostedModel("sums", [Path("/models/sums.tflite")])
    model.tensors_of_file = (numbers,), (sums,)
    info = model_info(model)
    assert (info.state, info.inputs, info.outputs) == (
        ModelInfo.QUEUED,
        [spec_to_message(numbers)],
        [spec_to_message(sums)],
    )


def test_what_runs_a_model_on_its_way_is_unknown() -> None:
    assert model_info(HostedModel("sums", [Path("/models/sums.tflite")])).parts == []
