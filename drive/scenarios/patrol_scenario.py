"""A patrol of rooms that are shown once with their names, and recognised by place recognition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from demo.processes import as_parameter
from drive.scenario import Outcome, Scenario, values
from drive.scene_network import NAME, scene_network
from drive.simulated_robot_node import SimulatedRobot
from drive.suite_connection import DriveError
from drive.worlds.robot_world import PERIOD, Box, World
from drive.worlds.rooms import Flat, Room, make_flat
from edgetpu_driver.files.default_paths import default_model_dir
from edgetpu_msgs.msg import PlaceMatch
from edgetpu_msgs.srv import AddPlace, ListPlaces, RemovePlace
from measured_figures.row import Row

SPEED, TURN_SPEED = 0.5, 1.0
"""Speed and turn rate of the robot, m/s and rad/s."""
IMAGE_EVERY = 6
"""Periods per image: five images a second."""
ASIDE = 0.5
"""Largest distance along x and y, m, from the centre of a room, where the robot looked around at first."""
LIGHT, TINT = (0.5, 1.2), (0.9, 1.1)
"""Ranges of the brightness and of each colour's factor in the further rounds; both are 1 in the first."""
PEOPLE, WALKING_SPEED = 2, 1.0
"""Number of people in the robot's room, except while the rooms are shown, and their speed, m/s."""
BESIDE, WALK = 1.2, 2.0
"""Distance of people's paths from the centre of the room, one on each side, and half their length, m."""
NOWHERE = 100.0, 100.0
"""Position of people who are in no room, behind all walls, m."""
LONGEST = 30.0
"""Time limit of a drive to a point, s; a robot that takes longer is blocked."""
DOORWAY = 0.5
"""Distance from the middle of a door, m, within which the robot counts as being in no room."""
INSIDE = 1.0
"""Distance from a door to the stop next to it in the first round, m."""
TEXTURE_SIZE = 256
"""Width and height of a texture, px: about 60 of them are made in seconds, as detailed as larger ones."""
OWN = {"window": "3.0", "root": "true", "min_score": "0.85", "min_margin": "0.0125"}
"""Parameters of place_recognition with the suite's network, whose values are edges: a window of 3 s, the
fifteen images of half a turn; a score that most known rooms reach; a lead that no other room reaches."""
MODEL = {"window": "2.0", "min_score": "0.7", "min_margin": "0.01"}
"""Parameters of place_recognition with MobileNet, whose mean lead was 0.04."""
MATCHES = "place_recognition/match"


@dataclass(frozen=True)
class Answer:
    """The answer of place recognition for one image."""

    time: float
    """Time of the image since the world was entered, s."""
    room: Room
    """The room in which the robot was."""
    looking: bool
    """Whether the robot was looking around, not driving."""
    label: str
    """Name of the room that was recognised; empty: none."""
    lead: float
    """Difference between the scores of the best and the second-best place."""


class Patrol(Scenario):
    """Look around in five of six rooms and name them; recognise them in other light, from other positions."""

    name = "patrol"
    nodes = ("embedder", "place_recognition")
    watched = ((PlaceMatch, MATCHES),)
    cmd_vel = "cmd_vel"
    remappings = (("embedding", "embedder/embedding"),)
    film_every = 12
    rounds: ClassVar[int] = 2
    """Number of rounds after the one in which the rooms are shown; the last one goes the other way round."""
    quantities = ("room", "named; 0: none", "lead")

    def prepare(self, folder: Path, model: Path | None) -> dict[str, dict[str, str]]:
        """Write the suite's own network into the folder unless a model is given; return the parameters."""
        numbers = OWN if model is None else MODEL
        if model is None:
            folder.mkdir(parents=True, exist_ok=True)
            model = folder / f"{NAME}.tflite"
            model.write_bytes(scene_network())
        folders = as_parameter([str(model.resolve().parent), str(default_model_dir())])
        return {
            "edgetpu": {"model_dirs": folders},
            "embedder": {"model": as_parameter(str(model.resolve()))},
            "place_recognition": numbers,
        }

    def flat(self, seed: int) -> tuple[Flat, Room | None]:
        """Return the flat of this seed, and the room that is not shown."""
        flat = make_flat(seed)
        return flat, flat.rooms[seed % len(flat.rooms)]

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Show all but one of the rooms of this seed, then patrol them."""
        random = np.random.default_rng(seed)
        flat, unknown = self.flat(seed)
        people = [Box(0.0, 0.0, 0.0, 0.15, 0.25, 1.7, moves=True)] * PEOPLE
        world = World(seed, [*flat.boxes, *people], texture_size=TEXTURE_SIZE)
        start = flat.doors[-1]
        world.put(*start, math.atan2(flat.rooms[0].y - start[1], flat.rooms[0].x - start[0]))
        robot.enter(world)
        robot.image_every = IMAGE_EVERY
        _forget_all(robot)
        drive = _Drive(robot, random)
        drive.show(flat, unknown)
        drive.people = True
        begin = len(drive.looking) * PERIOD
        for each in (flat, flat.reversed())[-self.rounds :]:
            world.lamps = random.uniform(*LIGHT) * random.uniform(*TINT, 3)
            drive.round(each)
        robot.image_every = 1
        answers = [each for each in _answers(robot, flat, drive.looking) if each.time > begin]
        figures = {**percentages(answers, unknown), "collided": float(world.touched)}
        world.close()
        return Outcome(seed, figures, tuple(_sample(answer, flat) for answer in answers))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the shares of images that were named right, wrong or not at all."""
        count = f"{len(outcomes)} worlds"
        again = f"looking around in a room seen before, in other light, people in view, {count}"
        way = f"on the way through rooms seen before, {count}"
        patrol = f"patrol of 6 rooms, 5 of them shown, {count}"

        def row(
            case: str,
            metric: str,
            name: str,
            reach: float | None,
            better: Literal["lower", "higher"] = "lower",
        ) -> Row:
            return Row("drive", case, metric, float(np.mean(values(outcomes, name))), "%", reach, better)

        return [
            row(again, "named right", "right", 95.0, "higher"),
            row(again, "named wrong with confidence", "wrong", 1.0),
            row(again, "unknown", "unknown", None),
            row(way, "named right", "way, right", None, "higher"),
            row(way, "named wrong with confidence", "way, wrong", None),
            row(way, "unknown", "way, unknown", None),
            row(patrol, "room not shown, named with confidence", "stranger named", 1.0),
            row(patrol, "all images, named wrong with confidence", "all, wrong", 1.0),
            row(patrol, "collisions", "collided", 0.0),
        ]


class _Drive:
    """Drives the robot by its true pose, and records for each period whether it looks around."""

    def __init__(self, robot: SimulatedRobot, random: np.random.Generator) -> None:
        self._robot, self._random = robot, random
        self._phase = random.uniform(0, 2 * math.pi, PEOPLE)
        self.people = False
        """Whether there are people in the robot's room."""
        self.looking: list[bool] = []

    def show(self, flat: Flat, unknown: Room | None) -> None:
        """Drive through all empty rooms, look around in the middle and at the doors, and add these places.

        unknown: the room that is not shown.
        """
        came_by = flat.doors[-1]
        for room, door in zip(flat.rooms, flat.doors, strict=True):
            for x, y in dict.fromkeys((_inside(room, came_by), (room.x, room.y), _inside(room, door))):
                self._drive_to(room, x, y)
                self._look_around(room, shown=room is not unknown)
            self._drive_to(room, *door)
            came_by = door

    def round(self, flat: Flat) -> None:
        """Drive through all rooms, with people in the robot's room, and look around near each centre."""
        for room, door in zip(flat.rooms, flat.doors, strict=True):
            x, y = np.array([room.x, room.y]) + self._random.uniform(-ASIDE, ASIDE, 2)
            self._drive_to(room, float(x), float(y))
            self._look_around(room, shown=False)
            self._drive_to(room, *door)

    def _drive_to(self, room: Room, x: float, y: float) -> None:
        for _ in range(round(LONGEST / PERIOD)):
            here_x, here_y, yaw = self._robot.world.pose
            away = math.hypot(x - here_x, y - here_y)
            if away < 0.05:
                return
            error = math.remainder(math.atan2(y - here_y, x - here_x) - yaw, 2 * math.pi)
            speed = SPEED if abs(error) < 0.2 else 0.0
            self._step(room, speed, max(-TURN_SPEED, min(2.5 * error, TURN_SPEED)), looking=False)

    def _look_around(self, room: Room, shown: bool) -> None:
        robot, side = self._robot, self._random.choice((-1.0, 1.0))
        before = robot.world.pose[2]
        seen = robot.results[MATCHES].header.stamp
        while abs(robot.world.pose[2] - before) < 2 * math.pi:
            self._step(room, 0.0, side * TURN_SPEED, looking=True)
            latest = robot.results[MATCHES].header.stamp
            if shown and latest != seen:
                answer = robot.call(
                    AddPlace, "place_recognition/add_place", AddPlace.Request(label=room.name)
                )
                if not answer.success:
                    raise DriveError(f"add_place: {answer.message}")
            seen = latest

    def _step(self, room: Room, linear: float, angular: float, *, looking: bool) -> None:
        world = self._robot.world
        x, y = (room.x, room.y) if self.people else NOWHERE
        for person, (aside, phase) in enumerate(zip((-BESIDE, BESIDE), self._phase, strict=True)):
            way = WALK * math.sin(WALKING_SPEED / WALK * world.time + phase)
            world.move(person, x + aside, y + way)
        self._robot.drive(linear, angular)
        self._robot.advance()
        self.looking.append(looking)


def _inside(room: Room, door: tuple[float, float]) -> tuple[float, float]:
    """The position at the distance INSIDE from a door towards the centre of the room, m."""
    share = INSIDE / math.dist(door, (room.x, room.y))
    return door[0] + share * (room.x - door[0]), door[1] + share * (room.y - door[1])


def _forget_all(robot: SimulatedRobot) -> None:
    """Remove the places of the previous world."""
    for label in robot.call(ListPlaces, "place_recognition/list_places").labels:
        robot.call(RemovePlace, "place_recognition/remove_place", RemovePlace.Request(label=label))


def _answers(robot: SimulatedRobot, flat: Flat, looking: Sequence[bool]) -> list[Answer]:
    """The answers to the images of this world that were taken in a room, not in a doorway."""
    answers = []
    for seconds, match in robot.record.places:
        tick = round(seconds / PERIOD) - 1
        if not 0 <= tick < len(looking):
            continue
        truth = robot.record.truths[tick]
        if min(math.dist(door, (truth.x, truth.y)) for door in flat.doors) >= DOORWAY:
            room = next(room for room in flat.rooms if room.contains(truth.x, truth.y))
            lead = match.scores[0] - match.scores[1] if len(match.scores) > 1 else math.nan
            answers.append(Answer(seconds, room, looking[tick], match.label, lead))
    return answers


def percentages(answers: Sequence[Answer], unknown: Room | None) -> dict[str, float]:
    """Percentages of right, wrong and missing names; unknown: the room that was not shown."""
    figures = {}
    for prefix, looking in (("", True), ("way, ", False)):
        some = [each for each in answers if each.looking == looking and each.room != unknown]
        right = np.array([each.label == each.room.name for each in some])
        named = np.array([bool(each.label) for each in some])
        figures[f"{prefix}right"] = 100 * float(right.mean())
        figures[f"{prefix}wrong"] = 100 * float((named & ~right).mean())
        figures[f"{prefix}unknown"] = 100 * float((~named).mean())
    strange = [bool(each.label) for each in answers if each.looking and each.room == unknown]
    figures["stranger named"] = 100 * float(np.mean(strange)) if strange else 0.0
    wrong = [each.label not in ("", each.room.name) for each in answers]
    figures["all, wrong"] = 100 * float(np.mean(wrong))
    return figures


def _sample(answer: Answer, flat: Flat) -> tuple[float, ...]:
    """A sample for the plots: time, s, numbers of the true and of the named room (0: none), lead."""
    numbers = {room.name: number for number, room in enumerate(flat.rooms, 1)}
    return answer.time, numbers[answer.room.name], numbers.get(answer.label, 0), answer.lead
