"""The patrol of the simulated robot: flats, network and figures, and a short patrol with the real graph."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from drive.__main__ import main
from drive.scenario import Outcome
from drive.scenarios.patrol_scenario import Answer, Patrol, percentages
from drive.scene_network import SIZE, scene_network
from drive.worlds import robot_world as worlds
from drive.worlds import rooms
from drive.worlds.robot_world import HULL_RADIUS
from drive.worlds.textures import noise_texture
from edgetpu_driver import CpuEngine
from edgetpu_vision import Embedder

ROOT = Path(__file__).parents[1]
SHORT_PATROL = """
import sys
from drive import __main__ as drive
from drive.worlds import rooms
from drive.scenarios.patrol_scenario import Patrol

class ShortPatrol(Patrol):
    rounds = 1

    def flat(self, seed):
        flat = rooms.make_flat(seed)
        two = flat.rooms[:2]
        boxes = tuple(box for box in flat.boxes if any(room.contains(box.x, box.y) for room in two))
        return rooms.Flat(two, (flat.doors[0], flat.doors[0]), boxes), None

    def run(self, robot, seed):
        robot._await = lambda stamp: robot._suite.spin(10.0, lambda: robot._awaited.oldest >= stamp)
        return super().run(robot, seed)

drive.SCENARIOS = {"patrol": ShortPatrol}
sys.exit(drive.main(sys.argv[1:]))
"""
"""Two rooms, both shown, and one round; the robot waits for nodes that stand still, as on a busy machine."""

needs_mujoco = pytest.mark.skipif(
    bool(worlds.renderer_problem()), reason=worlds.renderer_problem() or "MuJoCo renders here"
)


@pytest.mark.parametrize("seed", range(3))
class TestAFlat:
    def test_has_a_door_from_each_room_to_the_next(self, seed: int) -> None:
        made = rooms.make_flat(seed)
        for flat in (made, made.reversed()):
            following = (*flat.rooms[1:], flat.rooms[0])
            for room, other, (x, y) in zip(flat.rooms, following, flat.doors, strict=True):
                wall = (0.001, 0.0) if room.x != other.x else (0.0, 0.001)
                both = {(x + sign * wall[0], y + sign * wall[1]) for sign in (-1, 1)}
                assert all(room.contains(*place) or other.contains(*place) for place in both)
                assert not all(room.contains(*place) for place in both)

    def test_leaves_the_ways_of_the_robot_free(self, seed: int) -> None:
        flat = rooms.make_flat(seed)
        for before, (room, after) in zip(
            (flat.doors[-1], *flat.doors), zip(flat.rooms, flat.doors, strict=True), strict=False
        ):
            for door, aside_x, aside_y in itertools.product((before, after), (-0.5, 0.5), (-0.5, 0.5)):
                centre = np.array([room.x + aside_x, room.y + aside_y])
                way = np.linspace(door, centre, 50)
                for box in flat.boxes:
                    sideways = abs(math.sin(box.yaw)) > 0.5
                    half = (box.half_width, box.half_depth) if sideways else (box.half_depth, box.half_width)
                    away = np.maximum(np.abs(way - (box.x, box.y)) - half, 0.0)
                    assert np.hypot(*away.T).min() > HULL_RADIUS or box.bottom > 0

    def test_looks_different_in_each_room(self, seed: int) -> None:
        flat = rooms.make_flat(seed)
        pieces = {
            room.name: tuple(box.half_width for box in flat.boxes if room.contains(box.x, box.y))
            for room in flat.rooms
        }
        assert len(set(pieces.values())) == rooms.COLUMNS * rooms.ROWS


def embedding(image: np.ndarray) -> np.ndarray:
    return Embedder(CpuEngine(scene_network())).update(image).vector


class TestTheNetwork:
    image = noise_texture(np.random.default_rng(5), size=SIZE)

    def test_finds_the_same_in_half_the_light(self) -> None:
        vector = embedding(self.image)
        assert vector.shape == (768,)
        assert vector @ embedding(self.image // 2) > 0.99

    def test_tells_images_apart(self) -> None:
        other = noise_texture(np.random.default_rng(6), size=SIZE)
        assert embedding(self.image) @ embedding(other) < 0.9

    @pytest.mark.parametrize(("left", "right", "direction"), [(0, 200, 0), (200, 0, 4)])
    def test_knows_where_an_edge_is_and_to_which_side_it_rises(
        self, left: int, right: int, direction: int
    ) -> None:
        image = np.full((SIZE, SIZE, 3), left, np.uint8)
        image[:, 40:] = right
        parts = embedding(image).reshape(4, 4, -1)
        assert parts[:, 2].sum() > 0.9 * parts.sum()
        grey = parts[:, 2, :16].reshape(4, 8, 2).sum(axis=(0, 2))
        assert np.argmax(grey) == direction
        assert (grey[2], grey[6]) == (0, 0)


def answer(room: rooms.Room, label: str, *, looking: bool = True) -> Answer:
    return Answer(1.0, room, looking, label, 0.1)


def test_figures_of_a_patrol() -> None:
    first, second, third = (rooms.Room(f"room {number}", 0.0, 0.0) for number in (1, 2, 3))
    found = percentages(
        [
            *(answer(first, label) for label in ("room 1", "room 1", "room 2", "")),
            *(answer(second, label, looking=False) for label in ("room 2", "room 1")),
            *(answer(third, label) for label in ("room 1", "")),
        ],
        third,
    )
    assert found == {
        "right": 50,
        "wrong": 25,
        "unknown": 25,
        "way, right": 50,
        "way, wrong": 50,
        "way, unknown": 0,
        "stranger named": 50,
        "all, wrong": 37.5,
    }
    rows = Patrol().rows([Outcome(0, found | {"collided": 0.0}, ())])
    assert [(row.value, row.reach) for row in rows[:3]] == [(50, 95), (25, 1), (25, None)]


def test_a_missing_model_is_refused_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["patrol", "--model", str(tmp_path / "x.tflite")])
    assert ended.value.code == 2
    errors = capsys.readouterr().err
    assert "expected an embedding model" in errors
    assert errors.count("x.tflite") == 1


@needs_mujoco
@pytest.mark.timeout(600)  # a busy machine makes minutes of half a minute
def test_a_robot_knows_rooms_again(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ROS_DOMAIN_ID"}
    done = subprocess.run(
        [sys.executable, "-c", SHORT_PATROL, "patrol", "--seeds", "1", "--output", str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=580,
    )
    assert done.returncode in (0, 1), done.stderr
    right, wrong, _, *others = json.loads((tmp_path / "results.json").read_text())
    assert (right["metric"], wrong["metric"]) == ("named right", "named wrong with confidence")
    assert right["value"] > 80
    assert wrong["value"] < 10
    assert others[-1]["metric"] == "images without a result within a period"
    assert (tmp_path / "report.html").is_file()
