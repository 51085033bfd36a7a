"""A layer with a bias on a Dense model, which has none."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_vision.learning.layer_as_dense_model import dense_head, head_size
from edgetpu_vision.learning.layer_training import LinearLayer
from edgetpu_vision.learning.taught_examples import ExampleSet

SHOWN = ExampleSet(("a", "b"), np.array([[0.6, 0.8], [0.8, -0.6]]), np.array([0, 1]))
VECTOR = np.array([0.1, 0.2], np.float32)


def layer(bias: float) -> LinearLayer:
    return LinearLayer(np.array([[1.0, 2.0], [-1.0, 0.5]]), np.array([bias, -0.4]))


@pytest.mark.parametrize(("bias", "columns", "constants"), [(0.4, 4, 1), (2.0, 256, 2), (2.0, 3, 1)])
def test_the_bias_rides_on_inputs_held_constant(bias: float, columns: int, constants: int) -> None:
    head = dense_head(layer(bias), SHOWN, columns)
    assert head.matrix.shape == (2, 2 + constants)
    assert head.inputs(VECTOR)[2:].tolist() == [0.8] * constants
    assert not head.host_bias.any()
    outputs = head.outputs(head.matrix @ head.inputs(VECTOR))
    np.testing.assert_allclose(outputs, layer(bias).outputs(VECTOR.astype(float)))


def test_where_no_input_is_free_the_host_adds_the_bias() -> None:
    head = dense_head(layer(0.3), SHOWN, 2)
    assert (head.matrix.shape, head.host_bias.tolist()) == ((2, 2), [0.3, -0.4])
    np.testing.assert_allclose(
        head.outputs(head.matrix @ head.inputs(VECTOR)), layer(0.3).outputs(VECTOR.astype(float))
    )


@pytest.mark.parametrize(
    ("dimension", "size"), [(8, 256), (255, 256), (256, 512), (1001, 1024), (1024, 1024), (1280, 1024)]
)
def test_the_model_is_the_smallest_with_room_for_a_bias(dimension: int, size: int) -> None:
    assert head_size(dimension) == size
