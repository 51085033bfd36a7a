"""The host's part of perception: camera pixels to model input, and a model's outputs to a result.

An image is of the model's size here, as resizing has figures of its own, and the outputs are there already.
Baseline: a copy of the same bytes by NumPy.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from bench.timing import milliseconds
from edgetpu_driver.engines.cpu import CpuEngine
from edgetpu_perception import Looming, OpticalFlow, PatternTracker, Pinhole, SpotTracker, VisualCompass
from edgetpu_perception.algorithm import PerceptionAlgorithm
from edgetpu_perception.graphs import families as models
from edgetpu_perception.graphs import pattern_correlation as pattern
from edgetpu_perception.images.resizing import resize
from measured_figures.row import Row

AREA = "perception"
_SIZE = 64
_FRAMES = 48
_PERIOD = 1 / 60  # s between two frames
_ORBIT = 24  # px of the texture, of which an image is 4 * _SIZE


def rows() -> Iterator[Row]:
    """Measure."""
    for name, shape, reach in (("mono", (480, 640), 0.1), ("RGB", (480, 640, 3), 0.25)):
        image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        value, baseline = milliseconds(functools.partial(resize, image, _SIZE, _SIZE), image.copy)
        yield Row(AREA, f"resize 640x480 to 64x64, {name}", "time", value, "ms", reach, "lower", baseline)
    camera = Pinhole(_SIZE, _SIZE, 52, 52, 31.5, 31.5)
    frames = _scene()
    tracker = PatternTracker()
    tracker.set_template(frames[0][20:36, 30:46], view=frames[0])
    eyes: tuple[tuple[str, PerceptionAlgorithm[Any], float], ...] = (
        ("flow", OpticalFlow(), 350),
        ("looming", Looming(), 350),
        ("compass", VisualCompass(camera=camera), 300),
        ("pattern", tracker, 150),
        ("spot", SpotTracker(camera=camera), 50),
    )
    for name, eye, reach in eyes:
        value, baseline = milliseconds(*_host(eye, frames))
        yield Row(
            AREA, f"{name}, one frame on the host", "time", 1e3 * value, "us", reach, "lower", 1e3 * baseline
        )


def _scene() -> list[NDArray[np.uint8]]:
    """A texture that goes round in a circle behind a bright spot: uint8 [64, 64] each."""
    rng = np.random.default_rng(0)
    side = 4 * _SIZE + 2 * _ORBIT
    noise = sum(cv2.GaussianBlur(rng.normal(size=(side, side)), (0, 0), s) * s for s in (4.0, 8.0, 16.0))
    texture = np.clip(100 + 30 * noise / np.std(noise), 0, 200).astype(np.uint8)
    frames = []
    for angle in np.linspace(0, 2 * math.pi, _FRAMES, endpoint=False):
        x, y = (round(_ORBIT * (1 + turn(angle))) for turn in (math.sin, math.cos))
        frame = resize(np.ascontiguousarray(texture[y : y + 4 * _SIZE, x : x + 4 * _SIZE]), _SIZE, _SIZE)
        cv2.circle(frame, (20, 44), 3, 255, -1)
        frames.append(frame)
    return frames


def _host(
    eye: PerceptionAlgorithm[Any], frames: list[NDArray[np.uint8]]
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One frame after the other through both halves of an eye, and a copy of the bytes that go through it."""
    graph = models.build(eye.model)
    if isinstance(eye, PatternTracker):
        graph = pattern.build((_SIZE, _SIZE), (16, 16), eye.weights)
    engine = CpuEngine(graph)
    eye.bind(engine.inputs, engine.outputs)
    outputs = [engine.run(eye.preprocess(frame, 0.0).inputs) for frame in frames]
    count = itertools.count()

    def host() -> Any:
        number = next(count)
        index = number % _FRAMES
        return eye.postprocess(eye.preprocess(frames[index], number * _PERIOD), outputs[index])

    def copy() -> Any:
        return frames[0].copy(), [output.copy() for output in outputs[0].values()]

    return host, copy
