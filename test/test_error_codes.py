"""How an exception becomes the failed answer of a service, and that an exception again."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from std_srvs.srv import Trigger

from edgetpu_driver.errors import BusyError, ClippingError, DeviceError, EdgeTpuError, InputError
from edgetpu_driver.node_kit.messages.error_codes import answer_error, write_error
from edgetpu_driver.node_kit.messages.weight_messages import weight_result
from edgetpu_msgs.msg import ErrorCode
from edgetpu_msgs.srv import Invoke, LoadModel, SetColor, SetWeights


@pytest.mark.parametrize(
    ("kind", "error", "code"),
    [
        (Invoke, InputError("expected 'x'"), ErrorCode.BAD_INPUT),
        (SetColor, DeviceError("the stick is gone"), ErrorCode.DEVICE),
        (LoadModel, BusyError("100 models wait", 2.5), ErrorCode.BUSY),
    ],
)
def test_an_error_comes_back_as_it_was(kind: Any, error: EdgeTpuError, code: int) -> None:
    answer = write_error(kind.Response(), error)
    assert (answer.success, answer.error.value) == (False, code)
    read = answer_error(answer)
    assert (type(read), str(read)) == (type(error), str(error))
    assert getattr(read, "retry_after", None) == getattr(error, "retry_after", None)


def test_a_refusal_to_clip_tells_how_many_values_were_beyond_the_range() -> None:
    answer = write_error(SetWeights.Response(), ClippingError("expected weights of at most 1", 3))
    assert (answer.error.value, answer.clipped) == (ErrorCode.REFUSED, 3)
    read = weight_result(answer)
    assert isinstance(read, ClippingError)
    assert (str(read), read.clipped) == ("expected weights of at most 1", 3)


def test_an_answer_without_a_field_for_errors_has_the_message() -> None:
    answer = write_error(Trigger.Response(), BusyError("too\nmany", 1.0))
    assert (answer.success, answer.message) == (False, "too many")


def test_an_unexpected_error_is_called_so() -> None:
    answer = write_error(Invoke.Response(), KeyError("y"))
    assert (answer.message, answer.error.value) == ("unexpected KeyError: 'y'", ErrorCode.DEVICE)
