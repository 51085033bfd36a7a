"""Arrays and tensor specifications as messages and back."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.messages.tensor_messages import (
    from_message,
    inputs_from_messages,
    spec_from_message,
    spec_to_message,
    to_message,
)
from edgetpu_driver.tflite.schema.tflite_enums_generated import TensorType
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_msgs.msg import Tensor

SPEC = TensorSpec("in", (2, 3), np.dtype(np.int16), 0.25, -7)


@pytest.mark.parametrize(
    ("dtype", "code"),
    [
        (np.float32, Tensor.FLOAT32),
        (np.float16, Tensor.FLOAT16),
        (np.int32, Tensor.INT32),
        (np.uint8, Tensor.UINT8),
        (np.int64, Tensor.INT64),
        (np.bool_, Tensor.BOOL),
        (np.int16, Tensor.INT16),
        (np.int8, Tensor.INT8),
        (np.float64, TensorType.FLOAT64),
        (np.uint16, TensorType.UINT16),
        (np.uint32, TensorType.UINT32),
        (np.uint64, TensorType.UINT64),
        (np.complex64, TensorType.COMPLEX64),
        (np.complex128, TensorType.COMPLEX128),
    ],
)
def test_every_dtype_of_a_model_survives_the_round_trip(dtype: type, code: int) -> None:
    values = np.array([[0, 1, 0], [1, 1, 0]], dtype)
    message = to_message(TensorSpec("in", (2, 3), values.dtype, 0.0, 0), values)
    back = from_message(message)
    assert (message.dtype, list(message.shape)) == (code, [2, 3])
    assert (back.dtype, back.tolist()) == (values.dtype, values.tolist())


def test_the_bytes_are_row_major_and_little_endian() -> None:
    values = np.array([[1, 2, 3], [4, 5, 6]], ">i2")
    for laid_out in (values, np.asfortranarray(values)):
        data = to_message(SPEC, laid_out).data
        assert bytes(data) == bytes([1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0])


def test_name_and_quantisation_are_those_of_the_specification() -> None:
    message = to_message(SPEC, np.zeros((2, 3), np.int16))
    assert (message.name, message.scale, message.zero_point) == ("in", 0.25, -7)


def test_values_are_read_without_a_copy() -> None:
    message = to_message(SPEC, np.zeros((2, 3), np.int16))
    view = from_message(message)
    message.data[0] = 9
    assert view[0, 0] == 9


@pytest.mark.parametrize("length", [0, 11, 13])
def test_a_wrong_number_of_bytes_is_refused(length: int) -> None:
    message = Tensor(name="in", dtype=Tensor.INT16, shape=[2, 3], data=bytes(length))
    with pytest.raises(InputError) as failure:
        from_message(message)
    assert str(failure.value) == f"tensor 'in': expected 12 bytes for int16[2, 3]; got {length}"


def test_a_shape_too_large_for_memory_is_refused_by_its_byte_count() -> None:
    with pytest.raises(InputError, match="got 4"):
        from_message(Tensor(dtype=Tensor.UINT8, shape=[2**32 - 1] * 4, data=bytes(4)))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([1] * 33, "tensor 'in': expected at most 32 dimensions; got 33"),
        ([2**32 - 1] * 40000, "tensor 'in': expected at most 32 dimensions; got 40000"),
        ([0] + [2**32 - 1] * 3, "tensor 'in': expected a shape of an array; got [0, 42949672"),
    ],
)
def test_a_shape_that_no_array_has_is_refused(shape: list[int], message: str) -> None:
    data = bytes(0 if 0 in shape else 1)
    with pytest.raises(InputError) as failure:
        from_message(Tensor(name="in", dtype=Tensor.UINT8, shape=shape, data=data))
    assert str(failure.value).startswith(message)


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected a tensor dtype of 0 \(float32\).*; got 5"):
        from_message(Tensor(dtype=5))


def test_an_array_that_no_message_can_carry_is_refused() -> None:
    with pytest.raises(InputError, match=r"got \|S4"):
        to_message(SPEC, np.zeros(3, "S4"))


def test_an_input_that_occurs_twice_is_refused() -> None:
    message = to_message(SPEC, np.zeros((2, 3), np.int16))
    with pytest.raises(InputError, match="got 'in' twice"):
        inputs_from_messages([message, message])


def test_a_specification_survives_the_round_trip() -> None:
    assert spec_from_message(spec_to_message(SPEC)) == SPEC
