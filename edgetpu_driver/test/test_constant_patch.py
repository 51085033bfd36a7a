"""Replacing constants of a .tflite file in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import InputError, ModelFormatError
from edgetpu_driver.tflite.constant_patch import replace_tensor
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import parse_model
from testdata import ModelFolder


def product(weights: Any, bias: Any) -> bytes:
    graph = GraphBuilder()
    x = graph.input("x", (1, 3), np.int8, scale=1, zero_point=0)
    graph.output(graph.fully_connected(x, weights, 1, bias=bias, scale=1, zero_point=0, name="y"))
    return graph.build()


def test_a_patched_file_is_the_file_built_with_those_values() -> None:
    old = product([[1, 2, 3], [4, 5, 6]], [7, 8])
    new_weights = np.array([[-128, 127, 0], [1, 1, 1]], np.int64)
    patched = replace_tensor(replace_tensor(old, "y/weights", new_weights), "y/bias", [-1, 70_000])
    assert patched == product(new_weights, [-1, 70_000])


def test_a_real_graph_takes_other_weights(golden: ModelFolder) -> None:
    data = golden.model("dense_256.tflite").read_bytes()
    weights = np.eye(256, dtype=np.int8)
    patched = replace_tensor(data, "tfl.pseudo_qconst", weights)
    assert len(patched) == len(data)
    assert parse_model(patched).subgraphs[0].tensors[1].data == weights.tobytes()


@pytest.mark.parametrize(
    ("tensor", "values", "message"),
    [
        ("z", [1], "one constant tensor 'z' in the model, found 0"),
        ("x", [[1, 2, 3]], "one constant tensor 'x' in the model, found 0"),
        ("y/bias", [1, 2, 3], r"expected 'y/bias' int32\[2\], got values of shape \[3\]"),
        ("y/weights", np.full((2, 3), 128), "values that int8 can hold for 'y/weights', got int64"),
        ("y/weights", np.full((2, 3), 0.5), "values that int8 can hold for 'y/weights', got float64"),
        ("y/weights", np.full((2, 3), np.nan), "values that int8 can hold"),
    ],
)
def test_mismatching_arguments_are_refused(tensor: str, values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace_tensor(product([[1, 2, 3], [4, 5, 6]], [7, 8]), tensor, values)


def test_a_malformed_file_is_refused() -> None:
    with pytest.raises(ModelFormatError):
        replace_tensor(b"not a model", "y", [1])
