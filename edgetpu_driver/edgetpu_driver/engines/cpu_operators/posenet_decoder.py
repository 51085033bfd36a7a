"""Decodes poses of several people from PoseNet's maps, as in PersonLab (arXiv:1803.08225).

While decoding, positions are in cells of the maps: cell (y, x) is at px (y * stride, x * stride) of the
model's input. Every keypoint's heatmap is searched for local maxima. Starting with the strongest, each
maximum is the root of a pose unless an earlier pose has that keypoint there. From the root, mid-range offsets
lead from keypoint to keypoint along the skeleton, forward or backward; short-range offsets then move each
keypoint onto its peak. Two roots may lead to the same person: a keypoint that a better pose has at the same
place does not count in the score of a worse one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_operators.map_sampler import MapSampler, Position
from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.tensor import TensorSpec

KEYPOINTS = 17
"""Nose, then left and right each: eyes, ears, shoulders, elbows, wrists, hips, knees, ankles."""

EDGES = (
    *((0, 1), (1, 3), (0, 2), (2, 4)),
    *((0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15)),
    *((0, 6), (6, 8), (8, 10), (6, 12), (12, 14), (14, 16)),
)
"""The skeleton as (parent, child), in the order of the mid-range offsets' channels."""

HEATMAP_CHANNELS = KEYPOINTS
SHORT_CHANNELS = 2 * KEYPOINTS
"""y and x of the offset of each keypoint."""
MID_CHANNELS = 4 * len(EDGES)
"""y and x of the offset along each edge, to the child and back to the parent."""
_REFINEMENTS = 5
"""Short-range refinement steps after each edge, as in the vendor's reference poses."""
_MOST_REFUSED = 60
"""Maximum number of decoded poses that are duplicates or too weak; a map of noise has hundreds. Limits the
time."""
_SAME = 1e-4
"""Squared distance in cells within which two paths have met: a hundredth of a cell."""
_UNKNOWN = -1.0
"""A score not yet known."""


class Field(NamedTuple):
    """One of the model's maps with its quantisation: real value = scale * (value - zero_point)."""

    values: NDArray[Any]
    """uint8, int8, float32 or float64 [height, width, channels] or [1, height, width, channels]."""
    scale: float = 1.0
    zero_point: int = 0

    @classmethod
    def of(cls, values: NDArray[Any], spec: TensorSpec) -> Field:
        """Create the field of a model's tensor; one that is not quantised holds real values."""
        return cls(values, spec.scale, spec.zero_point) if spec.scale else cls(values)


@dataclass(frozen=True)
class DecodedPoses:
    """Poses by decreasing score; rows from `count` on are zeros."""

    keypoints: NDArray[np.float32]
    """[max_detections, 17, 2]: y and x, px of the model's input."""
    keypoint_scores: NDArray[np.float32]
    """[max_detections, 17], 0..1."""
    scores: NDArray[np.float32]
    """[max_detections], 0..1: the mean keypoint score, where keypoints of a better pose count 0."""
    count: int


@dataclass(frozen=True)
class _Candidates:
    """Local maxima of the heatmaps by decreasing score; one list per property."""

    keypoints: list[int]
    ys: list[float]
    xs: list[float]


def decode_poses(
    heatmaps: Field,
    short_offsets: Field,
    mid_offsets: Field,
    *,
    stride: float,
    max_detections: int = 20,
    score_threshold: float = 0.2,
    nms_radius: float = 10.0,
) -> DecodedPoses:
    """Decode the poses of all people from a model's maps.

    `heatmaps`: [h, w, 17], logits of the keypoints. `short_offsets`: [h, w, 34], from a cell to the keypoint
    nearby, px of the model's input; y of all 17, then x. `mid_offsets`: [h, w, 64], along the 16 `EDGES`, px:
    forward y, forward x, backward y, backward x. `stride`: px between cells. Keypoints and poses below
    `score_threshold` are discarded; `nms_radius`: px within which two keypoints are the same. Maps without a
    peak, such as those of a saturated model, have no poses.

    Raises InputError if maps do not fit each other or hold NaN or infinity, and for a parameter out of range.
    """
    _check_parameters(stride, max_detections, score_threshold, nms_radius)
    shape = _cells(heatmaps, HEATMAP_CHANNELS, "heatmaps")
    for field, channels, name in (
        (short_offsets, SHORT_CHANNELS, "short offsets"),
        (mid_offsets, MID_CHANNELS, "mid offsets"),
    ):
        if _cells(field, channels, name) != shape:
            came = list(field.values.shape)
            raise InputError(f"{name}: expected {shape[0]}x{shape[1]} cells as the heatmaps; got {came}")
    scores = _sampler(heatmaps, shape, 1.0, "heatmaps")
    short = _sampler(short_offsets, shape, 1 / stride, "short offsets")
    mid = _sampler(mid_offsets, shape, 1 / stride, "mid offsets")
    candidates = _candidates(scores, short, _logit(score_threshold))
    radius = (nms_radius / stride) ** 2
    decoder = _Decoder(scores, short, mid)
    poses = _poses(candidates, decoder, radius, max_detections, score_threshold)
    return _result(poses, radius, stride, max_detections, score_threshold)


class _Step(NamedTuple):
    """One edge of the skeleton, followed in one direction."""

    source: int
    target: int
    channel: int
    """Channel of the mid-range offset's y."""
    beyond: tuple[int, ...]
    """The target and all keypoints reached through it."""


class _Pose(NamedTuple):
    root: int
    """The keypoint it was decoded from, the only one not refined."""
    positions: list[Position]
    """The position of each keypoint."""
    scores: list[float]
    mean: float


class _Decoder:
    """Follows the skeleton from a root to all keypoints."""

    def __init__(self, scores: MapSampler, short: MapSampler, mid: MapSampler) -> None:
        self._scores, self._short, self._mid = scores, short, mid

    def pose(self, root: int, position: Position, known: Sequence[_Pose]) -> _Pose:
        """The pose whose keypoint `root` is at a position.

        Once the path meets a keypoint of a known pose, the remaining keypoints are copied, except its root.
        """
        positions = [position] * KEYPOINTS
        scores = [_UNKNOWN] * KEYPOINTS
        scores[root] = _sigmoid(self._scores.at(position, root))
        for source, target, channel, beyond in _STEPS[root]:
            if scores[target] != _UNKNOWN:
                continue
            found = self._mid.displaced(positions[source], channel, len(EDGES))
            found = self._short.displaced(found, target, KEYPOINTS, _REFINEMENTS)
            for pose in known:
                if pose.root not in beyond and _distance(pose.positions[target], found) < _SAME:
                    for each in beyond:
                        positions[each], scores[each] = pose.positions[each], pose.scores[each]
                    break
            else:
                positions[target] = found
                scores[target] = _sigmoid(self._scores.at(found, target))
        return _Pose(root, positions, scores, sum(scores) / KEYPOINTS)


def _steps(root: int) -> tuple[_Step, ...]:
    """The edges, ordered so that each starts at a keypoint already reached."""
    found: list[tuple[int, int, int]] = []
    reached = [root]
    for source in reached:
        for edge, (parent, child) in enumerate(EDGES):
            if source == parent and child not in reached:
                found.append((source, child, edge))
                reached.append(child)
            elif source == child and parent not in reached:
                found.append((source, parent, edge + 2 * len(EDGES)))
                reached.append(parent)
    beyond = {keypoint: [keypoint] for keypoint in reached}
    for source, target, _ in reversed(found):
        beyond[source] += beyond[target]
    return tuple(_Step(*each, tuple(beyond[each[1]])) for each in found)


_STEPS = tuple(_steps(root) for root in range(KEYPOINTS))


def _candidates(scores: MapSampler, short: MapSampler, threshold: float) -> _Candidates:
    """The local maxima of all heatmaps at or above a logit, each moved by its short-range offset.

    Ordered by the score at the new position: in a saturated heatmap, cells next to the keypoint are as strong
    as the one at it.
    """
    found = np.flatnonzero(_peaks(scores.values, scores.steps(threshold)))
    cells, keypoints = np.divmod(found, KEYPOINTS)
    rows, columns = np.divmod(cells, scores.values.shape[1])
    y, x = scores.clip(
        rows + short.at_cells(cells, keypoints), columns + short.at_cells(cells, keypoints + KEYPOINTS)
    )
    order = np.argsort(-scores.at_all(y, x, keypoints), kind="stable")
    return _Candidates(keypoints[order].tolist(), y[order].tolist(), x[order].tolist())


def _peaks(heatmaps: NDArray[Any], threshold: float) -> NDArray[np.bool_]:
    """Mask of heatmap cells, [h, w, 17], at or above a threshold and maximal in 3x3 cells not all equal."""
    peaks = np.asarray(heatmaps >= threshold)
    if peaks.any():
        peaks &= heatmaps == _of_neighbours(np.maximum, heatmaps)
        peaks &= heatmaps > _of_neighbours(np.minimum, heatmaps)
    return peaks


def _of_neighbours(extreme: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
    """The extreme of the 3x3 cells around each cell, fewer at the borders."""
    vertical = values.copy()
    extreme(vertical[1:], values[:-1], out=vertical[1:])
    extreme(vertical[:-1], values[1:], out=vertical[:-1])
    both = vertical.copy()
    extreme(both[:, 1:], vertical[:, :-1], out=both[:, 1:])
    extreme(both[:, :-1], vertical[:, 1:], out=both[:, :-1])
    return both


def _poses(
    candidates: _Candidates, decoder: _Decoder, radius: float, limit: int, threshold: float
) -> list[_Pose]:
    """Poses by decreasing mean score, of up to `limit` people; several may be of one person.

    Keypoints of two poses are the same within `radius`, squared cells.
    """
    found: list[_Pose] = []
    decoded: list[_Pose] = []
    for keypoint, y, x in zip(candidates.keypoints, candidates.ys, candidates.xs, strict=True):
        if len(found) == limit or len(decoded) - len(found) == _MOST_REFUSED:
            break
        position = y, x
        for pose in decoded:
            if _distance(pose.positions[keypoint], position) <= radius:
                break
        else:
            pose = decoder.pose(keypoint, position, decoded)
            decoded.append(pose)
            if _own_score(pose, found, radius) >= threshold:
                found.append(pose)
    return sorted(decoded, key=lambda pose: -pose.mean)


def _own_score(pose: _Pose, better: Sequence[_Pose], radius: float) -> float:
    """The mean of a pose's keypoint scores, 0 for those that a better pose has at the same position."""
    own = 0.0
    for keypoint, ((y, x), score) in enumerate(zip(pose.positions, pose.scores, strict=True)):
        for other in better:
            other_y, other_x = other.positions[keypoint]
            down, right = y - other_y, x - other_x
            # `_distance` inlined: the calls would take 5 % of the decoding time.
            if down * down + right * right <= radius:
                break
        else:
            own += score
    return own / KEYPOINTS


def _distance(one: Position, other: Position) -> float:
    """Squared distance."""
    down, right = one[0] - other[0], one[1] - other[1]
    return down * down + right * right


def _result(
    poses: Sequence[_Pose], radius: float, stride: float, max_detections: int, threshold: float
) -> DecodedPoses:
    kept: list[tuple[float, _Pose]] = []
    for index, pose in enumerate(poses):
        score = _own_score(pose, poses[:index], radius)
        if score >= threshold:
            kept.append((score, pose))
    kept = sorted(kept, key=lambda each: -each[0])[:max_detections]
    keypoints = np.zeros((max_detections, KEYPOINTS, 2), np.float32)
    keypoint_scores = np.zeros((max_detections, KEYPOINTS), np.float32)
    scores = np.zeros(max_detections, np.float32)
    for index, (score, pose) in enumerate(kept):
        keypoints[index] = pose.positions
        keypoint_scores[index] = pose.scores
        scores[index] = score
    keypoints *= np.float32(stride)
    return DecodedPoses(keypoints, keypoint_scores, scores, len(kept))


def _check_parameters(stride: float, max_detections: int, score_threshold: float, nms_radius: float) -> None:
    if not stride > 0 or not math.isfinite(stride):
        raise InputError(f"stride: expected more than 0 px; got {stride:g}")
    if not max_detections > 0:
        raise InputError(f"max_detections: expected 1 or more; got {max_detections}")
    if not 0 < score_threshold < 1:
        raise InputError(f"score_threshold: expected more than 0 and less than 1; got {score_threshold:g}")
    if not nms_radius >= 0 or not math.isfinite(nms_radius):
        raise InputError(f"nms_radius: expected 0 px or more; got {nms_radius:g}")


def _sampler(field: Field, shape: tuple[int, int], factor: float, name: str) -> MapSampler:
    """A sampler of a map, with real values multiplied by a factor; InputError for NaN and infinity."""
    if field.values.dtype.kind == "f" and not np.isfinite(field.values).all():
        raise InputError(f"{name}: expected finite values; got NaN or infinity")
    return MapSampler(field.values.reshape(*shape, -1), field.scale * factor, field.zero_point)


def _cells(field: Field, channels: int, name: str) -> tuple[int, int]:
    """Height and width of a map; InputError unless it has at least 2x2 cells and this many channels."""
    values = field.values
    shape = values.shape[1:] if values.ndim == 4 and values.shape[0] == 1 else values.shape
    if len(shape) != 3 or shape[2] != channels or min(shape) < 2 or values.dtype not in _DTYPES:
        raise InputError(
            f"{name}: expected uint8, int8 or float [height, width, {channels}] of 2x2 cells or more;"
            f" got {values.dtype.name}{list(values.shape)}"
        )
    if not field.scale > 0:
        raise InputError(f"{name}: expected a scale of more than 0; got {field.scale:g}")
    return int(shape[0]), int(shape[1])


_DTYPES = (np.uint8, np.int8, np.float32, np.float64)


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def _sigmoid(logit: float) -> float:
    return 0.5 + 0.5 * math.tanh(0.5 * logit)  # exp would overflow
