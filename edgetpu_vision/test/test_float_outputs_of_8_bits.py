"""Float outputs that a graph dequantises at its end: the 8 bits behind them tell what the values are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import Operator, Quantization, Subgraph, Tensor
from edgetpu_vision import Detections, ModelDescription, PoseEstimator, Segmenter, describe
from edgetpu_vision.model_description.graph_facts import graph_facts
from testdata.graphs.exported_detectors import CELLS, IMAGE, SIZE, STEP, detector, rows
from testdata.graphs.exported_graphs import Values, exported_graph
from testdata.pictures.fixed_outputs import spec

TOO_COARSE = [
    (CELLS, 84, SIZE / 255),  # YOLOv8 with px
    (3 * CELLS, 85, SIZE / 255),  # YOLOv5 with px
    (300, 6, 79 / 255),  # end-to-end, with numbers of classes
]
"""Rows and channels of an output, and its scale."""


@pytest.mark.parametrize(("count", "channels", "scale"), TOO_COARSE)
def test_px_or_class_numbers_that_share_8_bits_with_scores_are_refused(
    tmp_path: Path, count: int, channels: int, scale: float
) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    outputs = {"rows": Values(np.zeros((1, count, channels)), scale)}
    expected = rf"at most 1/32 .* steps of {scale:.3g} in 'rows in float' float32\[1, {count}, {channels}\]"
    with pytest.raises(ModelUnsupportedError, match=expected):
        detector(tmp_path, outputs, dequantized=True)


@pytest.mark.parametrize("shape", [(1, 56, CELLS), (1, 300, 57)], ids=str)
def test_keypoints_in_px_that_share_8_bits_with_scores_are_refused(shape: tuple[int, ...]) -> None:
    description = describe([exported_graph(SIZE, SIZE, {"rows": Values(np.zeros(shape), SIZE / 255)}, True)])
    outputs = [spec("rows in float", shape)]
    with pytest.raises(ModelUnsupportedError, match=r"at most 1/32 .* steps of 0\.627 in 'rows in float'"):
        PoseEstimator(description=description).bind([spec("image", (1, SIZE, SIZE, 3), np.int8)], outputs)


def same(first: Detections, second: Detections) -> bool:
    """Whether both have the same objects, of which there is one at least."""
    return bool(first.detections) and first.detections == second.detections


def test_distributions_and_logits_of_any_number_of_classes_are_recognised(tmp_path: Path) -> None:
    values = np.zeros((CELLS, 64 + 3))
    values[:, 64:] = -8.0
    values[0, 2:64:16], values[0, 64 + 1] = 8.0, 3.0
    outputs = {"rows": Values(values[None], 1 / 12, 0)}
    found = [detector(tmp_path, outputs, dequantized=each).update(IMAGE) for each in (False, True)]
    assert same(*found)
    assert [each.class_id for each in found[1].detections] == [1]


def test_64_classes_are_not_mistaken_for_distributions(tmp_path: Path) -> None:
    values = rows(CELLS, 4 + 64)
    outputs = {"classes": Values(values[None, :, 4:], 1 / 256), "boxes": Values(values[None, :, :4], STEP)}
    assert same(*(detector(tmp_path, outputs, dequantized=each).update(IMAGE) for each in (False, True)))


def test_an_angle_is_not_mistaken_for_a_class(tmp_path: Path) -> None:
    outputs = {"rows": Values(np.zeros((1, 20, CELLS)), 1 / 80, -60)}
    with pytest.raises(
        ModelUnsupportedError, match=r"in 'rows in float' .* a range from -0\.85: .*yolov8_obb"
    ):
        detector(tmp_path, outputs, dequantized=True)


@pytest.mark.parametrize("dequantized", [False, True], ids=["int8", "float"])
@pytest.mark.parametrize(("real", "label"), [(0.4, 1), (-0.4, 0)])
def test_weak_logits_of_all_pixels_are_not_mistaken_for_probabilities(
    tmp_path: Path, real: float, label: int, dequantized: bool
) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    file = tmp_path / "floor.tflite"
    file.write_bytes(
        exported_graph(8, 8, {"map": Values(np.full((1, 8, 8, 1), real), 1 / 20, 0)}, dequantized)
    )
    assert np.unique(Segmenter(file).update(np.zeros((8, 8, 3), np.uint8)).labels).tolist() == [label]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_the_integers_behind_a_float_output_are_found(dtype: Any) -> None:
    steps = Quantization(np.array([1 / 256], np.float32), np.array([0]))
    inside = Tensor("inside", (1, 4), np.dtype(dtype), quantization=steps)
    output = Tensor("output", (1, 4), np.dtype(np.float32))
    graph = Subgraph("", (inside, output), (0,), (1,), (Operator("DEQUANTIZE", "", (0,), (1,)),))
    assert graph_facts(graph).dequantised_outputs == {"output": inside.spec}


def test_the_quantisation_of_an_output_is_its_own_or_that_behind_it() -> None:
    inside, output = spec("inside", (1, 4), np.int8, 0.5, 3), spec("output", (1, 4))
    description = ModelDescription(dequantised_outputs={"output": inside})
    assert description.quantised(output) is inside
    assert description.quantised(inside) is inside
