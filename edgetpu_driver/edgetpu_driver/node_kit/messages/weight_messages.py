"""Weights in the messages of ~/set_weights."""

from __future__ import annotations

from array import array
from math import prod

import numpy as np

from edgetpu_driver.errors import ClippingError, EdgeTpuError, InputError
from edgetpu_driver.node_kit.messages.error_codes import answer_error
from edgetpu_driver.node_kit.messages.tensor_messages import LARGEST_RANK, dtype_code, dtype_of
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult
from edgetpu_msgs.srv import SetWeights


def set_weights_request(model: str, request: WeightRequest) -> SetWeights.Request:
    """Ask for new weights of a model."""
    values = np.ascontiguousarray(request.weights, np.float32)
    message = SetWeights.Request(
        model=model,
        tensor=request.tensor,
        shape=list(values.shape),
        accept_clipping=request.accept_clipping,
        rescale_rows=request.rescale_rows,
    )
    message.weights = array("f", values.tobytes())
    if request.bias is not None:
        message.bias = array("f", np.ascontiguousarray(request.bias, np.float32).tobytes())
    return message


def weight_request(message: SetWeights.Request) -> WeightRequest:
    """Take the weights out of a request; InputError if their number does not fit the shape."""
    values = np.frombuffer(message.weights, np.float32)
    if len(message.shape) > LARGEST_RANK:
        raise InputError(f"expected at most {LARGEST_RANK} dimensions; got {len(message.shape)}")
    shape = [int(size) for size in message.shape]
    if not shape:
        raise InputError("expected the shape of the weights, such as [rows, columns]; got none")
    if prod(shape) != values.size:
        raise InputError(f"expected as many weights as shape {shape} has; got {values.size}")
    try:
        weights = values.reshape(shape)
    except ValueError:  # no values, and sizes that NumPy does not take
        raise InputError(f"expected the shape of an array; got {shape}") from None
    return WeightRequest(
        weights,
        message.tensor,
        message.accept_clipping,
        message.rescale_rows,
        bias=np.frombuffer(message.bias, np.float32) if len(message.bias) else None,
    )


def fill_weight_result(response: SetWeights.Response, swap: WeightResult) -> None:
    """Write the result of a swap into an answer."""
    response.weights_version = swap.version
    response.largest_shape = list(swap.shape)
    response.row_scales = array("f", swap.row_scales.astype(np.float32).tobytes())
    response.clipped = swap.clipped
    response.worst_error = swap.worst_error
    response.rms_error = swap.rms_error
    response.is_matmul = swap.is_pure_matmul
    response.worst_bias_error = swap.worst_bias_error
    response.weight_dtype = dtype_code(swap.dtype)
    response.weight_zero_point = swap.zero_point


def weight_result(response: SetWeights.Response) -> WeightResult | EdgeTpuError:
    """Read the result of a swap from an answer, or why there was none."""
    if not response.success:
        if response.clipped:
            return ClippingError(response.message, response.clipped)
        return answer_error(response)
    try:
        dtype = dtype_of(response.weight_dtype)
    except InputError as error:
        return error
    return WeightResult(
        version=response.weights_version,
        row_scales=np.array(response.row_scales, np.float32),
        clipped=response.clipped,
        worst_error=response.worst_error,
        rms_error=response.rms_error,
        shape=tuple(int(size) for size in response.largest_shape),
        is_pure_matmul=response.is_matmul,
        worst_bias_error=response.worst_bias_error,
        dtype=dtype,
        zero_point=response.weight_zero_point,
    )
