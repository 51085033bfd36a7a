"""Malformed messages, like those from a damaged bag, a broken publisher or a buggy client."""

from __future__ import annotations

import array
import random
from typing import Any

from rclpy.serialization import serialize_message
from sensor_msgs.msg import CameraInfo, Image, JointState

from edgetpu_msgs.msg import Tensor
from edgetpu_msgs.srv import Invoke, LoadModel, MatMul, SetWeights

_LENGTH_OF_FRAME_ID = 12
"""Offset of the length of frame_id, bytes, in a serialised message that begins with a header."""
_NAN, _INFINITY = float("nan"), float("inf")


def message_of(topic: str) -> Any:
    """A well-formed message of the type of a topic."""
    if topic.endswith("/image"):
        message = Image(height=24, width=32, encoding="rgb8", step=96, data=array.array("B", bytes(24 * 96)))
    elif topic.endswith("/camera_info"):
        message = CameraInfo(height=240, width=320, k=[_NAN, 0.0, 0.0, 0.0, _INFINITY, 0.0, 0.0, 0.0, 1.0])
    else:
        message = JointState(position=[_NAN])
    message.header.frame_id = "malformed"
    return message


def damaged(topic: str, damage: str, chance: random.Random) -> Any:
    """A message of the topic's type with this damage, as a message or as serialised bytes."""
    message = message_of(topic)
    if damage in ("truncated", "flipped"):
        return _damaged_bytes(bytes(serialize_message(message)), damage, chance)
    if damage == "short":
        message.data = array.array("B", bytes(chance.randrange(24 * 96)))
    elif damage == "encoding":
        message.encoding = chance.choice(("", "rgb", "64FC17", "x" * 1000))
    elif damage == "empty":
        message.height = message.width = message.step = 0
        message.data = array.array("B")
    return message


def _damaged_bytes(data: bytes, damage: str, chance: random.Random) -> bytes:
    if damage == "truncated":
        return data[: chance.randrange(4, min(len(data), 60))]
    return data[:_LENGTH_OF_FRAME_ID] + b"\xff\xff\xff\xff" + data[_LENGTH_OF_FRAME_ID + 4 :]


def bad_request(kind: str, model: str, chance: random.Random) -> tuple[str, Any]:
    """A service and a request that the driver must refuse. model: name of a loaded Dense model of 64 rows."""
    if kind == "model":
        return "load_model", LoadModel.Request(model=chance.choice(("no_such_model", "../../etc/passwd", "")))
    if kind == "weights":
        return "set_weights", SetWeights.Request(model=model, shape=[64, 64], weights=[_NAN] * 4096)
    if kind == "batch":
        return "matmul", MatMul.Request(model=model, batch=2**32 - 1, inputs=[1.0] * 64)
    tensor = Tensor(name="x", dtype=Tensor.UINT8, shape=[1, 64], data=array.array("B", bytes(64)))
    if kind == "shape":
        tensor.shape = chance.choice(([64], [2**31, 2**31], [1] * 100))
    elif kind == "dtype":
        tensor.dtype = 200
    elif kind == "size":
        tensor.data = array.array("B", bytes(chance.randrange(64)))
    return "invoke", Invoke.Request(model=model, inputs=[tensor])
