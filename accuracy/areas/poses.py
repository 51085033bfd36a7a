"""Poses of real models in real pictures, compared with the reference poses that the vendor publishes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.photographs import color_photograph
from edgetpu_driver import CompiledModel, EdgeTpu, Model, VirtualEdgeTpu
from edgetpu_vision import Pose, PoseEstimator
from measured_figures.row import Row
from testdata import GOLDEN
from testdata.pictures.pose_references import ReferencePose, read_reference_poses

AREA = "poses"
_SCORES = "largest error of a score"


@dataclass(frozen=True)
class _Case:
    """A model with the picture of its reference poses."""

    graph: str
    compiled: str
    reference: str
    """Common start of the names of the two files with reference poses: for the graph and for a stick."""
    picture: str
    distance: float
    """Largest allowed error of a keypoint, as a share of the image's size."""
    score: float | None
    """Largest allowed error of a score; None where the references themselves differ by 0.4."""


_CASES = {
    "PoseNet 353x481": _Case(
        "models/posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite",
        "models/posenet_mobilenet_v1_075_353_481_16_quant_decoder_edgetpu.tflite",
        "vision/references/posenet_mobilenet_v1_075_353_481_16_quant_decoder",
        "vision/pictures/test_image.bmp",
        0.01,
        0.02,
    ),
    "MoveNet lightning": _Case(
        "vision/movenet_single_pose_lightning_ptq.tflite",
        "models/movenet_single_pose_lightning_ptq_edgetpu.tflite",
        "vision/references/movenet_single_pose_lightning_ptq",
        "vision/pictures/squat.bmp",
        0.05,
        None,
    ),
}


def measure(engine: str, quick: bool = False) -> list[Row]:
    """Rows for each model and each of its files of reference poses.

    `quick`: errors of scores have no limit. A change of a single grey level of the input changes a score by
    0.01, and which grey levels change depends on the processor.

    Raises MissingFileError without the models.
    """
    rows: list[Row] = []
    for name, case in _CASES.items():
        image = color_photograph(str(GOLDEN.path(case.picture)))
        with _model(engine, case) as model:
            poses = PoseEstimator(model).update(image).poses
        for suffix, of_what in (("", "the graph"), ("_edgetpu", "a stick")):
            expected = read_reference_poses(GOLDEN.path(f"{case.reference}{suffix}_reference.csv"))
            protocol = f"{name}, poses of {of_what}"
            rows += _rows(protocol, case, poses, expected, image)
    return [replace(row, reach=None) if quick and row.metric == _SCORES else row for row in rows]


def plots(engine: str) -> dict[str, object]:  # noqa: ARG001
    """Draw nothing."""
    return {}


@contextlib.contextmanager
def _model(engine: str, case: _Case) -> Iterator[Model]:
    graph = GOLDEN.path(case.graph)
    if engine == "cpu":
        yield Model.load(graph)
        return
    compiled = GOLDEN.path(case.compiled)
    stick = VirtualEdgeTpu().register_model(CompiledModel.load(compiled), graph.read_bytes())
    with EdgeTpu.open(stick) as tpu:
        yield Model.load(compiled, tpu)


def _rows(
    protocol: str,
    case: _Case,
    poses: tuple[Pose, ...],
    expected: list[ReferencePose],
    image: NDArray[np.uint8],
) -> list[Row]:
    missed = float(abs(len(poses) - len(expected)))
    pairs = list(zip(poses, expected, strict=False))
    distance = max((_distance(*pair, image) for pair in pairs), default=1.0)
    rows = [
        Row(AREA, protocol, "poses missed or too many", missed, "", 0.0, "lower"),
        Row(AREA, protocol, "largest error of a keypoint", 100 * distance, "%", 100 * case.distance, "lower"),
    ]
    if case.score is not None:
        error = max((_score_error(*pair) for pair in pairs), default=1.0)
        rows.append(Row(AREA, protocol, _SCORES, error, "", case.score, "lower"))
    return rows


def _distance(pose: Pose, expected: ReferencePose, image: NDArray[np.uint8]) -> float:
    """Largest error of a keypoint along an axis, as a share of the image's size."""
    height, width = image.shape[:2]
    x = np.array([each.x / width for each in pose.keypoints])
    y = np.array([each.y / height for each in pose.keypoints])
    return float(max(np.abs(x - expected.x).max(), np.abs(y - expected.y).max()))


def _score_error(pose: Pose, expected: ReferencePose) -> float:
    scores = np.array([each.score for each in pose.keypoints])
    return float(max(np.abs(scores - expected.keypoint_scores).max(), abs(pose.score - expected.score)))
