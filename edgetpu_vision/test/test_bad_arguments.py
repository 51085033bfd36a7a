"""Arguments out of range are refused by the constructors of all decoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_vision import BodyPix, Classifier, Detector, Embedder, PoseEstimator, Segmenter


@pytest.mark.parametrize("decoder", [BodyPix, Classifier, Detector, Embedder, PoseEstimator, Segmenter])
@pytest.mark.parametrize("value", [50, -0.1, np.nan])
def test_a_least_confidence_is_a_share(decoder: Callable[..., Any], value: float) -> None:
    with pytest.raises(InputError, match=f"min_confidence: expected 0 to 1; got {value}"):
        decoder(min_confidence=value)


def test_the_size_of_embeddings_needs_a_model() -> None:
    with pytest.raises(ModelUnsupportedError, match=r"expected a model to be bound .*; got none"):
        _ = Embedder().size


def test_a_threshold_of_overlap_is_a_share() -> None:
    with pytest.raises(InputError, match="iou_threshold: expected 0 to 1; got 45"):
        Detector(iou_threshold=45)


@pytest.mark.parametrize("anchors", [[[1, 2], [3]], "anchors.csv", [[0.5, 0.5, np.nan, 1.0]]])
def test_anchors_are_finite_numbers(anchors: Any) -> None:
    with pytest.raises(InputError, match="expected anchors of"):
        Detector(anchors=anchors)
