"""The host's part of vision models: from an image to the model's input, and from its outputs to results.

Baselines: OpenCV's resizing of the same pixels; for classes and boxes, plain code as in common examples. The
outputs are synthetic: objects on a background of low scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from bench import baseline_vision
from bench.timing import compare
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision import Classifier, Detector, ModelDescription, Segmenter
from edgetpu_vision.detection.ssd_anchors import ssd_anchors
from measured_figures.row import Row

AREA = "vision"
_CLASSES, _TOP = 1001, 5
_SIZE, _ANCHORS, _SCORES = 300, 1917, 91
_SMALL = 192
_LEAST_SCORE = 0.3
_DEEPLAB, _SEGMENTS = 513, 21

_IMAGE = TensorSpec("image", (1, _SIZE, _SIZE, 3), np.dtype(np.uint8), 1 / 128, 128)


def rows() -> Iterator[Row]:
    """Measure with OpenCV on one thread, as in the nodes."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield _preprocessing(_SIZE, _IMAGE.dtype)
        yield _preprocessing(_SMALL, np.dtype(np.int8))
        yield _float_preprocessing()
        yield _classes()
        yield _boxes()
        yield _labels()
    finally:
        cv2.setNumThreads(threads)


def _spec(
    name: str, shape: tuple[int, ...], dtype: Any, scale: float = 0.0, zero_point: int = 0
) -> TensorSpec:
    return TensorSpec(name, shape, np.dtype(dtype), scale, zero_point)


def _photograph(height: int = 480, width: int = 640) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def _detector(input_size: int, dtype: np.dtype[Any]) -> Detector:
    detector = Detector()
    image = replace(_IMAGE, shape=(1, input_size, input_size, 3), dtype=dtype)
    detector.bind([image], [_spec("boxes", (1, 20, 4), np.float32), *_lists(20)])
    return detector


def _preprocessing(input_size: int, dtype: np.dtype[Any]) -> Row:
    """Measure letterboxing a camera's frame for a detector."""
    detector = _detector(input_size, dtype)
    frame = _photograph()
    placed = detector.preprocess(frame).placement
    size = placed.width, placed.height
    case = f"640x480 RGB to {input_size}x{input_size}, {dtype}, letterboxed"
    return compare(
        lambda: detector.preprocess(CameraImage(frame)),
        lambda: cv2.resize(frame, size, interpolation=cv2.INTER_LINEAR),
    ).row(AREA, case, "cv2.resize INTER_LINEAR", 1.2)


def _float_preprocessing() -> Row:
    """Measure the same for a float input; the baseline also converts to float32, without scaling."""
    detector = _detector(_SIZE, np.dtype(np.float32))
    frame = _photograph()
    placed = detector.preprocess(frame).placement
    size = placed.width, placed.height
    real = np.empty((placed.height, placed.width, 3), np.float32)
    case = f"640x480 RGB to {_SIZE}x{_SIZE}, float32, letterboxed"
    return compare(
        lambda: detector.preprocess(CameraImage(frame)),
        lambda: np.copyto(real, cv2.resize(frame, size, interpolation=cv2.INTER_LINEAR)),
    ).row(AREA, case, "cv2.resize and a copy to float32", 1.2)


def _lists(count: int) -> list[TensorSpec]:
    return [_spec(name, (1, count), np.float32) for name in ("classes", "scores")]


def _classes() -> Row:
    """Measure finding the five most probable classes in 8-bit probabilities."""
    spec = _spec("probabilities", (1, _CLASSES), np.uint8, 1 / 256)
    labels = [f"class {number}" for number in range(_CLASSES)]
    classifier = Classifier(max_results=_TOP, labels=labels)
    classifier.bind([_IMAGE], [spec])
    rng = np.random.default_rng(0)
    values = np.zeros(spec.shape, np.uint8)
    values[0, rng.integers(0, _CLASSES, 40)] = rng.integers(1, 60, 40)
    frame, outputs = classifier.preprocess(_photograph()), {spec.name: values}
    suite = [each.score for each in classifier.postprocess(frame, outputs).classes]
    plain = [score for _, score in baseline_vision.classify(values, spec, labels, _TOP)]
    if suite != plain:
        raise ValueError(f"expected the scores {plain}; got {suite}")
    return compare(
        lambda: classifier.postprocess(frame, outputs),
        lambda: baseline_vision.classify(values, spec, labels, _TOP),
    ).row(AREA, f"top {_TOP} of {_CLASSES} with labels", "plain Python", 1 / 5)


def _boxes() -> Row:
    """Measure decoding raw outputs of SSD MobileNet v1: ten objects, each seen by several anchors."""
    boxes_spec = _spec("boxes", (1, _ANCHORS, 4), np.uint8, 0.06, 160)
    scores_spec = _spec("scores", (1, _ANCHORS, _SCORES), np.uint8, 1 / 256)
    rng = np.random.default_rng(0)
    anchors = ssd_anchors(_SIZE, _SIZE, _ANCHORS)
    encodings = rng.integers(158, 163, boxes_spec.shape).astype(np.uint8)
    scores = rng.integers(0, 20, scores_spec.shape).astype(np.uint8)
    for class_id in range(1, 11):
        first = int(rng.integers(0, _ANCHORS - 6))
        scores[0, first : first + 6, class_id] = rng.integers(100, 250, 6)
    detector = Detector(min_confidence=_LEAST_SCORE, fit="stretch")
    detector.bind([_IMAGE], [boxes_spec, scores_spec])
    frame, outputs = detector.preprocess(_photograph()), {"boxes": encodings, "scores": scores}

    def plain() -> list[baseline_vision.Box]:
        return baseline_vision.detect(encodings, boxes_spec, scores, scores_spec, anchors, _LEAST_SCORE)

    found = [each.score for each in detector.postprocess(frame, outputs).detections]
    if not np.allclose(found, [box.score for box in plain()]):
        raise ValueError(f"expected the scores of the plain code; got {found}")
    return compare(lambda: detector.postprocess(frame, outputs), plain).row(
        AREA, f"SSD, {_ANCHORS} anchors and {_SCORES - 1} classes to boxes", "plain NumPy", 1 / 5
    )


def _labels() -> Row:
    """Measure resizing DeepLab's labels of its input to labels of an image."""
    spec = _spec("labels", (1, _DEEPLAB, _DEEPLAB), np.int64)
    description = ModelDescription(class_counts={spec.name: _SEGMENTS})
    segmenter = Segmenter(description=description)
    image = _spec("image", (1, _DEEPLAB, _DEEPLAB, 3), np.uint8, 1 / 128, 128)
    segmenter.bind([image], [spec])
    coarse = np.random.default_rng(0).integers(0, _SEGMENTS, (9, 9), np.uint8)
    labels = cv2.resize(coarse, (_DEEPLAB, _DEEPLAB), interpolation=cv2.INTER_NEAREST)
    frame, outputs = segmenter.preprocess(_photograph()), {spec.name: labels[None].astype(np.int64)}
    return compare(
        lambda: segmenter.postprocess(frame, outputs),
        lambda: cv2.resize(labels, (640, 480), interpolation=cv2.INTER_NEAREST),
    ).row(AREA, f"labels of {_DEEPLAB}x{_DEEPLAB} to 640x480", "cv2.resize INTER_NEAREST", 1.5)
