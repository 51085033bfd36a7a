"""YOLOv3, YOLOv4 and their tiny versions before the last step, against the definitions of their authors.

"YOLOv3: An Incremental Improvement" (Redmon and Farhadi, 2018): b_x = sigma(t_x) + c_x, b_w = p_w exp(t_w).
YOLOv4 (Bochkovskiy, Wang and Liao, 2020) has s sigma(t_x) - (s - 1) / 2 instead of sigma(t_x), with scale_x_y
for s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_vision import Detection, Detector
from testdata.pictures.fixed_outputs import FixedOutputs

HEIGHT, WIDTH = 320, 416
CLASSES = 3
FULL = {
    8: ((10, 13), (16, 30), (33, 23)),
    16: ((30, 61), (62, 45), (59, 119)),
    32: ((116, 90), (156, 198), (373, 326)),
}
"""Width and height of the anchors by stride, px: yolov3.cfg."""
TINY = {16: ((10, 14), (23, 27), (37, 58)), 32: ((81, 82), (135, 169), (344, 319))}
"""The same of yolov3-tiny.cfg."""
FULL_V4 = {
    8: ((12, 16), (19, 36), (40, 28)),
    16: ((36, 75), (76, 55), (72, 146)),
    32: ((142, 110), (192, 243), (459, 401)),
}
"""The same of yolov4.cfg."""
TINY_V4 = {16: ((23, 27), (37, 58), (81, 82)), 32: ((81, 82), (135, 169), (344, 319))}
"""The same of yolov4-tiny.cfg."""


def maps(anchors: dict[int, Any]) -> list[NDArray[np.float32]]:
    """Maps that show one object of class 2 with the second anchor of the grid of 16 px."""
    result = []
    for stride, shapes in anchors.items():
        part = np.full((1, HEIGHT // stride, WIDTH // stride, len(shapes), 5 + CLASSES), -8, np.float32)
        if stride == 16:
            part[0, 7, 11, 1] = (0.5, -1, 0.25, -0.5, 4, -8, -8, 3)
        result.append(part.reshape(*part.shape[:3], -1))
    return result


def check(found: tuple[Detection, ...], anchor: tuple[int, int], scale_x_y: float = 1.0) -> None:
    def logistic(value: float) -> float:
        return float(1 / (1 + np.exp(-value)))

    (each,) = found
    assert each.class_id == 2
    assert each.score == pytest.approx(logistic(4) * logistic(3), abs=1e-5)
    x, y = (scale_x_y * logistic(value) - (scale_x_y - 1) / 2 for value in (0.5, -1))
    center = (x + 11) * 16, (y + 7) * 16
    size = anchor[0] * np.exp(0.25), anchor[1] * np.exp(-0.5)
    assert (*each.center, each.width, each.height) == pytest.approx((*center, *size), abs=1e-3)


def detected(parts: list[Any], **options: Any) -> tuple[Detection, ...]:
    model = FixedOutputs(HEIGHT, WIDTH, {f"output{number}": part for number, part in enumerate(parts)})
    return Detector(model, **options).update(np.zeros((HEIGHT, WIDTH, 3), np.uint8)).detections


@pytest.mark.parametrize("anchors", [FULL, TINY], ids=["three grids", "tiny"])
def test_the_maps_of_yolov3_are_named(anchors: dict[int, Any]) -> None:
    check(detected(maps(anchors)[::-1], head="yolov3"), anchors[16][1])


@pytest.mark.parametrize(
    ("anchors", "scale_x_y"), [(FULL_V4, 1.1), (TINY_V4, 1.05)], ids=["three grids", "tiny"]
)
def test_the_maps_of_yolov4_are_named(anchors: dict[int, Any], scale_x_y: float) -> None:
    check(detected(maps(anchors), head="yolov4"), anchors[16][1], scale_x_y)


def test_8_bit_maps_of_yolov3() -> None:
    scale, zero_point = 1 / 16, 0
    parts = [(np.rint(part / scale).astype(np.int8), scale, zero_point) for part in maps(TINY)]
    check(detected(parts, head="yolov3"), TINY[16][1])


def test_other_anchors_may_be_given() -> None:
    check(detected(maps(TINY), head="yolov3", anchors=np.array([*TINY.values()]) * 2), (46, 54))


def test_maps_of_two_grids_ask_for_the_name() -> None:
    with pytest.raises(
        ModelUnsupportedError, match=r"outputs of a YOLOv3 or v4, name the head yolov3 or yolov4$"
    ):
        detected(maps(TINY))
