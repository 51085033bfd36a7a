"""Agreement of the virtual stick with LiteRT: outputs of every graph for the same photographs."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.engines import open_engine
from accuracy.scenes.photographs import DEVELOPMENT, as_pixels, color_photograph
from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.graphs import families as models
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from measured_figures.row import Row

GRAPHS = (
    "spot_bright_64x64",
    "spot_color_7fc1c1_64x64",
    "looming_64x64",
    "looming_128x128",
    "features1_64x64",
    "features2_64x64",
    "pattern_64x64_8x8",
    "pattern_64x64_16x16",
    "pattern_128x128_16x16",
    "pattern_128x128_32x32",
)


def measure(engine: str, quick: bool = False) -> list[Row]:  # noqa: ARG001  # both engines are compared
    """A row for each graph: the largest difference of any output value."""
    return [_row(name, 22 if quick else 220) for name in GRAPHS]


def plots(engine: str) -> dict[str, object]:  # noqa: ARG001  # both engines are compared
    """Draw nothing."""
    return {}


def _row(name: str, count: int) -> Row:
    graph = _graph(name)
    cpu, virtual = (open_engine(engine, name, graph) for engine in ("cpu", "virtual"))
    worst = 0
    for view in _views(cpu.inputs[0], count):
        worst = max(worst, _difference(cpu, virtual, {cpu.inputs[0].name: view}))
    return Row("stick", name, "largest difference from LiteRT", float(worst), "quanta", 1.0, "lower")


def _graph(name: str) -> bytes:
    sizes = pattern.parse(name)
    if sizes is None:
        return models.build(name)
    weights = np.random.default_rng(7).normal(size=pattern.kernel_size(*sizes)).astype(np.float32)
    quantised = pattern.quantise(weights, np.ones(weights.shape, np.bool_), 127.0)
    return pattern.build(*sizes, quantised)


def _views(image: TensorSpec, count: int) -> list[NDArray[np.uint8]]:
    """Parts of photographs with noise, in the shape of an input."""
    random = np.random.default_rng(3)
    _, height, width, channels = image.shape
    views = []
    for index in range(count):
        photo = color_photograph(DEVELOPMENT[index % len(DEVELOPMENT)])
        side = int(random.integers(width, min(photo.shape[:2]) + 1))
        top, left = (int(random.integers(0, size - side + 1)) for size in photo.shape[:2])
        small = cv2.resize(photo[top : top + side, left : left + side], (width, height))
        colors = small if channels == 3 else cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)[..., np.newaxis]
        views.append(as_pixels(colors + random.normal(0.0, 4.0, colors.shape))[np.newaxis])
    return views


def _difference(cpu: Engine, virtual: Engine, inputs: dict[str, NDArray[Any]]) -> int:
    expected, got = cpu.run(inputs), virtual.run(inputs)
    return max(int(np.abs(got[name].astype(int) - expected[name].astype(int)).max()) for name in expected)
