"""The embedder: vectors of unit length."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision import Embedder, OutputsError
from testdata.pictures.fixed_outputs import IMAGE, fixed, spec


def test_a_vector_has_unit_length() -> None:
    model = fixed({spec("features", (1, 2)): np.array([[3, 4]], np.float32)})
    result = Embedder(model).update(IMAGE, 1.5)
    np.testing.assert_allclose(result.vector, [0.6, 0.8], rtol=1e-6)
    assert (result.stamp, result.valid, result.vector.dtype) == (1.5, True, np.float32)


def test_quantised_features_are_counted_from_their_zero_point() -> None:
    tensor = spec("features", (1, 1, 1, 2), np.uint8, 0.5, 10)
    result = Embedder(fixed({tensor: np.array([13, 14], np.uint8).reshape(1, 1, 1, 2)})).update(IMAGE)
    np.testing.assert_allclose(result.vector, [0.6, 0.8], rtol=1e-6)


def test_a_map_of_features_is_averaged() -> None:
    values = np.zeros((1, 1, 2, 8), np.float32)
    values[0, 0, :, :2] = [[1, 0], [5, 8]]
    result = Embedder(fixed({spec("map", (1, 1, 2, 8)): values})).update(IMAGE)
    np.testing.assert_allclose(result.vector, [0.6, 0.8, *[0] * 6], rtol=1e-6)


def test_a_map_with_the_channels_first_is_averaged() -> None:
    values = np.zeros((1, 16, 3, 3), np.float32)
    values[0, :2] = [[[3]], [[4]]]
    result = Embedder(fixed({spec("map", (1, 16, 3, 3)): values})).update(IMAGE)
    np.testing.assert_allclose(result.vector, [0.6, 0.8, *[0] * 14], rtol=1e-6)


def test_a_vector_may_have_further_axes_behind_it() -> None:
    model = fixed({spec("features", (1, 2, 1, 1)): np.array([3, 4], np.float32).reshape(1, 2, 1, 1)})
    np.testing.assert_allclose(Embedder(model).update(IMAGE).vector, [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_a_vector_without_direction_is_not_valid(value: float) -> None:
    result = Embedder(fixed({spec("features", (1, 3)): np.full((1, 3), value, np.float32)})).update(IMAGE)
    assert (result.valid, result.confidence, result.vector.tolist()) == (False, 0.0, [0, 0, 0])


def test_an_output_of_another_size_is_an_error() -> None:
    embedder = Embedder(fixed({spec("features", (1, 3)): np.ones((1, 3), np.float32)}))
    with pytest.raises(OutputsError, match=r"expected 'features' float32\[1, 3\]; got float32\[7\]"):
        embedder.postprocess(embedder.preprocess(IMAGE), {"features": np.ones(7, np.float32)})


def test_several_outputs_need_a_name() -> None:
    outputs = {spec(name, (1, 2)): np.ones((1, 2), np.float32) for name in ("a", "b")}
    with pytest.raises(ModelUnsupportedError, match=r"that is a feature vector; got 'a'.*name the one"):
        Embedder(fixed(outputs))
    assert Embedder(fixed(outputs), output="a").size == 2


@pytest.mark.parametrize(
    "tensor",
    [
        spec("labels", (1, 8, 8), np.int64),
        spec("rows", (1, 84, 2100)),
        spec("x", ()),
        spec("y", (1, 1)),
        spec("k", (1, 1, 17, 3)),
    ],
    ids=str,
)
def test_other_outputs_are_no_features(tensor: TensorSpec) -> None:
    with pytest.raises(ModelUnsupportedError, match="one output that is a feature vector; got"):
        Embedder(fixed({tensor: np.zeros(tensor.shape, tensor.dtype)}))
