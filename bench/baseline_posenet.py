"""Baseline of PoseNet's decoder: plain Python and NumPy, keypoint by keypoint, written from the paper."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_operators.posenet_decoder import EDGES, KEYPOINTS, Field

_REFINEMENTS = 5

Array = NDArray[np.float64]


class Keypoint(NamedTuple):
    """A keypoint of a pose; also the root from which a pose is decoded."""

    yx: Array
    """Position (y, x) in cells, [2]."""
    score: float


Pose = dict[int, Keypoint]


def decode(
    heatmaps: Field, short_offsets: Field, mid_offsets: Field, stride: int, threshold: float, radius: float
) -> list[tuple[float, Pose]]:
    """Scores and poses; the arguments are those of `decode_poses`."""
    scores = 1 / (1 + np.exp(-_real(heatmaps)))
    short, mid = _real(short_offsets) / stride, _real(mid_offsets) / stride
    poses: list[Pose] = []
    for keypoint, root in _roots(scores, short, threshold):
        if not any(_near(pose[keypoint], root, radius / stride) for pose in poses):
            poses.append(_pose(keypoint, root, scores, short, mid))
    poses.sort(key=lambda pose: -sum(each.score for each in pose.values()))
    found = []
    for index, pose in enumerate(poses):
        own = [
            each.score
            for keypoint, each in pose.items()
            if not any(_near(other[keypoint], each, radius / stride) for other in poses[:index])
        ]
        score = sum(own) / KEYPOINTS
        if score >= threshold:
            found.append((score, pose))
    return sorted(found, key=lambda each: -each[0])


def _real(field: Field) -> Array:
    return (field.values.astype(np.float64) - field.zero_point) * field.scale


def _roots(scores: Array, short: Array, threshold: float) -> list[tuple[int, Keypoint]]:
    """Local maxima of the scores above the threshold, the highest first, with the number of the keypoint."""
    height, width, _ = scores.shape
    found = []
    for keypoint in range(KEYPOINTS):
        for y in range(height):
            for x in range(width):
                score = scores[y, x, keypoint]
                if score < threshold:
                    continue
                window = scores[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2, keypoint]
                if score < np.max(window):
                    continue
                yx = np.array([y, x]) + short[y, x, [keypoint, keypoint + KEYPOINTS]]
                yx = np.clip(yx, 0, [height - 1, width - 1])
                found.append((keypoint, Keypoint(yx, float(_sample(scores, yx, [keypoint])[0]))))
    return sorted(found, key=lambda each: -each[1].score)


def _pose(root: int, start: Keypoint, scores: Array, short: Array, mid: Array) -> Pose:
    """Follow the skeleton from a root."""
    pose = {root: start}
    waiting = [root]
    while waiting:
        source = waiting.pop()
        for edge, (parent, child) in enumerate(EDGES):
            if source == parent and child not in pose:
                target, channel = child, edge
            elif source == child and parent not in pose:
                target, channel = parent, edge + 2 * len(EDGES)
            else:
                continue
            yx = _moved(mid, pose[source].yx, [channel, channel + len(EDGES)])
            for _ in range(_REFINEMENTS):
                yx = _moved(short, yx, [target, target + KEYPOINTS])
            pose[target] = Keypoint(yx, float(_sample(scores, yx, [target])[0]))
            waiting.append(target)
    return pose


def _moved(offsets: Array, yx: Array, channels: list[int]) -> Array:
    height, width, _ = offsets.shape
    return np.clip(yx + _sample(offsets, yx, channels), 0, [height - 1, width - 1])


def _sample(values: Array, yx: Array, channels: list[int]) -> Array:
    """Values of the map at a position, interpolated linearly."""
    height, width, _ = values.shape
    top, left = np.floor(yx).astype(int)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, along = yx - [top, left]
    upper = (1 - along) * values[top, left, channels] + along * values[top, right, channels]
    lower = (1 - along) * values[bottom, left, channels] + along * values[bottom, right, channels]
    return np.asarray((1 - down) * upper + down * lower)


def _near(one: Keypoint, other: Keypoint, radius: float) -> bool:
    return bool(np.linalg.norm(one.yx - other.yx) <= radius)
