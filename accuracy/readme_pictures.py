"""Draws the pictures of the README: the debug image of each node, for a photograph and a moving camera.

The photographs are skimage's, which may be published. The vision nodes run public Coral models on them. There
is no picture of a detector: the only available detector with a graph finds nothing in these photographs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.photographs import as_pixels, color_photograph
from edgetpu_perception import Looming, OpticalFlow, PatternTracker, Pinhole, SpotTracker, VisualCompass
from edgetpu_perception.debug_images import (
    flow_picture,
    heading_picture,
    looming_picture,
    match_picture,
    spot_picture,
)
from edgetpu_perception.visual_compass.rotations import to_matrix
from edgetpu_vision import Classifier, PoseEstimator, Segmenter
from edgetpu_vision.debug_images import (
    classification_picture,
    poses_picture,
    segmentation_picture,
)
from testdata import GOLDEN

DIRECTORY = Path(__file__).parents[1] / "docs" / "images"
RATE = 30.0
"""Frames per second."""
FOCAL_LENGTH = 277.0
CAMERA = Pinhole(320, 240, FOCAL_LENGTH, FOCAL_LENGTH, 159.5, 119.5)
NOISE = 2.0
"""Standard deviation of the noise, grey levels."""

Image = NDArray[np.uint8]


class Wall:
    """A photograph, 1.6 m high, on a wall 1 m in front of the camera, mirrored beyond its edges."""

    def __init__(self, photograph: str) -> None:
        self._photo = color_photograph(photograph)
        self._random = np.random.default_rng(1)

    def seen(self, turned: float = 0.0, moved: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Image:
        """Image of the camera, turned left by `turned` rad and moved right, down and ahead by `moved` m."""
        rows, columns = self._photo.shape[:2]
        texel = 1.6 / rows
        lens = np.array([[FOCAL_LENGTH, 0, CAMERA.cx], [0, FOCAL_LENGTH, CAMERA.cy], [0, 0, 1]])
        to_wall = np.array([[texel, 0, -texel * columns / 2], [0, texel, -0.8], [0, 0, 1]])
        shift = np.column_stack([np.eye(3)[:, :2], np.zeros(3)])
        shift[:, 2] = np.array([0.0, 0.0, 1.0]) - moved
        homography = lens @ to_matrix(np.array([0.0, turned, 0.0])) @ shift @ to_wall
        picture = cv2.warpPerspective(
            self._photo,
            homography,
            (CAMERA.width, CAMERA.height),
            flags=cv2.INTER_AREA,
            borderMode=cv2.BORDER_REFLECT,
        )
        return as_pixels(picture + self._random.normal(0.0, NOISE, picture.shape))


def spot() -> Image:
    """A red disc that moves in a circle in front of a coffee cup at half brightness."""
    tracker, trail, wall = SpotTracker(color="red"), deque[tuple[float, float]](maxlen=30), Wall("coffee")
    for frame in range(40):
        image = as_pixels(wall.seen() * 0.5)
        angle = frame * 0.1
        x, y = 160 + 90 * math.cos(angle), 110 + 60 * math.sin(angle)
        cv2.circle(image, (round(x), round(y)), 22, (235, 20, 25), cv2.FILLED, cv2.LINE_AA)
        result = tracker.update(image, frame / RATE)
        trail.append(((result.x + 1) * 159.5, (result.y + 1) * 119.5))
    return spot_picture(image, result, trail)


def looming() -> Image:
    """A brick wall one metre away, approached at 0.5 m/s for 0.8 s: contact is 1.2 s away."""
    algorithm, wall = Looming(), Wall("brick")
    for frame in range(25):
        image = wall.seen(moved=(0.0, 0.0, 0.5 * frame / RATE))
        result = algorithm.update(image, frame / RATE)
    return looming_picture(image, result)


def flow() -> Image:
    """A camera that moves to the left and down past a coin collection."""
    algorithm, wall = OpticalFlow(), Wall("coins")
    for frame in range(6):
        image = wall.seen(moved=(-0.016 * frame, 0.009 * frame, 0.0))
        result = algorithm.update(image, frame / RATE)
    return flow_picture(image, result, algorithm.surface)


def compass() -> Image:
    """A camera that turns to the left in front of a launch pad."""
    algorithm, wall = VisualCompass(camera=CAMERA), Wall("rocket")
    for frame in range(25):
        image = wall.seen(turned=math.radians(20.0) * frame / RATE)
        result = algorithm.update(image, frame / RATE)
    return heading_picture(image, result)


def pattern() -> Image:
    """An astronaut's badge, cut out of a view from another position."""
    algorithm, wall = PatternTracker(), Wall("astronaut")
    first = wall.seen(moved=(0.0, 0.15, 0.0))
    algorithm.set_template(first[156:216, 44:124], view=first)
    image = wall.seen(moved=(-0.2, 0.1, 0.0))
    return match_picture(image, algorithm.update(image, 0.0))


def _photograph(name: str) -> Image:
    """A photograph, 240 px high."""
    photograph = color_photograph(name)
    rows, columns = photograph.shape[:2]
    size = round(columns * CAMERA.height / rows), CAMERA.height
    return np.asarray(cv2.resize(photograph, size, interpolation=cv2.INTER_AREA), np.uint8)


def classifier() -> Image:
    """A cat, by MobileNet."""
    labels = GOLDEN.path("vision/imagenet_labels.txt")
    model = GOLDEN.path("vision/mobilenet_v1_0.25_128_quant.tflite")
    image = _photograph("chelsea")
    return classification_picture(image, Classifier(model, labels=labels, min_confidence=0.1).update(image))


def segmenter() -> Image:
    """A cat, by DeepLab."""
    model = GOLDEN.path("models/deeplabv3_mnv2_pascal_quant.tflite")
    image = _photograph("chelsea")
    return segmentation_picture(image, Segmenter(model, labels="pascal_voc").update(image))


def pose_estimator() -> Image:
    """An astronaut, by MoveNet."""
    image = _photograph("astronaut")
    model = GOLDEN.path("vision/movenet_single_pose_lightning_ptq.tflite")
    return poses_picture(image, PoseEstimator(model).update(image))


PICTURES: dict[str, Callable[[], Image]] = {
    "spot_tracker": spot,
    "looming": looming,
    "optical_flow": flow,
    "visual_compass": compass,
    "pattern_tracker": pattern,
    "classifier": classifier,
    "segmenter": segmenter,
    "pose_estimator": pose_estimator,
}


def main() -> None:
    """Write all pictures."""
    for name, picture in PICTURES.items():
        cv2.imwrite(str(DIRECTORY / f"{name}.png"), cv2.cvtColor(picture(), cv2.COLOR_RGB2BGR))


if __name__ == "__main__":
    main()
