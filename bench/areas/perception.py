"""The host's part of a perception algorithm for a frame of a 640x480 camera: everything but the inference.

The host resizes the frame to the model's input and computes the result from the model's outputs, which are
prepared beforehand. Baseline: the OpenCV call that a user would write for the same task on the same frames
(bench/baseline_perception.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from bench.baseline_perception import (
    Frames,
    largest_white_contour,
    lucas_kanade,
    moments,
    phase_correlation,
    template_matching,
)
from bench.camera import FOCAL_LENGTH, FRAMES, HEIGHT, TEMPLATE, WIDTH, scene
from bench.timing import Work, compare
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.images.resizing import resize
from edgetpu_perception import Looming, OpticalFlow, PatternTracker, Pinhole, SpotTracker, VisualCompass
from edgetpu_perception.algorithm import PerceptionAlgorithm
from edgetpu_perception.graphs import families, pattern_tracker_correlation
from measured_figures.row import Row

AREA = "perception"
_SIZE = 64
_PERIOD = 1 / 60  # s between two frames


def rows() -> Iterator[Row]:
    """Measure with OpenCV on one thread, as in the nodes."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield from _rows(scene())
    finally:
        cv2.setNumThreads(threads)


def _rows(frames: Frames) -> Iterator[Row]:
    for name, image in (("mono", frames[0]), ("RGB", cv2.cvtColor(frames[0], cv2.COLOR_GRAY2RGB))):
        suite, opencv = partial(resize, image, _SIZE, _SIZE), partial(_area, image)
        case = f"resize 640x480 to 64x64, {name}"
        yield compare(suite, opencv).row(AREA, case, "cv2.resize INTER_AREA", 1.0)
    camera = Pinhole(WIDTH, HEIGHT, FOCAL_LENGTH, FOCAL_LENGTH, (WIDTH - 1) / 2, (HEIGHT - 1) / 2)
    tracker = PatternTracker()
    tracker.set_template(TEMPLATE.of(frames[0]), view=frames[0])
    algorithms: tuple[tuple[str, PerceptionAlgorithm[Any], str, Work], ...] = (
        ("flow", OpticalFlow(), "cv2.phaseCorrelate", phase_correlation(frames)),
        ("looming", Looming(), "LK and affine", lucas_kanade(frames)),
        ("compass", VisualCompass(camera=camera), "cv2.phaseCorrelate", phase_correlation(frames)),
        ("pattern", tracker, "cv2.matchTemplate", template_matching(frames)),
        ("spot", SpotTracker(camera=camera), "cv2.moments", moments(frames)),
    )
    for name, algorithm, baseline, work in algorithms:
        comparison = compare(_host_part(algorithm, frames), work)
        yield comparison.row(AREA, f"{name}, a frame on the host", baseline, 1.0)
    colored = [cv2.cvtColor(frame, cv2.COLOR_GRAY2RGB) for frame in frames]
    comparison = compare(
        _host_part(SpotTracker(camera=camera, color="white"), colored), largest_white_contour(colored)
    )
    yield comparison.row(AREA, "spot, white, a frame on the host", "HSV and contours", 1.0)


def _host_part(algorithm: PerceptionAlgorithm[Any], frames: Frames) -> Work:
    """Work that passes one frame after the other through preprocessing and postprocessing."""
    graph = families.build(algorithm.model)
    if isinstance(algorithm, PatternTracker):
        graph = pattern_tracker_correlation.build((_SIZE, _SIZE), (16, 16), algorithm.weights)
    engine = CpuEngine(graph)
    algorithm.bind(engine.inputs, engine.outputs)
    outputs = [engine.run(algorithm.preprocess(frame, 0.0).inputs) for frame in frames]
    count = itertools.count()

    def work() -> object:
        number = next(count)
        index = number % FRAMES
        return algorithm.postprocess(algorithm.preprocess(frames[index], number * _PERIOD), outputs[index])

    return work


def _area(image: NDArray[np.uint8]) -> object:
    return cv2.resize(image, (_SIZE, _SIZE), interpolation=cv2.INTER_AREA)
