"""Detectors of one class that give decoded corners, as UltraFace does."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_vision import Detection, Detector, OutputsError
from testdata.pictures.fixed_outputs import FixedOutputs

WIDTH, HEIGHT = 320, 240
IMAGE = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
MAPS = (((30, 40), (10, 16, 24)), ((15, 20), (32, 48)), ((8, 10), (64, 96)), ((4, 5), (128, 192, 256)))
"""Rows and columns, and sizes of the anchors in px, of UltraFace's maps for 320x240 px."""
FACE = (0.25, 0.375, 0.5, 0.75)
"""x_min, y_min, x_max, y_max as parts of the image: multiples of STEP."""
STEP = 1 / 128

Array = NDArray[np.float64]


def anchors() -> Array:
    """X and y of the centre, width and height of all anchors, [4420, 4]."""
    found = []
    for (rows, columns), sizes in MAPS:
        y, x, size = np.meshgrid(np.arange(rows), np.arange(columns), sizes, indexing="ij")
        found.append(np.stack(((x + 0.5) / columns, (y + 0.5) / rows, size / WIDTH, size / HEIGHT), -1))
    return np.concatenate([each.reshape(-1, 4) for each in found])


def corners() -> Array:
    """Boxes beside and around their anchors, as those of the background are; FACE is number 700."""
    chosen = anchors()
    noise = np.random.default_rng(0).normal(0, 1, chosen.shape)
    centres = chosen[:, :2] + 0.1 * noise[:, :2] * chosen[:, 2:]
    halves = np.exp(0.2 * noise[:, 2:]) * chosen[:, 2:] / 2
    found = np.concatenate((centres - halves, centres + halves), axis=1)
    found[700] = FACE
    return found


def probabilities(score: float = 0.75) -> Array:
    found = np.tile([255 / 256, 0.0], (len(anchors()), 1))
    found[700] = 1 - score, score
    return found


def model(boxes: Array, scores: Array, scale: float = STEP, zero_point: int = 64) -> FixedOutputs:
    """The outputs in uint8; the range of the boxes is -0.5..1.49 by default."""
    quantised = (np.rint(boxes / scale) + zero_point).clip(0, 255).astype(np.uint8)[None]
    of_scores = np.rint(scores * 256).clip(0, 255).astype(np.uint8)[None]
    outputs = {"a": (of_scores, 1 / 256, 0), "b": (quantised, scale, zero_point)}
    return FixedOutputs(HEIGHT, WIDTH, outputs)


def test_there_are_as_many_anchors_as_ultraface_has() -> None:
    assert len(anchors()) == 4420


@pytest.mark.parametrize("channels", [[0, 1, 2, 3], [1, 0, 3, 2]], ids=["x first", "y first"])
def test_the_face_is_found(channels: list[int]) -> None:
    found = Detector(model(corners()[:, channels], probabilities())).update(IMAGE).detections
    assert found == (
        Detection(class_id=0, label="", score=0.75, x_min=80.0, y_min=90.0, x_max=160.0, y_max=180.0),
    )


def test_the_first_image_decides_which_coordinate_is_first() -> None:
    engine = model(corners(), probabilities())
    detector = Detector(engine)
    (first,) = detector.update(IMAGE).detections
    boxes = engine._arrays["b"]
    engine._arrays["b"] = np.tile(boxes[:, 700:701], (1, boxes.shape[1], 1))  # which has no rows
    assert detector.update(IMAGE).detections == (first,)


@pytest.mark.parametrize(
    ("boxes", "scores", "message"),
    [
        (corners(), probabilities(0.5) * 0.5, r"two scores whose sum is 1 in 'a' .*; got 0\.5"),
        (anchors(), probabilities(), r"corners in 'b' .*; got a second corner left of or above the first"),
        (
            corners()[np.random.default_rng(0).permutation(4420)],
            probabilities(),
            "boxes along the rows of the image in 'b' .*; got another order",
        ),
    ],
    ids=["scores", "centres", "order"],
)
def test_values_of_another_kind_are_refused_with_the_first_image(
    boxes: Array, scores: Array, message: str
) -> None:
    with pytest.raises(OutputsError, match=f"expected {message}: if the boxes are encoded, the model needs"):
        Detector(model(boxes, scores)).update(IMAGE)


@pytest.mark.parametrize(
    ("scale", "zero_point"),
    [(1 / 16, 128), (1 / 100, 128), (1 / 64, 64), (1.0, 0)],
    ids=["encoded", "around 0", "wide", "px"],
)
def test_boxes_of_another_range_need_anchors(scale: float, zero_point: int) -> None:
    with pytest.raises(ModelUnsupportedError, match=r"need its anchors, .*; boxes that the model decodes to"):
        Detector(model(corners(), probabilities(), scale, zero_point))
