"""Compares the five perception nodes with the truth while the robot stands, turns and drives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from std_srvs.srv import Trigger

from drive.comparisons import Comparisons
from drive.scenario import Outcome, Scenario
from drive.scenarios.template_from_camera import PATCH, set_template
from drive.simulated_robot_node import SimulatedRobot
from drive.truth import Record, Truth
from drive.worlds.panelled_room import make_room
from drive.worlds.robot_world import HEIGHT, PERIOD, WIDTH, World
from edgetpu_msgs.msg import Flow, Heading, PatternMatch, ServoError, TimeToContact
from measured_figures.row import Row

TURNS = (((6.0, 15.0), 8.0), ((25.0, 50.0), 20.0))
"""Range of the rate, deg/s, and angle, deg, of each turn to one side and back."""
ROUND = 60.0, 90.0
"""Range of the rate of a full turn, deg/s."""
DRIVES = (((0.25, 0.4), 0.9), ((-0.5, -0.5), 0.0), ((0.6, 1.0), 1.6))
"""Range of the speed, m/s, and end of each drive, m from the start: ahead, back and ahead again."""
STANDING = 1.5, 0.5, 1.0
"""Times for which the robot stands at the start, before the drives and at the end, s."""
TURN_GAIN = 5.0
"""Angular velocity per angle that is left to turn, 1/s."""
TURNED = math.radians(0.5)
"""Remaining angle at which a turn ends, rad."""
STILL = 0.02
"""Speed below which the robot counts as standing, rad/s and m/s."""
LONGEST = 15.0
"""Time limit of one motion, s; a robot that needs more is blocked."""


class Accuracy(Scenario):
    """Compare all perception nodes with the truth while the robot stands, turns and drives at a wall."""

    name = "accuracy"
    nodes = ("spot_tracker", "looming", "optical_flow", "visual_compass", "pattern_tracker")
    watched: ClassVar[tuple[tuple[type, str], ...]] = (
        (ServoError, "spot_tracker/servo_error"),
        (TimeToContact, "looming/time_to_contact"),
        (Flow, "optical_flow/flow"),
        (Heading, "visual_compass/heading"),
        (PatternMatch, "pattern_tracker/match"),
    )
    cmd_vel = "cmd_vel"
    parameters: ClassVar[dict[str, dict[str, str]]] = {
        "spot_tracker": {"color": "red"},
        "looming": {"roi": f"[{WIDTH // 8}, 0, {3 * WIDTH // 4}, {HEIGHT // 2}]"},  # without the floor
        "visual_compass": {"looks_ahead": "true"},
    }
    quantities = ("speed, m/s", "turning, rad/s")

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Stand, turn, drive and stand again in the room of this seed."""
        random = np.random.default_rng(seed)
        room = make_room(seed)
        world = World(seed, room.boxes)
        world.spot = room.ball
        robot.enter(world)
        ((x, y),) = world.camera.pixels(np.array([room.poster]))
        left, top = round(x - PATCH[0] / 2), round(y - PATCH[1] / 2)
        shown = set_template(robot, world.image(), left, top)
        robot.call(Trigger, "visual_compass/reset_heading")
        trace = []
        for linear, angular in self._motions(world, random):
            robot.drive(linear, angular)
            robot.advance()
            trace.append((world.time, *world.velocity))
        figures = {"shown": float(shown), "collided": float(world.touched)}
        world.close()
        return Outcome(seed, figures, tuple(trace))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return for each node the share of valid results, their errors, and the share inside one sigma.

        Limits are those of `make accuracy` and docs/accuracy.md for the same quantities. Other rows, such as
        shares inside one sigma, have no limit, because rendered noise differs from pictures of real places.
        """
        records = [outcome.record for outcome in outcomes]
        nodes = (_spot_rows, _looming_rows, _flow_rows, _compass_rows, _pattern_rows)
        return [row for rows in nodes for row in rows(records, f"{len(outcomes)} worlds")]

    @staticmethod
    def _motions(world: World, random: np.random.Generator) -> Iterator[tuple[float, float]]:
        """The velocities to command, m/s and rad/s, a pair for each period."""
        first, between, last = (round(seconds / PERIOD) for seconds in STANDING)
        yield from [(0.0, 0.0)] * first
        for rates, angle in TURNS:
            rate, side = random.uniform(*rates), random.choice((-1.0, 1.0))
            yield from _turn(world, math.radians(rate), side * math.radians(angle))
            yield from _turn(world, math.radians(rate), 0.0)
        rate, side = random.uniform(*ROUND), random.choice((-1.0, 1.0))
        yield from _turn(world, math.radians(rate), side * 2 * math.pi)
        yield from [(0.0, 0.0)] * between
        for speeds, end in DRIVES:
            yield from _drive(world, random.uniform(*speeds), end)
        yield from [(0.0, 0.0)] * last


def _spot_rows(records: Sequence[Record], worlds: str) -> list[Row]:
    case, quantities = f"spot_tracker, a red ball, {worlds}", ("spot x", "spot y")
    there = Comparisons.of(records, quantities, lambda truth: truth.spot and truth.spot.whole)
    gone = Comparisons.of(records, quantities, lambda truth: truth.spot and truth.spot.absent)
    return [
        *_rows(case, there, "position, median error", there.error, "px"),
        Row("drive", case, "not valid without the ball", gone.not_valid, "%", None, "higher"),
    ]


def _pattern_rows(records: Sequence[Record], worlds: str) -> list[Row]:
    case, quantities = f"pattern_tracker, a template shown once, {worlds}", ("pattern x", "pattern y")
    there = Comparisons.of(records, quantities, lambda truth: truth.pattern and truth.pattern.whole)
    gone = Comparisons.of(records, quantities, lambda truth: truth.pattern and truth.pattern.absent)
    return [
        *_rows(case, there, "position, median error", there.error, "px", valid=90.0),
        Row("drive", case, "not valid without the pattern", gone.not_valid, "%", 99.5, "higher"),
    ]


def _looming_rows(records: Sequence[Record], worlds: str) -> list[Row]:
    low, high = DRIVES[0][0][0], DRIVES[-1][0][1]
    case = f"looming, driving at a wall at {low:g} to {high:g} m/s, {worlds}"
    times = Comparisons.of(records, ("time to contact",), _approaches)
    rates = Comparisons.of(records, ("expansion rate",), lambda _: True)
    return [
        Row("drive", case, "valid", times.valid, "%", None, "higher"),
        Row("drive", case, "time to contact, median error", times.relative_error, "%", None, "lower"),
        Row(
            "drive",
            f"looming, all motions, {worlds}",
            "expansion rates inside one sigma (68)",
            rates.inside,
            "%",
            None,
            "higher",
        ),
    ]


def _flow_rows(records: Sequence[Record], worlds: str) -> list[Row]:
    rows: list[Row] = []
    for motion, counts in (("standing", _stands), ("turning", _turns), ("driving", _drives)):
        found = Comparisons.of(records, ("flow x", "flow y"), counts)
        case = f"optical_flow, {motion}, {worlds}"
        rows += _rows(case, found, "flow, median error", found.error, "px", valid=92.0)
    return rows


def _compass_rows(records: Sequence[Record], worlds: str) -> list[Row]:
    found = Comparisons.of(records, ("yaw",), lambda _: True)
    error = math.degrees(found.error)
    case = f"visual_compass, all motions, {worlds}"
    return _rows(case, found, "yaw, median error", error, "deg", reach=0.44, valid=98.0)


def _rows(
    case: str,
    found: Comparisons,
    metric: str,
    error: float,
    unit: str,
    *,
    reach: float | None = None,
    valid: float | None = None,
) -> list[Row]:
    """The rows that every node has. Limits: reach of the error, valid of the percentage of valid results."""
    return [
        Row("drive", case, "valid", found.valid, "%", valid, "higher"),
        Row("drive", case, metric, error, unit, reach, "lower"),
        Row("drive", case, "inside one sigma (68)", found.inside, "%", None, "higher"),
    ]


def _approaches(truth: Truth) -> bool:
    """Whether the robot drives at a surface that it would reach within LONGEST_CONTACT."""
    return math.isfinite(truth.time_to_contact)


def _turns(truth: Truth) -> bool:
    return abs(truth.turning) > STILL


def _drives(truth: Truth) -> bool:
    return not _turns(truth) and abs(truth.speed) > STILL


def _stands(truth: Truth) -> bool:
    return not _turns(truth) and not _drives(truth)


def _turn(world: World, rate: float, target: float) -> Iterator[tuple[float, float]]:
    """Turn to a yaw, rad, at up to this rate, rad/s."""
    for _ in range(round(LONGEST / PERIOD)):
        left = target - world.pose[2]
        if abs(left) < TURNED and abs(world.velocity[1]) < STILL:
            return
        yield 0.0, max(-rate, min(TURN_GAIN * left, rate))


def _drive(world: World, speed: float, end: float) -> Iterator[tuple[float, float]]:
    """Drive at a speed, m/s, up to a position along x, m."""
    for _ in range(round(LONGEST / PERIOD)):
        if (end - world.pose[0]) * speed <= 0:
            return
        yield speed, 0.0
