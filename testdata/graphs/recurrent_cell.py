"""A graph whose state LiteRT keeps: a cell whose output is the sum of its input and its last output."""

from __future__ import annotations

import numpy as np

from edgetpu_driver.tflite.model_reader import Tensor
from edgetpu_driver.tflite.model_writer import OperatorRecord, write_model


def recurrent_cell() -> bytes:
    """A graph from float32 "x" [1, 1] to "y" [1, 1], the sum of all inputs since the state was zero."""
    tensors = [
        _tensor("x", (1, 1)),
        _tensor("weights", (1, 1), 1.0),
        _tensor("recurrent_weights", (1, 1), 1.0),
        _tensor("bias", (1,), 0.0),
        _tensor("state", (1, 1), state=True),
        _tensor("y", (1, 1)),
    ]
    return write_model("cell", tensors, [OperatorRecord("RNN", 1, (0, 1, 2, 3, 4), (5,))], [0], [5])


def _tensor(name: str, shape: tuple[int, ...], value: float | None = None, state: bool = False) -> Tensor:
    data = b"" if value is None else np.full(shape, value, np.float32).tobytes()
    return Tensor(name, shape, np.dtype(np.float32), data=data, is_variable=state)
