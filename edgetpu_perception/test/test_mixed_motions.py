"""A scene and an object that were aligned together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgetpu_perception.visual_compass.alignment_records import RotationAlignment
from edgetpu_perception.visual_compass.moving_objects.mixed_motions import LEAST_NOISE, separated
from edgetpu_perception.visual_compass.orientation_tracker import OrientationTracker
from edgetpu_perception.visual_compass.rotations import to_vector
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from testdata.pictures.passer_by import PasserBy
from testdata.pictures.turning_camera import CAMERA, FRAME

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

ABOUT_Y = np.array([0.0, 1.0, 0.0])
TURN = 2.0
"""Of the camera to the right, deg."""


def before_and_after(seed: int, left: float | None) -> tuple[RotationAlignment, RotationAlignment]:
    """A view aligned to the one before a turn, from no turn; the same after the separation."""
    compass, scene = VisualCompass(camera=CAMERA), PasserBy(seed, stretch=6.0)
    compass.update(scene.image(0.0, left), 0.0)
    compass.update(scene.image(TURN, left), FRAME)
    heading = compass._tracker
    assert isinstance(heading, OrientationTracker)
    key = heading._keyframes.first.key
    assert heading._last is not None
    view = heading._last.view
    assert view is not None
    aligner = heading._aligner
    aligned = aligner.align(key, view, np.eye(3))
    return aligned, separated(aligner, aligned, key, view, ABOUT_Y, LEAST_NOISE)


def turn(alignment: RotationAlignment) -> float:
    """The turn to the right that an alignment shows, deg."""
    return -math.degrees(to_vector(alignment.rotation)[1])


@pytest.mark.parametrize("seed", range(4))
def test_the_scene_is_separated_from_somebody_who_goes_along(seed: int) -> None:
    mixed, scene = before_and_after(seed, left=26.0)
    assert turn(mixed) < 1.0
    assert turn(scene) == pytest.approx(TURN, abs=0.1)


def test_where_nobody_goes_along_nothing_is_separated() -> None:
    aligned, again = before_and_after(0, left=None)
    assert again is aligned
    assert turn(aligned) == pytest.approx(TURN, abs=0.1)
