"""Accuracy of the learner on photographs: five are taught; it should call views of the others unknown.

A view is a square part of a photograph with changed brightness and with noise, as a moving camera would see
it. The layer runs on a Dense model whose program is generated here; its answers are compared with those of
the same layer in float64.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.photographs import as_pixels, color_photograph
from edgetpu_driver import CpuEngine, EdgeTpu, VirtualEdgeTpu, dense_model
from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_vision import Learner
from edgetpu_vision.learning.layer_as_dense_model import head_size
from edgetpu_vision.learning.taught_examples import UNKNOWN
from measured_figures.row import Row
from testdata import GOLDEN

AREA = "learner"

_MODEL = "vision/mobilenet_v1_1.0_224_quant_embedding_extractor.tflite"
_TAUGHT = 5
_SHOWN = 3
"""Number of views that a class is taught with."""
_PICTURES = ("cat", "bird", "grace_hopper", "squat", "0001")
_PHOTOGRAPHS = (
    "astronaut",
    "brick",
    "coffee",
    "coins",
    "grass",
    "gravel",
    "moon",
    "page",
    "rocket",
    "camera",
)
_METHODS = ("regression", "imprinting")

Views = list[NDArray[np.float32]]


def measure(engine: str, quick: bool = False) -> list[Row]:
    """Rows for each method of learning.

    Raises MissingFileError without the model and the pictures.
    """
    pictures = {name: color_photograph(str(GOLDEN.path(f"vision/pictures/{name}.bmp"))) for name in _PICTURES}
    pictures |= {name: color_photograph(name) for name in _PHOTOGRAPHS}
    views, trials = (8, 3) if quick else (24, 20)
    embed = Learner(CpuEngine(GOLDEN.path(_MODEL))).embed
    rng = np.random.default_rng(0)
    vectors = {name: [embed(_view(each, rng)) for _ in range(views)] for name, each in pictures.items()}
    with _dense_engine(engine, head_size(len(vectors["cat"][0]))) as head:
        return [row for method in _METHODS for row in _rows(method, head, vectors, trials)]


def plots(engine: str) -> dict[str, object]:  # noqa: ARG001
    """Draw nothing."""
    return {}


@contextlib.contextmanager
def _dense_engine(engine: str, size: int) -> Iterator[SwappableEngine]:
    if engine == "cpu":
        yield CpuEngine(dense.build(size))
        return
    with EdgeTpu.open(VirtualEdgeTpu()) as tpu:  # runs the program itself: no graph is registered
        yield StickEngine(tpu, dense_model(size), SidecarFiles())


def _view(picture: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """A square of 20 to 40 % of the picture's shorter side, in other light, with noise of 4 grey levels.

    Returns uint8 [224, 224, 3].
    """
    height, width = picture.shape[:2]
    side = int(min(height, width) * rng.uniform(0.2, 0.4))
    top, left = rng.integers(0, height - side + 1), rng.integers(0, width - side + 1)
    part = cv2.resize(picture[top : top + side, left : left + side], (224, 224), interpolation=cv2.INTER_AREA)
    return as_pixels(part * rng.uniform(0.6, 1.3) + rng.normal(0, 4, part.shape))


@dataclass
class _Answers:
    """What the learner answered for each view."""

    named: list[bool] = field(default_factory=list)
    """Whether it gave the right name to a view of a taught photograph."""
    named_in_float: list[bool] = field(default_factory=list)
    """The same if its layer were computed in float64."""
    missed: list[bool] = field(default_factory=list)
    """Whether it called a view of a taught photograph unknown."""
    unknown: list[bool] = field(default_factory=list)
    """Whether it called a view of another photograph unknown."""

    def of_taught(self, learner: Learner, name: str, views: Views) -> None:
        """Classify views of a photograph that was taught."""
        for vector in views:
            labels = [each.label for each in learner.classify(vector).classes]
            self.missed.append(labels[0] == UNKNOWN)
            self.named.append(next(each for each in labels if each != UNKNOWN) == name)
            self.named_in_float.append(_in_float(learner, vector) == name)

    def of_other(self, learner: Learner, views: Views) -> None:
        """Classify views of a photograph that was not taught."""
        for vector in views:
            self.unknown.append(learner.classify(vector).classes[0].label == UNKNOWN)


def _rows(method: str, head: SwappableEngine, vectors: dict[str, Views], trials: int) -> list[Row]:
    """Rows of one method: every trial draws five photographs that are taught; the others are not."""
    rng = np.random.default_rng(1)
    seen = _Answers()
    learner = Learner(CpuEngine(GOLDEN.path(_MODEL)), head=head, method=method, max_results=_TAUGHT + 1)
    for _ in range(trials):
        taught = [str(name) for name in rng.permutation(list(vectors))[:_TAUGHT]]
        for name in list(learner.examples.classes):
            learner.examples.forget(name)
        for name in taught:
            learner.examples.add(name, vectors[name][:_SHOWN])
        learner.train()
        for name, views in vectors.items():
            if name in taught:
                seen.of_taught(learner, name, views[_SHOWN:])
            else:
                seen.of_other(learner, views[: _SHOWN + 1])
    case = f"{method}, {_TAUGHT} classes, {_SHOWN} views of each"
    named, reference = _percent(seen.named), _percent(seen.named_in_float)
    return [
        Row(AREA, case, "views named right", named, "%", 90.0, "higher", bound=reference),
        Row(AREA, case, "named right less often than in float64", reference - named, "points", 1.0, "lower"),
        Row(AREA, case, "other photographs called unknown", _percent(seen.unknown), "%", 90.0, "higher"),
        Row(AREA, case, "taught ones called unknown", _percent(seen.missed), "%", 25.0, "lower"),
    ]


def _in_float(learner: Learner, vector: NDArray[np.float32]) -> str:
    """Class that the layer would name if it were computed in float64."""
    classifier = learner.classifier
    assert classifier is not None
    return classifier.examples.labels[int(classifier.layer.outputs(vector.astype(np.float64)).argmax())]


def _percent(answers: Sequence[bool]) -> float:
    return 100 * float(np.mean(answers))
