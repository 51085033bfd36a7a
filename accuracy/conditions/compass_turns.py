"""Full turns of a camera inside panoramas, followed by the compass and by plain methods."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.baseline_compass import lucas_kanade
from accuracy.conditions.heading_errors import Floats
from accuracy.scenes.compass_scenes import SETTLED
from accuracy.scenes.panorama_turns import (
    SAMPLES,
    Turntable,
    load,
    nodding,
    orientation,
    pinhole,
    walled,
)
from edgetpu_driver.engines.protocol import Engine
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.visual_compass.visual_compass import HeadingResult, VisualCompass

FRAME_RATE = 30.0
FULL_SIZE = 64 * SAMPLES
"""Width and height of the camera's pictures, which the baselines get at full size, px."""


@dataclass(frozen=True)
class Turn:
    """One run: full turns of a camera."""

    panorama: str
    fov: float
    rate: float
    distortion: tuple[float, ...] = ()
    kept: float = 1.0
    """Share of the frames that are not dropped."""
    wall: float = 0.0
    """Width of a wall without texture half-way through the turn, deg."""
    turns: int = 1

    @property
    def seed(self) -> int:
        """Random seed, the same for equal runs."""
        return int(self.fov * 1000 + abs(self.rate)) + sum(map(ord, self.panorama))


@dataclass(frozen=True)
class Track:
    """Results of a run frame by frame, deg and deg/s; NaN if not valid."""

    turn: Turn | None
    true_yaw: Floats
    yaw: Floats
    yaw_sigma: Floats
    true_rate: Floats
    rate: Floats
    rate_sigma: Floats

    @property
    def yaw_error(self) -> Floats:
        """Errors of the valid frames, deg."""
        return finite(self.yaw - self.true_yaw)

    @property
    def rate_error(self) -> Floats:
        """Errors of the valid frames that count, deg/s."""
        return finite((self.rate - self.true_rate)[SETTLED:])

    @property
    def rate_rmse(self) -> float:
        """Root mean square error per frame, deg/s."""
        return rms(self.rate_error)

    @property
    def mean_rate_rmse(self) -> float:
        """Root mean square error of means over five frames, deg/s."""
        return rms(np.convolve(self.rate_error, np.full(5, 0.2), "valid"))

    @property
    def end_error(self) -> float:
        """Error of the yaw at the end, when the camera sees the first view again, deg."""
        return float(abs(self.yaw[-1] - self.true_yaw[-1]))

    @property
    def open_error(self) -> float:
        """Largest error of the yaw during the turn, deg."""
        return float(np.abs(self.yaw_error).max())


def follow(engine: Engine, turn: Turn, side: int = 64) -> Track:
    """Run the compass over one turn, on pictures of side x side px."""
    camera, times, stages = _stage(turn, side)
    compass = VisualCompass(engine, camera)
    results = [compass.update(image, time) for time, (_, image) in zip(times, stages(), strict=True)]
    true_yaw = np.array(times) * turn.rate
    return _track(turn, times, true_yaw, results)


def _stage(
    turn: Turn, side: int = 64
) -> tuple[Pinhole, list[float], Callable[[], Iterator[tuple[float, NDArray[np.uint8]]]]]:
    """Camera of a run, times of its frames in s, and a function that renders frames of side x side px."""
    camera = pinhole(side, side, turn.fov, turn.distortion)
    random = np.random.default_rng(turn.seed)
    count = round(360.0 * turn.turns / abs(turn.rate) * FRAME_RATE)
    arrived = np.sort(random.permutation(count + 1)[: round(turn.kept * (count + 1))])
    if turn.kept < 1.0:
        arrived[0], arrived[-1] = 0, count
    times = (arrived / FRAME_RATE).tolist()
    start = float(random.uniform(0.0, 360.0))

    def frames() -> Iterator[tuple[float, NDArray[np.uint8]]]:
        opposite = start + math.copysign(180.0, turn.rate)
        scene = walled(turn.panorama, opposite, turn.wall) if turn.wall else load(turn.panorama)
        table = Turntable(scene, camera, samples=FULL_SIZE // side)
        for time in times:
            yield time, table.image(orientation(start + time * turn.rate, nodding(time)), random)

    return camera, times, frames


def phase_correlation(turn: Turn) -> Track:
    """OpenCV's phase correlation of successive frames; the shift counts as that of the picture's middle."""
    camera, times, frames = _stage(turn)
    images = [image.astype(np.float32) for _, image in frames()]
    window = cv2.createHanningWindow((camera.width, camera.height), cv2.CV_32F)
    shifts = [cv2.phaseCorrelate(a, b, window)[0][0] for a, b in itertools.pairwise(images)]
    steps = np.degrees(np.arctan(np.array(shifts) / camera.fx))
    return _plain_track(turn, times, np.concatenate(([0.0], np.cumsum(steps))))


def lucas_kanade_track(turn: Turn, side: int) -> Track:
    """Lucas-Kanade from frame to frame, on pictures of side x side px."""
    camera, times, frames = _stage(turn, side)
    size = None if side == FULL_SIZE else (side, side)
    return _plain_track(turn, times, lucas_kanade([image for _, image in frames()], camera, size))


def _plain_track(turn: Turn, times: Sequence[float], yaw: Floats) -> Track:
    """Track of a baseline that has no sigmas; `yaw`: its sum of steps, deg."""
    rate = np.concatenate(([math.nan], np.diff(yaw) / np.diff(times)))
    unknown = np.full(len(times), math.nan)
    return Track(
        turn, np.array(times) * turn.rate, yaw, unknown, np.full(len(times), turn.rate), rate, unknown
    )


def _track(
    turn: Turn | None, times: Sequence[float], true_yaw: Floats, results: list[HeadingResult]
) -> Track:
    def degrees(name: str) -> Floats:
        return np.degrees([getattr(result, name) for result in results])

    true_rate = np.concatenate(([math.nan], np.diff(true_yaw) / np.diff(times)))
    yaw, yaw_sigma = degrees("yaw"), degrees("yaw_sigma")
    return Track(turn, true_yaw, yaw, yaw_sigma, true_rate, degrees("yaw_rate"), degrees("yaw_rate_sigma"))


def within(error: Floats, sigma: Floats) -> NDArray[np.bool_]:
    """Whether each valid error after the first SETTLED frames is within one sigma."""
    seen = np.isfinite(error)
    seen[:SETTLED] = False
    return np.abs(error[seen]) <= sigma[seen]


def finite(values: Floats) -> Floats:
    """The values without NaN and infinity."""
    return values[np.isfinite(values)]


def rms(errors: Floats) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))
