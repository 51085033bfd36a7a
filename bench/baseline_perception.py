"""Baselines of the perception algorithms: the OpenCV calls that a user would write for the same task."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from bench.camera import TEMPLATE
from bench.timing import Work

_CORNERS, _CORNER_QUALITY, _CORNER_DISTANCE = 200, 0.01, 8
"""Arguments of cv2.goodFeaturesToTrack as in tutorials."""
_SPOT_THRESHOLD = 230  # grey levels
_WHITE_HSV = (0, 0, 180), (180, 60, 255)
"""Least and largest hue, saturation and value of white, as in tutorials."""

Frames = list[NDArray[np.uint8]]


def _in_turn(frames: Frames, work: Callable[[NDArray[np.uint8], NDArray[np.uint8]], object]) -> Work:
    """Work on pairs of successive frames; each call takes the next pair."""
    pairs = itertools.cycle(zip([frames[-1], *frames[:-1]], frames, strict=True))

    def next_pair() -> object:
        return work(*next(pairs))

    return next_pair


def phase_correlation(frames: Frames) -> Work:
    """The shift between two frames; each frame is converted to float32 only once."""
    reals: list[NDArray[np.float32]] = [frames[-1].astype(np.float32)]

    def work(_previous: NDArray[np.uint8], frame: NDArray[np.uint8]) -> object:
        reals[:] = [*reals[-1:], frame.astype(np.float32)]
        return cv2.phaseCorrelate(*reals)

    return _in_turn(frames, work)


def lucas_kanade(frames: Frames) -> Work:
    """Corners of a frame, tracked into the next one, and a similarity transform fitted to their motion."""

    def work(previous: NDArray[np.uint8], frame: NDArray[np.uint8]) -> object:
        corners = cv2.goodFeaturesToTrack(previous, _CORNERS, _CORNER_QUALITY, _CORNER_DISTANCE)
        moved, status, _ = cv2.calcOpticalFlowPyrLK(previous, frame, corners, None)
        found = status.ravel() == 1
        return cv2.estimateAffinePartial2D(corners[found], moved[found])

    return _in_turn(frames, work)


def template_matching(frames: Frames) -> Work:
    """The best position of a template, at one scale."""
    template = TEMPLATE.of(frames[0])

    def work(_previous: NDArray[np.uint8], frame: NDArray[np.uint8]) -> object:
        return cv2.minMaxLoc(cv2.matchTemplate(frame, template, cv2.TM_CCOEFF_NORMED))

    return _in_turn(frames, work)


def moments(frames: Frames) -> Work:
    """The centroid of all bright px."""

    def work(_previous: NDArray[np.uint8], frame: NDArray[np.uint8]) -> object:
        return cv2.moments(cv2.threshold(frame, _SPOT_THRESHOLD, 255, cv2.THRESH_BINARY)[1])

    return _in_turn(frames, work)


def largest_white_contour(frames: Frames) -> Work:
    """The centroid of the largest contour of bright px of low saturation in RGB frames."""

    def work(_previous: NDArray[np.uint8], frame: NDArray[np.uint8]) -> object:
        white = cv2.inRange(cv2.cvtColor(frame, cv2.COLOR_RGB2HSV), *_WHITE_HSV)
        contours = cv2.findContours(white, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]
        return cv2.moments(max(contours, key=cv2.contourArea)) if contours else None

    return _in_turn(frames, work)
