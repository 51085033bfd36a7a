"""Debug images of results, one function for each kind."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images import drawing
from edgetpu_driver.images.encodings import Pixels
from edgetpu_vision.classification.classifications import Classifications
from edgetpu_vision.detection.detections import Detection, Detections
from edgetpu_vision.embedding.embedding import Embedding
from edgetpu_vision.pose_estimation.poses import SKELETON, BodySegmentation, Poses
from edgetpu_vision.segmentation.segmentation import Segmentation

OVERLAY = 0.5
"""Share of a class's colour in a segmented picture. Chosen by eye."""

SHOWN_SCORE = 0.2
"""Least score of a drawn keypoint; hidden keypoints are guesses. Chosen by eye."""


def _palette() -> NDArray[np.uint8]:
    """256 colours that differ from their neighbours, uint8 [256, 3] RGB; the first is black."""
    numbers = np.arange(256)
    # Hues by the golden angle, as OpenCV counts them: 0..179.
    hues = (numbers * 68.75) % 180
    hsv = np.stack([hues, np.full(256, 200.0), np.where(numbers % 2, 255.0, 200.0)], axis=1).astype(np.uint8)
    colors: NDArray[np.uint8] = cv2.cvtColor(hsv[None], cv2.COLOR_HSV2RGB)[0]
    colors[0] = 0
    return colors


PALETTE = _palette()


def color_of(class_id: int) -> tuple[int, int, int]:
    """Colour of a class, RGB."""
    red, green, blue = PALETTE[1 + class_id % 255].tolist()
    return red, green, blue


def detections_picture(image: Pixels, result: Detections, ids: Sequence[str] = ()) -> Pixels:
    """Each box in the colour of its class, with label, score and identifier; masks have the same colour."""
    picture = drawing.canvas(image)
    if result.instances is not None and result.detections:
        numbers = np.array([0, *(1 + each.class_id % 255 for each in result.detections)], np.uint16)
        picture = _mixed(picture, PALETTE[numbers[result.instances]], result.instances > 0)
    for index, each in enumerate(result.detections):
        color = color_of(each.class_id)
        if each.oriented is not None:
            box = each.oriented
            drawing.box(picture, (box.x, box.y), (box.width, box.height), color, box.angle)
        else:
            drawing.box(picture, each.center, (each.width, each.height), color)
        identifier = f" #{ids[index]}" if index < len(ids) and ids[index] else ""
        drawing.tag(picture, each.x_min, each.y_min, f"{_name(each)} {each.score:.2f}{identifier}", color)
    if not result.detections:
        drawing.caption(picture, "nothing found", drawing.LOST)
    return picture


def classification_picture(image: Pixels, result: Classifications) -> Pixels:
    """The labels and their scores, one a line, the best first."""
    picture = drawing.canvas(image)
    lines = [f"{each.score:.2f} {each.label or each.class_id}" for each in result.classes]
    if lines:
        drawing.caption(picture, "\n".join(lines), drawing.FOUND)
    else:
        drawing.caption(picture, "no class", drawing.LOST)
    return picture


def segmentation_picture(image: Pixels, result: Segmentation) -> Pixels:
    """Each pixel tinted with the colour of its class, and the classes' names; class 0 stays unchanged."""
    picture = drawing.canvas(image)
    labels = result.labels
    picture = _tinted(picture, labels)
    present = np.flatnonzero(np.bincount(labels.ravel())).tolist()
    names = [_class_name(result, label) for label in present if label > 0]
    drawing.caption(picture, ", ".join(names) or "background only", drawing.FOUND)
    return picture


def poses_picture(image: Pixels, result: Poses | BodySegmentation) -> Pixels:
    """The skeleton of each person; keypoints of low score are left out. People with masks are tinted."""
    picture = drawing.canvas(image)
    if isinstance(result, BodySegmentation):
        picture = _tinted(picture, np.where(result.parts > 0, result.parts, result.people.astype(np.uint8)))
    for index, pose in enumerate(result.poses):
        color = color_of(index)
        positions = np.array([(each.x, each.y) for each in pose.keypoints])
        points = np.rint(np.clip(positions, -drawing.FARTHEST, drawing.FARTHEST)).astype(int).tolist()
        shown = [each.score >= SHOWN_SCORE for each in pose.keypoints]
        for first, second in SKELETON:
            if shown[first] and shown[second]:
                cv2.line(picture, points[first], points[second], color, 2, cv2.LINE_AA)
        for point, visible in zip(points, shown, strict=True):
            if visible:
                cv2.circle(picture, point, 3, drawing.FAINT, cv2.FILLED, cv2.LINE_AA)
    if result.poses:
        text = f"{len(result.poses)} {'person' if len(result.poses) == 1 else 'people'}"
        drawing.caption(picture, f"{text}  {result.confidence:.2f}", drawing.FOUND)
    else:
        drawing.caption(picture, "nobody", drawing.LOST)
    return picture


def embedding_picture(image: Pixels, result: Embedding) -> Pixels:
    """The vector as a strip at the top, the lowest value black and the highest white."""
    picture = drawing.canvas(image)
    low, high = float(result.vector.min()), float(result.vector.max())
    grey = ((result.vector - low) * (255 / max(high - low, 1e-9))).astype(np.uint8)[None]
    strip = picture[: max(len(picture) // 16, 1)]
    strip[:] = cv2.resize(grey, strip.shape[1::-1], interpolation=cv2.INTER_AREA)[:, :, None]
    text, color = (
        (f"{len(result.vector)} values", drawing.FOUND) if result.valid else ("nothing", drawing.LOST)
    )
    drawing.caption(picture, text, color)
    return picture


def _tinted(picture: Pixels, labels: NDArray[np.uint8] | NDArray[np.uint16]) -> Pixels:
    """The pixels mixed with the colour of their label; pixels of label 0 are unchanged."""
    return _mixed(picture, PALETTE[np.where(labels > 0, 1 + labels % 255, 0)], labels > 0)


def _mixed(picture: Pixels, colors: Pixels, where: NDArray[np.bool_]) -> Pixels:
    """The pixels of a mask mixed with their colours; other pixels are unchanged."""
    mixed = cv2.addWeighted(picture, 1 - OVERLAY, colors, OVERLAY, 0.0)
    return np.where(where[:, :, None], mixed, picture)


def _name(detection: Detection) -> str:
    return detection.label or str(detection.class_id)


def _class_name(result: Segmentation, label: int) -> str:
    return (result.names[label] if label < len(result.names) else "") or str(label)
