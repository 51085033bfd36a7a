"""Convert the driver's exceptions to failed answers of services, and back."""

from __future__ import annotations

from typing import Any

from edgetpu_driver.errors import (
    BusyError,
    ClippingError,
    DependencyMissingError,
    DeviceAccessError,
    DeviceBusyError,
    DeviceError,
    DeviceNotFoundError,
    EdgeTpuError,
    ExpiredError,
    GraphProcessError,
    InputError,
    ModelFormatError,
    ModelNotFoundError,
    ModelUnsupportedError,
    OwnershipError,
    PathRefusedError,
    UnavailableError,
)
from edgetpu_driver.host.requests.admission import LATEST
from edgetpu_driver.node_kit.printable_text import describe, one_line
from edgetpu_msgs.msg import ErrorCode

# The first class that the exception is an instance of decides.
_CODES: tuple[tuple[type[EdgeTpuError], int], ...] = (
    (ModelNotFoundError, ErrorCode.UNKNOWN_MODEL),
    (ClippingError, ErrorCode.REFUSED),
    (InputError, ErrorCode.BAD_INPUT),
    (GraphProcessError, ErrorCode.DEVICE),
    (ModelFormatError, ErrorCode.BAD_MODEL),
    (ModelUnsupportedError, ErrorCode.BAD_MODEL),
    (DependencyMissingError, ErrorCode.BAD_MODEL),
    (PathRefusedError, ErrorCode.REFUSED),
    (OwnershipError, ErrorCode.REFUSED),
    (ExpiredError, ErrorCode.EXPIRED),
    (BusyError, ErrorCode.BUSY),
    (UnavailableError, ErrorCode.UNAVAILABLE),
    (DeviceNotFoundError, ErrorCode.UNAVAILABLE),
    (DeviceAccessError, ErrorCode.UNAVAILABLE),
    (DeviceBusyError, ErrorCode.UNAVAILABLE),
)

_EXCEPTIONS: dict[int, type[EdgeTpuError]] = {
    ErrorCode.UNKNOWN_MODEL: ModelNotFoundError,
    ErrorCode.BAD_INPUT: InputError,
    ErrorCode.BAD_MODEL: ModelUnsupportedError,
    ErrorCode.REFUSED: PathRefusedError,
    ErrorCode.UNAVAILABLE: UnavailableError,
    ErrorCode.DEVICE: DeviceError,
    ErrorCode.EXPIRED: ExpiredError,
    ErrorCode.BUSY: BusyError,
}

_LASTING = {ErrorCode.UNKNOWN_MODEL, ErrorCode.BAD_INPUT, ErrorCode.BAD_MODEL, ErrorCode.REFUSED}


def _code_of(error: BaseException) -> ErrorCode:
    """Return the code for an exception; DEVICE for an unexpected one."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return ErrorCode(value=code)
    return ErrorCode(value=ErrorCode.DEVICE)


def write_error(answer: Any, error: Exception) -> Any:
    """Write into the answer of a service why the request failed, in the fields that it has, and return it.

    error: an EdgeTpuError; any other exception counts as unexpected.
    """
    fields = answer.get_fields_and_field_types()
    text = one_line(error) if isinstance(error, EdgeTpuError) else describe(error)
    for field, value in (("success", False), ("message", text)):
        if field in fields:
            setattr(answer, field, value)
    if fields.get("error") == "edgetpu_msgs/ErrorCode":
        answer.error = _code_of(error)
        if isinstance(error, BusyError) and "retry_after" in fields:
            answer.retry_after = float(error.retry_after)
        if isinstance(error, ClippingError) and "clipped" in fields:
            answer.clipped = error.clipped
    return answer


def is_lasting(error: BaseException) -> bool:
    """Whether the same request fails until a user changes the file, a parameter or another client's model."""
    return _code_of(error).value in _LASTING


def answer_error(response: Any) -> EdgeTpuError:
    """Return the exception for a failed response, with its `retry_after` if it is BUSY."""
    if response.error.value == ErrorCode.BUSY:
        # In this order NaN becomes 0. A driver of this suite stays within these limits.
        return BusyError(response.message, min(max(0.0, response.retry_after), LATEST))
    return _EXCEPTIONS.get(response.error.value, EdgeTpuError)(response.message)
