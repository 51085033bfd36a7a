"""What is fixed to the camera: parts of the robot, a dashboard, bars beside the picture."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from edgetpu_perception.visual_compass.moving_objects.undetected_object import FIXED_PULL_SHARE
from edgetpu_perception.visual_compass.visual_compass import HeadingResult, VisualCompass
from testdata.pictures.turning_camera import CAMERA, FRAME, IMAGE, World

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


RATE = 20.0
"""Of the turning camera, deg/s."""


class Robot:
    """A camera that sees a scene, and below it the robot itself with more contrast."""

    def __init__(self, contrast: float = 1.0, bar: int = 0) -> None:
        """`contrast`: that of the scene, 0..1; `bar`: height of black bars above and below, px."""
        self._scene, self._contrast, self._bar = World(seed=7), contrast, bar
        self._own = 128 + 2.0 * (World(seed=8).image(0, noise=0) - 128.0)

    def image(self, yaw: float, shown: float = 1.0, top: int = 44) -> IMAGE:
        """The image at a yaw, deg; `shown`: share of the contrast; `top`: first row of the own parts."""
        grey = 128 + shown * self._contrast * (self._scene.image(yaw, noise=0) - 128.0)
        grey[top:] = self._own[top:]
        if self._bar:
            grey[: self._bar] = grey[-self._bar :] = 0
        return self._scene.noisy(grey.astype(np.float32), 2.0)


def follow(compass: VisualCompass, images: Iterable[IMAGE], first: int = 0) -> HeadingResult:
    """The last result of images, the first of which has this number."""
    return [compass.update(image, number * FRAME) for number, image in enumerate(images, first)][-1]


def left_out(compass: VisualCompass) -> float:
    """Share of the features that is left out of alignments."""
    assert compass._aligner is not None
    used = compass._aligner._used
    return 0.0 if used is None else 1.0 - float(used[0].mean())


@pytest.mark.parametrize("still", [0.0, 1.0])
@pytest.mark.parametrize(("contrast", "bar"), [(0.3, 0), (0.6, 8)])
def test_own_parts_with_more_texture_than_the_scene_do_not_hold_the_heading(
    contrast: float, bar: int, still: float
) -> None:
    robot, compass = Robot(contrast, bar), VisualCompass(camera=CAMERA)
    yaws = [RATE * max(number * FRAME - still, 0.0) for number in range(90)]
    result = follow(compass, map(robot.image, yaws))
    assert result.valid
    assert math.degrees(result.yaw) == pytest.approx(yaws[-1], abs=1.0)


def test_the_pulls_of_own_parts_add_up_in_the_sigma_while_the_camera_turns() -> None:
    robot, compass = Robot(contrast=0.6, bar=8), VisualCompass(camera=CAMERA)
    yaws = [RATE * number * FRAME for number in range(180)]
    result = follow(compass, map(robot.image, yaws))
    # What is learned after 10 deg has pulled the rest of the 120 deg in one direction.
    assert result.yaw_sigma > FIXED_PULL_SHARE * math.radians(110)


def test_own_parts_that_are_folded_away_are_compared_again() -> None:
    robot, compass = Robot(), VisualCompass(camera=CAMERA)
    yaws = [RATE * number * FRAME for number in range(90)]
    follow(compass, (robot.image(yaw) for yaw in yaws[:45]))
    # The features are those of rows 6 to 57.
    assert left_out(compass) == pytest.approx((58 - 44) / 52, abs=0.06)
    result = follow(compass, (robot.image(yaw, top=64) for yaw in yaws[45:]), 45)
    assert left_out(compass) == 0.0
    assert math.degrees(result.yaw) == pytest.approx(yaws[-1], abs=0.3)


def test_nothing_is_left_out_where_the_whole_picture_turns() -> None:
    scene, compass = World(), VisualCompass(camera=CAMERA)
    follow(compass, (scene.image(RATE * number * FRAME) for number in range(60)))
    assert left_out(compass) == 0.0


def test_a_camera_stands_still_while_something_wide_passes() -> None:
    scene, object_, compass = World(seed=7), World(seed=8), VisualCompass(camera=CAMERA)
    texture = np.hstack([object_.image(yaw, noise=0) for yaw in (0.0, 90.0)])
    for number in range(80):
        grey, left = scene.image(0.0, noise=0).astype(np.float32), number - 24
        begin, end = max(left, 0), min(left + 24, 64)
        if begin < end:
            grey[:, begin:end] = texture[:, begin - left : end - left]
        result = compass.update(scene.noisy(grey, 2.0), number * FRAME)
        assert number == 0 or abs(math.degrees(result.yaw)) < 0.3
