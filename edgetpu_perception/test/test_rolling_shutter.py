"""The compass with a camera that exposes its rows one after another."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.orientation_tracker import OrientationTracker
from edgetpu_perception.visual_compass.orientation_tracker_state import TrackedPose
from edgetpu_perception.visual_compass.rolling_shutter import (
    LONGEST_INTERVAL_S,
    SHORTEST_INTERVAL_S,
    RollingShutter,
)
from edgetpu_perception.visual_compass.visual_compass import HeadingResult, VisualCompass
from testdata.pictures.turning_camera import CAMERA, FRAME, IMAGE, World, degrees, rms

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

Floats = NDArray[Any]

SETTLED = 30
"""Images until the compass knows the readout time."""

TIMES = np.arange(75) * FRAME


def swing(times: Floats) -> Floats:
    """Yaw, rad, of a camera that starts at rest and swings by 5 deg at 1.5 Hz."""
    yaw: Floats = math.radians(5.0) * (1.0 - np.cos(2.0 * math.pi * 1.5 * times))
    return yaw


class Ground(World):
    """Waves in the lower half of the picture; the upper half is nearly plain, as a sky."""

    def exposed(self, time: float, readout: float) -> IMAGE:
        """Image whose middle row shows the yaw at `time`; the last row is `readout` s after the first."""
        row = np.arange(len(self.rays)) // CAMERA.width
        yaw = swing(time + (row - 31.5) / 64.0 * readout)
        x, y, z = self.rays.T
        sine, cosine = np.sin(yaw), np.cos(yaw)
        turned = np.column_stack((cosine * x - sine * z, y, sine * x + cosine * z))
        contrast = np.where(np.arange(CAMERA.height) < 36, 0.15, 1.0)[:, np.newaxis]
        return self.noisy(128 + contrast * (self.grey(turned.astype(np.float32)) - 128), 1.0)


@cache
def followed(readout: float) -> tuple[OrientationTracker, list[HeadingResult]]:
    """The filter after the swings, and its results."""
    world, compass = Ground(), VisualCompass(camera=CAMERA)
    results = [compass.update(world.exposed(time, readout), time) for time in TIMES.tolist()]
    heading = compass._tracker
    assert isinstance(heading, OrientationTracker)
    return heading, results


@pytest.mark.parametrize("readout", [0.02, -0.02])
def test_headings_are_those_at_the_stamps_whichever_rows_have_texture(readout: float) -> None:
    _, results = followed(readout)
    yaw_errors = degrees(results, "yaw") - np.degrees(swing(TIMES))
    assert rms(yaw_errors[SETTLED:]) < 0.08  # 0.11 to 0.14 if all rows are taken to be exposed at once
    rate_errors = degrees(results, "yaw_rate")[1:] - np.degrees(np.diff(swing(TIMES))) / FRAME
    assert rms(rate_errors[SETTLED:]) < 0.75  # 1.0 to 1.2


@pytest.mark.parametrize("readout", [0.02, 0.0, -0.02])
def test_the_readout_time_is_learned_from_rows_that_disagree(readout: float) -> None:
    heading, _ = followed(readout)
    assert heading._shutter.readout == pytest.approx(readout, abs=0.005 if readout else 0.0)


def last_view(heading: OrientationTracker) -> TrackedPose:
    assert heading._last is not None
    return heading._last


@pytest.mark.parametrize("interval", [LONGEST_INTERVAL_S + 0.01, SHORTEST_INTERVAL_S / 2])
def test_nothing_is_known_of_the_rows_after_a_gap_and_in_a_burst(interval: float) -> None:
    heading, _ = followed(0.02)
    last, readout = last_view(heading), heading._shutter.readout
    assert last.alignment is not None
    later = last.pose.stamp + interval
    found = heading._shutter.follow(last.pose.keyframe, last.alignment, last, later, learns=True)
    assert found is last.alignment
    assert heading._shutter.readout == readout


def test_a_view_without_a_velocity_is_not_turned_back() -> None:
    heading, _ = followed(0.02)
    last = last_view(heading)
    key, alignment = last.pose.keyframe.key, last.alignment
    assert alignment is not None
    assert heading._shutter.corrected(key, alignment, None) is alignment
    unknown = dataclasses.replace(key, velocity=None)
    assert heading._shutter.corrected(unknown, alignment, np.ones(3)) is alignment


def test_views_that_are_skewed_alike_are_not_turned_back() -> None:
    heading, _ = followed(0.02)
    last = last_view(heading)
    alignment, steady = last.alignment, np.array([0.0, 1.0, 0.0])
    assert alignment is not None
    key = dataclasses.replace(last.pose.keyframe.key, velocity=alignment.rotation.T @ steady)
    found = heading._shutter.corrected(key, alignment, steady)
    assert found.rotation is alignment.rotation
    assert found.velocity is steady


def test_rows_of_a_view_are_read_before_the_next_view() -> None:
    heading, _ = followed(0.02)
    last = last_view(heading)
    assert last.alignment is not None
    shutter = RollingShutter(heading._aligner)
    shutter._pull = math.inf
    assert shutter.readout == LONGEST_INTERVAL_S
    shutter.follow(last.pose.keyframe, last.alignment, last, last.pose.stamp + 0.01, learns=False)
    assert shutter.readout == pytest.approx(0.01)
