"""The options of a graph's operators as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetpu_driver.files.flatbuffer import Table, table_fields
from edgetpu_driver.tflite.model_reader import OPERATOR, SUBGRAPH, parse_model, read_model_table

Options = Mapping[str, float]

_Field = tuple[str, type[np.generic]]
_PADDING: _Field = "padding", np.int8
_STRIDES: tuple[_Field, ...] = (("stride_w", np.int32), ("stride_h", np.int32))
_ACTIVATION: _Field = "activation", np.int8
_DILATION: tuple[_Field, ...] = (("dilation_w", np.int32), ("dilation_h", np.int32))
_POOL: tuple[_Field, ...] = (_PADDING, *_STRIDES, ("filter_w", np.int32), ("filter_h", np.int32), _ACTIVATION)
_RESIZE: tuple[_Field, ...] = (("align_corners", np.bool_), ("half_pixel_centers", np.bool_))
_KEPT: tuple[_Field, ...] = (("keep_dims", np.bool_),)
_FIELDS: dict[str, tuple[_Field, ...]] = {
    "CONV_2D": (_PADDING, *_STRIDES, _ACTIVATION, *_DILATION),
    "DEPTHWISE_CONV_2D": (_PADDING, *_STRIDES, ("multiplier", np.int32), _ACTIVATION, *_DILATION),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _POOL),
    "SOFTMAX": (("beta", np.float32),),
    "CONCATENATION": (("axis", np.int32), _ACTIVATION),
    **dict.fromkeys(("FULLY_CONNECTED", "ADD", "MUL", "SUB"), (_ACTIVATION,)),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), _KEPT),
    "RESIZE_BILINEAR": (("unused_1", np.int32), ("unused_2", np.int32), *_RESIZE),
    "RESIZE_NEAREST_NEIGHBOR": _RESIZE,
    "LEAKY_RELU": (("alpha", np.float32),),
}
_DEFAULTS = {"dilation_w": 1, "dilation_h": 1}


@dataclass(frozen=True)
class OperatorOptions:
    """The options of one operator."""

    numbers: Options
    """Built-in options by name: "padding", "stride_w", "activation", ..; empty for other operators."""
    custom: bytes
    """The options of a custom operator."""


def read_options(data: bytes) -> tuple[OperatorOptions, ...]:
    """Read the options of the operators of subgraph 0, in order; ModelFormatError for a malformed file."""
    operators = parse_model(data).subgraphs[0].operators
    tables = read_model_table(data).tables("subgraphs", SUBGRAPH)[0].tables("operators", OPERATOR)
    return tuple(
        OperatorOptions(_numbers(operator.name, table), bytes(operator.custom_options))
        for operator, table in zip(operators, tables, strict=True)
    )


def _numbers(name: str, operator: Table) -> Options:
    known = _FIELDS.get(name, ())
    table = operator.table("builtin_options", table_fields(*(field for field, _ in known)))
    values: dict[str, Any] = {}
    for field, dtype in known:
        default = _DEFAULTS.get(field, 0)
        values[field] = default if table is None else table.scalar(field, dtype, default)
    return values
