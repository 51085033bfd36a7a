"""A patrol of rooms that are taught once by name, and recognised by place recognition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from demo.processes import as_parameter
from drive.robot_node import SimulatedRobot
from drive.scenario import Outcome, Scenario, values
from drive.scene_network import NAME, scene_network
from drive.suite_connection import DriveError
from drive.worlds.robot_world import PERIOD, Box, World
from drive.worlds.rooms import Flat, Room, make_flat
from edgetpu_driver.files.default_paths import default_model_dir
from edgetpu_msgs.msg import PlaceMatch
from edgetpu_msgs.srv import AddPlace, ListPlaces, RemovePlace
from measured_figures.row import Row

SPEED, TURN_SPEED = 0.5, 1.0
"""m/s, rad/s."""
IMAGE_EVERY = 6
"""Periods: five images a second."""
ASIDE = 0.5
"""m, at most, along x and y, from where the robot looked around in the first round."""
LIGHT, TINT = (0.5, 1.2), (0.9, 1.1)
"""Brightness of the further rounds, and of each colour in them; 1 in the first."""
PEOPLE, WALKING_SPEED = 2, 1.0
"""In the robot's room, but not while the rooms are shown; m/s."""
BESIDE, WALK = 1.2, 2.0
"""m: from the centre of the room to their ways, one on each side, and to the ends of these, to and fro."""
NOWHERE = 100.0, 100.0
"""m; behind all walls."""
LONGEST = 30.0
"""Seconds of a way; something is in the way of a robot that takes longer."""
DOORWAY = 0.5
"""m; nearer to the middle of a door the robot is in no room, or in two."""
INSIDE = 1.0
"""m, from a door to the stop next to it in the first round."""
TEXTURE_SIZE = 256
"""px: as many surfaces as 60 are made in seconds, and have the details of larger textures."""
OWN = {"window": "3.0", "root": "true", "min_score": "0.85", "min_margin": "0.0125"}
"""Of place_recognition with the suite's network, whose values are edges: s, fifteen images of half a turn; a
score that most known rooms have; a lead that no other room has."""
MODEL = {"window": "2.0", "min_score": "0.7", "min_margin": "0.01"}
"""Of place_recognition with MobileNet, with which the mean lead was 0.04."""
MATCHES = "place_recognition/match"


@dataclass(frozen=True)
class Answer:
    """What place recognition said about one image."""

    time: float
    """s."""
    room: Room
    """Where the robot was."""
    looking: bool
    """Whether it looked around there, and was not on its way."""
    label: str
    """The room that was named; empty: none."""
    lead: float
    """Score of the best place less that of the second."""


class Patrol(Scenario):
    """Look around in five of six rooms and name them; recognise them in other light, from elsewhere."""

    name = "patrol"
    nodes = ("embedder", "place_recognition")
    watched = ((PlaceMatch, MATCHES),)
    cmd_vel = "cmd_vel"
    remappings = (("embedding", "embedder/embedding"),)
    film_every = 12
    rounds: ClassVar[int] = 2
    """After the one in which the rooms are shown; the last goes the other way round."""
    quantities = ("room", "named; 0: none", "lead")

    def prepare(self, folder: Path, model: Path | None) -> dict[str, dict[str, str]]:
        """Write the suite's own network into the folder, unless there is a model."""
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
        """Show the rooms of this seed, all but one, and patrol them."""
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
        """Return how many images were named right, wrong or not."""
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
    """Drives the robot by its true pose, and notes in each period whether it looks around."""

    def __init__(self, robot: SimulatedRobot, random: np.random.Generator) -> None:
        self._robot, self._random = robot, random
        self._phase = random.uniform(0, 2 * math.pi, PEOPLE)
        self.people = False
        """Whether there are people in the robot's room."""
        self.looking: list[bool] = []

    def show(self, flat: Flat, unknown: Room | None) -> None:
        """Drive through all empty rooms, look around in the middle and at the doors, and add what is seen.

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
        """Drive through all rooms, two people in each, and look around somewhere near the centre."""
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
    """The position INSIDE of a door, on the way to the centre of the room, m."""
    share = INSIDE / math.dist(door, (room.x, room.y))
    return door[0] + share * (room.x - door[0]), door[1] + share * (room.y - door[1])


def _forget_all(robot: SimulatedRobot) -> None:
    """Remove the places of the world before."""
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
    """Percentages of the answers; unknown: the room that was not shown."""
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
    """For the plots: time, room, named room, lead."""
    numbers = {room.name: number for number, room in enumerate(flat.rooms, 1)}
    return answer.time, numbers[answer.room.name], numbers.get(answer.label, 0), answer.lead
