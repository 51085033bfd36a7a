"""Outputs of int16, whose range is symmetric whether the values are probabilities, logits or boxes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision import Classifier, Detector, ModelDescription
from edgetpu_vision.output_values import always_probabilities, like_logistic, within_0_and_1
from testdata.graphs.exported_detectors import CAT, CELLS, DOG, IMAGE, SIZE, check, rows
from testdata.pictures.fixed_outputs import FixedOutputs, fixed, spec

LOGISTIC = 1 / 32768
"""Scale of 16-bit outputs of LOGISTIC and SOFTMAX (TFLite)."""


def of_16_bits(shape: tuple[int, ...], scale: float) -> TensorSpec:
    return spec("out", shape, np.int16, scale)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [(LOGISTIC, True), (0.9 / 32767, None), (1.02 / 32767, None), (1.03 / 32767, False), (1 / 1000, False)],
)
def test_the_scale_tells_probabilities_from_logits(scale: float, expected: bool | None) -> None:
    output = of_16_bits((1, 4), scale)
    assert always_probabilities(output) is expected
    assert like_logistic(output) == (scale == LOGISTIC)


def test_a_float_output_is_like_the_16_bits_behind_it() -> None:
    description = ModelDescription(dequantised_outputs={"out": of_16_bits((1, 4), 1 / 1000)})
    assert description.are_probabilities(spec("out", (1, 4))) is False


@pytest.mark.parametrize(("values", "expected"), [([0, 32767], True), ([-1, 9], False)])
def test_real_values_are_compared_with_0_and_1(values: list[int], expected: bool) -> None:
    assert within_0_and_1(np.array(values, np.int16), of_16_bits((1, 2), 1 / 32767)) is expected


def classified(values: list[int], scale: float) -> list[tuple[int, float]]:
    array = np.array([values], np.int16)
    result = Classifier(fixed({of_16_bits(array.shape, scale): array})).update(IMAGE)
    return [(each.class_id, round(each.score, 6)) for each in result.classes]


def test_the_classifier_takes_the_output_of_softmax_as_it_is() -> None:
    assert classified([8192, 24576], LOGISTIC) == [(1, 0.75), (0, 0.25)]


def test_the_classifier_takes_values_up_to_1_of_another_scale_as_probabilities() -> None:
    assert classified([8000, 2000], 1 / 40000) == [(0, 0.2), (1, 0.05)]


@pytest.mark.parametrize("values", [[1000, -1000], [20000, 18000]])
def test_the_classifier_takes_a_range_beyond_1_as_logits(values: list[int]) -> None:
    assert classified(values, 1 / 1000) == [(0, 0.880797), (1, 0.119203)]


def test_one_value_is_a_probability_a_logit_or_refused() -> None:
    assert classified([24576], LOGISTIC) == [(1, 0.75), (0, 0.25)]
    assert classified([2000], 1 / 1000) == [(1, 0.880797), (0, 0.119203)]
    with pytest.raises(ModelUnsupportedError, match="a value for each class"):
        classified([2000], 1 / 40000)


def model(scale: float, **outputs: NDArray[np.float64]) -> FixedOutputs:
    arrays = {
        name: (np.rint(each / scale).clip(-32768, 32767).astype(np.int16)[None], scale, 0)
        for name, each in outputs.items()
    }
    return FixedOutputs(SIZE, SIZE, arrays)


@pytest.mark.parametrize("classes", [12, 67])
def test_rows_of_boxes_and_probabilities_are_not_taken_for_distributions(classes: int) -> None:
    check(Detector(model(1 / 30000, rows=rows(CELLS, 4 + classes))).update(IMAGE).detections)


def test_boxes_in_px_share_16_bits_with_scores() -> None:
    values = rows(CELLS, 4 + 12)
    values[:, :4] *= SIZE
    found = Detector(model(SIZE / 32767, rows=values)).update(IMAGE).detections
    assert [each.class_id for each in found] == [CAT[0], DOG[0]]
    assert [each.score for each in found] == pytest.approx([CAT[1], DOG[1]], abs=SIZE / 65534 + 1e-6)


@pytest.mark.parametrize("scale", [1 / 1000, LOGISTIC], ids=["logits", "probabilities"])
def test_classes_apart_from_boxes_are_logits_or_probabilities(scale: float) -> None:
    values = rows(CELLS, 4 + 12)
    classes = values[:, 4:]
    if scale > LOGISTIC:
        classes = np.log(classes.clip(1e-9, None) / (1 - classes)).clip(-20, 20)
    boxes = (np.rint(values[None, :, :4] * 20000).astype(np.int16), 1 / 20000, 0)
    scores = (np.rint(classes / scale).astype(np.int16)[None], scale, 0)
    found = Detector(FixedOutputs(SIZE, SIZE, {"boxes": boxes, "classes": scores})).update(IMAGE)
    assert [each.class_id for each in found.detections] == [CAT[0], DOG[0]]
    assert [each.score for each in found.detections] == pytest.approx([CAT[1], DOG[1]], abs=2e-4)
