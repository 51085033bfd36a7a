"""Compares results of perception nodes with the ground truth of the scene."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from demo.scene.scene_truth import Columns, median_displacement, truth_of
from edgetpu_dashboard.scene.room import HIGH
from edgetpu_dashboard.scene.scene import Scene
from soak.checks.seen_stamps import SeenStamps
from soak.outcome_journal import Judgement, Outcome
from soak.scenes import FRAMES, Driving, LookingAround, Stamps

LOOKING, DRIVING = "looking", "driving"
"""Namespaces and frame_ids of the two cameras."""

CAMERAS = {
    "spot_tracker": LOOKING,
    "optical_flow": LOOKING,
    "visual_compass": LOOKING,
    "pattern_tracker": LOOKING,
    "looming": DRIVING,
}
"""The camera of each perception node."""

TOLERANCES = {
    ("spot_tracker", "x"): 0.01,
    ("spot_tracker", "y"): 0.01,
    ("optical_flow", "dx"): 1.0,
    ("optical_flow", "dy"): 1.0,
    ("visual_compass", "yaw"): 0.006,
    ("pattern_tracker", "x"): 1.5,
    ("pattern_tracker", "y"): 1.5,
    ("looming", "expansion_rate"): 0.05,
}
"""Largest error of a value, in its unit. Results that are half a second early or late exceed it."""

MOST_SIGMAS = 4.0
"""Largest error of a value, in the result's own standard deviations. On a busy computer few images arrive,
and an error above its tolerance may be covered by the standard deviation."""

LARGEST_TURN = 2
"""Largest number of steps between the images of a checked flow result; over more, the turn is too large."""
LARGEST_SIGMAS = {"dx_sigma": 1.0, "dy_sigma": 1.0, "yaw_sigma": 0.02, "expansion_rate_sigma": 0.03}
"""Standard deviations above which a result is not checked, for instance after a gap in the images."""
STEADY_SECONDS = 0.7
"""Time of constant speed after which a looming result is checked, s."""
STEADY_IMAGES = 5
"""Number of images that looming must have compared at constant speed; a loaded computer needs more time."""
LONGEST_STEP = 1.0
"""Longest time between two images that looming compares, s."""


@dataclass(frozen=True)
class Result:
    """A result of a perception node, without ROS types."""

    stamp_ns: int
    frame_id: str
    valid: bool
    values: Mapping[str, float]
    earlier_ns: int = 0
    """Stamp of the image that the result is relative to: the previous one (flow), the reference (compass)."""


class PerceptionChecks:
    """Checks the results of all perception nodes of a run, one for each stamp."""

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps
        self._looking, self._driving = LookingAround(), Driving()
        self._truth = truth_of(self._looking)
        self._displacements: dict[tuple[int, int], tuple[float, float]] = {}
        self._seen = {node: SeenStamps() for node in CAMERAS}
        self._compared: deque[int] = deque(maxlen=STEADY_IMAGES)
        """Numbers of the last images that looming has used."""

    def judge(self, node: str, result: Result) -> Judgement:
        """The outcome of a result, and its difference from the truth if it is wrong."""
        index = self._stamps.index(result.stamp_ns)
        if index is None:
            return Outcome.WRONG, f"no image has the stamp {result.stamp_ns}"
        if result.frame_id != CAMERAS[node]:
            return Outcome.WRONG, f"frame_id '{result.frame_id}' of an image of '{CAMERAS[node]}'"
        if not self._seen[node].is_new(result.stamp_ns):
            return Outcome.WRONG, f"a second result for image {index}"
        if not self._numbers_match(result):
            return Outcome.WRONG, f"image {index}: numbers {dict(result.values)} with valid {result.valid}"
        if any(result.values.get(name, 0.0) > most for name, most in LARGEST_SIGMAS.items()):
            return Outcome.NOT_JUDGED, ""
        return self._compare(node, result, index)

    @staticmethod
    def _numbers_match(result: Result) -> bool:
        """Check that valid results have finite numbers, and others none."""
        return all(math.isfinite(value) == result.valid for value in result.values.values())

    def _compare(self, node: str, result: Result, index: int) -> Judgement:
        if node in ("spot_tracker", "pattern_tracker"):
            return _verdict(node, index, result, _row(self._truth[node], index % FRAMES))
        if node == "looming":
            return _verdict(node, index, result, self._approach(index))
        earlier = self._stamps.index(result.earlier_ns)
        if earlier is None or earlier > index or (earlier == index and node == "optical_flow"):
            outcome = Outcome.WRONG if result.valid else Outcome.NOT_JUDGED
            return outcome, f"image {index}: relative to the stamp {result.earlier_ns}"
        expected = self._flow(earlier, index) if node == "optical_flow" else self._yaw(earlier, index)
        return _verdict(node, index, result, expected)

    def _flow(self, earlier: int, index: int) -> Mapping[str, float | bool | None]:
        if index - earlier > LARGEST_TURN:
            return {"valid": None}
        frames = earlier % FRAMES, index % FRAMES
        if frames not in self._displacements:
            self._displacements[frames] = median_displacement(self._looking, *frames)
        dx, dy = self._displacements[frames]
        return {"valid": True, "dx": dx, "dy": dy}

    def _yaw(self, earlier: int, index: int) -> Mapping[str, float | bool | None]:
        now, then = (_pose_yaw(self._looking, each % FRAMES) for each in (index, earlier))
        return {"valid": True if index > earlier else None, "yaw": now - then}

    def _approach(self, index: int) -> Mapping[str, float | bool | None]:
        scene = self._driving
        if self._stamps.period >= LONGEST_STEP:
            return {"valid": False, "expansion_rate": None}
        time = scene.time(index % FRAMES)
        self._compared.append(index)
        first = min(index - math.ceil(STEADY_SECONDS * scene.rate), self._compared[0])
        now = scene.velocity(time)
        if len(self._compared) < STEADY_IMAGES or index - first > FRAMES:
            return {"valid": None}
        speeds = (scene.velocity(scene.time(each % FRAMES)) for each in range(first, index))
        if any(speed != now for speed in speeds):  # also where one of them is NaN
            return {"valid": None}
        depth = float(HIGH[2]) - float(scene.pose(time).position[2])
        return {"valid": True, "expansion_rate": now / depth / (scene.rate * self._stamps.period)}


def _pose_yaw(scene: Scene, frame: int) -> float:
    return scene.pose(scene.time(frame)).yaw


def _row(columns: Columns, frame: int) -> Mapping[str, float | bool | None]:
    return {name: values[frame] for name, values in columns.items()}


def _verdict(node: str, index: int, result: Result, expected: Mapping[str, float | bool | None]) -> Judgement:
    valid = expected["valid"]
    if valid is None:
        return Outcome.NOT_JUDGED, ""
    if not valid:
        if result.valid:
            return Outcome.WRONG, f"image {index}: valid, but nothing is in view: {dict(result.values)}"
        return Outcome.RIGHT, ""
    if not result.valid:
        return Outcome.NOT_VALID, ""
    for field, measured in result.values.items():
        true, tolerance = expected.get(field), TOLERANCES.get((node, field))
        if true is None or tolerance is None:
            continue
        sigma = result.values.get(f"{field}_sigma", math.nan)
        error = abs(measured - true)
        if error > tolerance and not error < MOST_SIGMAS * sigma:
            return Outcome.WRONG, f"image {index}: {field} {measured:.4f} +- {sigma:.2g}, expected {true:.4f}"
    return Outcome.RIGHT, ""
