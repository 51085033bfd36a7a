"""The simulated robot: its world, its scenarios' figures, and one short drive with the real graph."""

from __future__ import annotations

import base64
import io
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from drive.__main__ import EXIT_ERROR, EXIT_INTERRUPTED, SCENARIOS, main, usual
from drive.film import Film
from drive.report import write_report
from drive.scenario import Outcome
from drive.scenarios.contact_scenarios import NearWall, PassBy, Wall
from drive.scenarios.dock_scenario import DockAtBall
from drive.scenarios.fault_scenario import BALL_SPEED, STILL, STOP, Faults, last_above
from drive.scenarios.return_scenario import Return
from drive.scenarios.turn_scenario import Turn
from drive.simulated_robot_node import LATENCY
from drive.truth import Record, Truth
from drive.worlds import robot_world as worlds
from drive.worlds.robot_world import MASS, PERIOD, SPEED_GAIN, Box, World
from drive.worlds.textures import SIZE, noise_texture
from edgetpu_control.velocity_limits import VelocityLimits
from edgetpu_control.visual_servo import ServoGains, Target, VisualServo
from edgetpu_msgs.msg import Heading, TimeToContact
from measured_figures.row import Row
from testdata.timeouts import PATIENCE

ROOT = Path(__file__).parents[1]

needs_mujoco = pytest.mark.skipif(
    bool(worlds.renderer_problem()), reason=worlds.renderer_problem() or "MuJoCo renders here"
)


def outcome(**values: float) -> Outcome:
    return Outcome(0, values, ((0.0, 0.5, 1.0), (1.0, 0.0, 0.3)))


def figures(rows: list[Row]) -> dict[str, float]:
    return {row.metric: row.value for row in rows}


def speeds_around_a_fault(missing: frozenset[int]) -> tuple[list[float], list[float]]:
    """Commanded and driven speeds from a fault at tick 0 on, one a period; missing: numbers of images.

    The last image before the fault is used at tick 0, LATENCY and a period after it was taken.
    """
    given = Faults.parameters["visual_servo"]
    gains = ServoGains(approach=float(given["approach_gain"]), wanted_size=float(given["wanted_size"]))
    limits = VelocityLimits(0.5, 2.0, float(given["linear_acceleration"]), 6.0)
    servo = VisualServo(gains, limits, float(given["timeout"]))
    speed, commanded, driven = 0.0, [0.0], [0.0]
    share = 1 - math.exp(-PERIOD * SPEED_GAIN / MASS)  # of a difference that the base makes up in a period
    for tick in range(-60, 20):
        speed += share * (commanded[-1] - speed)
        image = tick - LATENCY - 1
        if image <= -LATENCY - 1 and image not in missing:
            servo.measure(Target(0.0, gains.wanted_size * math.exp(-BALL_SPEED)), image * PERIOD)
        velocity = servo.command(tick * PERIOD)
        commanded.append(velocity.linear if velocity else 0.0)
        driven.append(speed)
    return commanded[-20:], driven[-20:]


def test_after_a_fault_the_robot_is_at_rest_a_period_before_the_limit() -> None:
    commanded, driven = speeds_around_a_fault(frozenset())
    assert [round(speed, 3) for speed in commanded[:3]] == [0.2, 0.2, 0.0]
    at_rest = 1 + max(tick for tick, speed in enumerate(driven) if speed > STILL)
    assert at_rest * PERIOD <= STOP - PERIOD


def test_one_missing_image_does_not_brake_the_robot_two_do() -> None:
    last = -LATENCY - 1
    assert speeds_around_a_fault(frozenset({last}))[0][0] == pytest.approx(0.2)
    assert speeds_around_a_fault(frozenset({last, last - 1}))[0][0] == 0.0


@needs_mujoco
def test_a_library_that_cannot_render_is_named_without_a_traceback() -> None:
    environment = os.environ | {"MUJOCO_GL": "none_of_them"}
    command = [sys.executable, "-m", "drive", "wall"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == EXIT_ERROR
    assert ended.stderr.startswith("[drive] MuJoCo cannot render here (")
    assert ended.stderr.endswith("none_of_them): apt install libegl1 libgl1-mesa-dri\n")


def test_scenarios_that_take_long_run_only_if_they_are_named() -> None:
    assert set(SCENARIOS) - set(usual()) == {"swing_up_samples", "slalom_samples"}


class TestFigures:
    def test_of_walls(self) -> None:
        found = figures(Wall().rows([outcome(stopped=1, gap=0.25), outcome(stopped=0, gap=0.75)]))
        assert found["stopped before contact"] == 50
        assert found["gap of 0.3 m kept within 0.1 m"] == 50
        assert (found["gap, smallest"], found["gap, largest"]) == (0.25, 0.75)

    def test_of_a_robot_that_hardly_drives_up_to_a_near_wall(self) -> None:
        rows = NearWall().rows([outcome(stopped=1, gap=0.47), outcome(stopped=1, gap=0.84)])
        assert [row.metric for row in rows if not row.reached] == ["gap, largest"]

    def test_of_drives_past_a_wall(self) -> None:
        drives = [outcome(stops=1, starved=0, passed=1), outcome(stops=0, starved=1, passed=1)]
        found = figures(PassBy().rows([*drives, drives[0], outcome(stops=0, starved=0, passed=0)]))
        assert found == {
            "drives with a false stop": 50,
            "drives with a stop for lack of results": 25,
            "4 m driven": 75,
        }

    def test_of_docking(self) -> None:
        good = outcome(reached=1, seconds=5.0, collided=0, bearing=0.5, distance_error=0.1)
        lost = outcome(reached=0, seconds=math.inf, collided=1, bearing=math.nan, distance_error=math.nan)
        found = figures(DockAtBall().rows([good, lost]))
        assert found == {
            "reached": 50,
            "collisions": 50,
            "followed within 2 deg in the mean": 50,
            "bearing, mean": 0.5,
            "distance while it moves, error": 0.1,
            "time to reach it": 5.0,
        }

    def test_of_going_back(self) -> None:
        back = outcome(reached=1, faced=1, heading_error=0.5, position_error=0.02, seconds=1.0, collided=0)
        aside = outcome(reached=0, faced=0, heading_error=3.5, position_error=0.18, seconds=10.0, collided=0)
        assert figures(Return().rows([back, aside])) == {
            "reached": 50,
            "turned back": 50,
            "heading error, mean": 2.0,
            "position error, mean": pytest.approx(0.1),
            "time to be back": 5.5,
            "collisions": 0,
        }

    def test_of_turns(self) -> None:
        good = outcome(error=-0.5, **{"pushed by": 8.0, "error after push": 0.2})
        bad = outcome(error=3.0, **{"pushed by": 9.0, "error after push": -1.2})
        assert figures(Turn().rows([good, bad])) == {
            "within 1 deg": 50,
            "error, median": 1.75,
            "error, largest": 3,
            "held within 1 deg": 50,
            "turned aside, at most": 9,
        }


def test_the_report_shows_every_figure_and_a_plot_of_each_scenario(tmp_path: Path) -> None:
    rows = Wall().rows([outcome(stopped=1, gap=0.25)])
    write_report(tmp_path / "report.html", rows, {"wall": [outcome()]}, {"wall": Wall}, {"wall": Film()})
    page = (tmp_path / "report.html").read_text()
    assert all(row.metric in page for row in rows)
    assert page.count("<img") == 2  # the scenario's quantities, and the truth


def test_the_report_names_the_limit_of_a_figure_and_whether_it_was_missed(tmp_path: Path) -> None:
    stopped = Row("drive", "wall", "stopped", 90.0, "%", 100.0, "higher")
    cost = Row("drive", "slalom", "cost", 428.0, "", 450.709, "lower")
    path = tmp_path / "report.html"
    write_report(path, [stopped, cost, Row("drive", "wall", "gap", 0.3, "m", None, "lower")], {}, {}, {})
    page = path.read_text()
    assert "<td>90 %</td><td>at least 100 %</td><td>missed</td>" in page
    assert "<td>428 </td><td>at most 450.7 </td><td>reached</td>" in page
    assert "<td>0.3 m</td><td></td><td></td>" in page


def test_results_are_kept_at_the_time_of_their_image() -> None:
    record = Record()
    record.measure(Heading(valid=True, yaw=0.5, yaw_sigma=0.25), 1.5)
    record.measure(Heading(valid=False, yaw=math.nan), 1.6)
    record.measure(TimeToContact(valid=True, ttc=4.0, ttc_sigma=1.0), 2.0)
    rate = TimeToContact(expansion_rate=0.25, expansion_rate_sigma=0.125)
    rate.valid, rate.ttc, rate.ttc_sigma = True, math.inf, math.inf
    record.measure(rate, 2.1)
    assert [(each.time, each.value, each.sigma) for each in record.measured["yaw"]] == [
        (1.5, 0.5, 0.25),
        (1.6, pytest.approx(math.nan, nan_ok=True), pytest.approx(math.nan, nan_ok=True)),
    ]
    assert [(each.time, each.value, each.sigma) for each in record.measured["time to contact"]] == [
        (2.0, 4.0, 1.0),
        (2.1, math.inf, math.inf),
    ]
    last = record.measured["expansion rate"][1]
    assert (last.time, last.value, last.sigma) == (2.1, 0.25, 0.125)


def test_of_faults_the_time_to_the_last_motion_counts() -> None:
    samples = [(0.0, speed) for speed in (0.2, 0.0, 0.1, 0.0, 0.0)]
    assert last_above(samples, 1, 0.05) == pytest.approx(3 * PERIOD)
    assert last_above(samples[3:], 1, 0.05) == 0
    assert last_above(samples[:3], 1, 0.05) == math.inf


def test_textures_have_detail_on_every_scale() -> None:
    texture = noise_texture(np.random.default_rng(1)).astype(float).mean(axis=2)
    assert texture.shape == (SIZE, SIZE)
    assert texture.std() > 10
    blocks = texture.reshape(64, 8, 64, 8)
    assert blocks.std(axis=(1, 3)).mean() > 2  # within 8 px
    assert blocks.mean(axis=(1, 3)).std() > 10  # beyond


_SCENARIOS = (
    "accuracy, wall, near_wall, pass_by, turn, follow, follow_policy, dock_ball, dock_lamp, return, patrol, "
    "faults, swing_up, slalom, swing_up_samples, slalom_samples"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wall", "nowhere"], f"expected scenarios of {_SCENARIOS}; got nowhere"),
        (["--seeds", "0"], "argument --seeds: expected a positive whole number; got '0'"),
    ],
)
def test_bad_arguments_are_refused_in_a_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {message}\n")


@needs_mujoco
class TestAWorld:
    @pytest.fixture
    def world(self) -> Iterator[World]:
        """A wall 2 m ahead of the robot."""
        world = World(1, [Box(2.0, 0.0, 0.0, 0.05, 1.0)])
        yield world
        world.close()

    def test_moves_the_robot_as_it_is_told(self, world: World) -> None:
        world.step(2.0, 0.5, 0.0)
        x, y, yaw = world.pose
        assert (x, y, yaw) == (pytest.approx(0.95, abs=0.03), 0.0, 0.0)
        assert world.velocity == (pytest.approx(0.5, abs=0.01), 0.0)

    def test_turns_the_robot_about_its_camera(self, world: World) -> None:
        world.step(2.0, 0.0, 1.0)
        x, y, yaw = world.pose
        assert (x, y, yaw) == (0.0, 0.0, pytest.approx(1.9, abs=0.05))

    def test_pushes_the_robot_aside(self, world: World) -> None:
        world.push(2.0)
        world.step(1.0, 0.0, 0.0)
        # Braked at 10 rad/s^2 down to 1 rad/s, and with a lag of 0.1 s from there.
        assert world.pose[2] == pytest.approx(0.15 + 0.1, rel=0.05)

    def test_knows_the_gap_to_a_box(self, world: World) -> None:
        assert world.gap(0) == pytest.approx(2.0 - 0.05 - worlds.HULL_RADIUS, abs=1e-3)

    def test_knows_how_far_it_is_to_what_lies_ahead(self, world: World) -> None:
        assert world.distance_ahead() == pytest.approx(2.0 - 0.05)
        assert Truth.of(world, 0.0).time_to_contact is math.nan
        world.step(1.0, 0.5, 0.0)
        assert Truth.of(world, 1.0).time_to_contact == pytest.approx((1.95 - world.pose[0]) / 0.5, rel=0.01)

    def test_is_filmed_every_sixth_image(self, world: World) -> None:
        film = Film()
        assert film.url() == ""
        for _ in range(12):
            world.step(0.2, 0.5, 0.0)
            film.add(world.image(), world)
        data = base64.b64decode(film.url().removeprefix("data:image/webp;base64,"))
        picture = Image.open(io.BytesIO(data))
        assert (picture.size, picture.n_frames) == ((480, 180), 2)

    def test_shows_where_the_robot_is_from_above(self, world: World) -> None:
        def mark() -> tuple[float, float]:
            red, green, blue = np.moveaxis(world.from_above().astype(int), 2, 0)
            rows, columns = np.nonzero((red > 180) & (green > 180) & (blue < 60))
            return float(rows.mean()), float(columns.mean())

        before = mark()
        world.step(2.0, 0.5, 0.0)
        after = mark()
        assert before[0] - after[0] > 10
        assert after[1] == pytest.approx(before[1], abs=1)

    def test_notices_a_collision(self, world: World) -> None:
        world.step(3.0, 0.5, 0.0)
        assert not world.touched
        world.step(3.0, 0.5, 0.0)
        assert world.touched

    def test_shows_a_wall_that_grows(self, world: World) -> None:
        far = world.image(noise=0.0)
        world.step(2.0, 0.5, 0.0)
        near = world.image(noise=0.0)
        assert far.shape == (worlds.HEIGHT, worlds.WIDTH, 3)
        # The centre of projection stays; points beside it move outwards.
        assert np.abs(far.astype(int) - near).mean() > 3

    def test_has_balls(self) -> None:
        world = World(1, [Box(2.0, 0.0, 0.0, 0.1, 0.1, 0.2, color=(1.0, 0.0, 0.0), bottom=0.1, ball=True)])
        seen = world.image(noise=0.0).astype(int)
        red = seen[:, :, 0] - seen[:, :, 1:].max(axis=2) > 100
        diameter = 0.2 / 2.0 * worlds.FOCAL_LENGTH
        assert math.sqrt(4 * red.sum() / math.pi) == pytest.approx(diameter, rel=0.05)
        assert world.gap(0) == pytest.approx(2.0 - 0.1 - worlds.HULL_RADIUS, abs=1e-3)
        world.close()

    def test_moves_a_mover(self) -> None:
        world = World(1, [Box(2.0, 0.0, 0.0, 0.1, 0.1, moves=True)])
        world.move(0, 0.0, 3.0)
        world.step(0.1, 0.0, 0.0)
        assert world.gap(0) == pytest.approx(3.0 - 0.1 - worlds.HULL_RADIUS, abs=1e-3)
        world.close()


@needs_mujoco
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_drive_in_a_line(number: signal.Signals, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ROS_DOMAIN_ID"}
    command = [sys.executable, "-m", "drive", "wall", "--output", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "[drive] wall: 5 worlds\n"
        await_file(tmp_path / "logs" / "wall" / "edgetpu.log")
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (EXIT_INTERRUPTED, "[drive] interrupted\n")


def await_file(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not path.is_file():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.1)


@needs_mujoco
def test_a_robot_turns_by_the_compass(tmp_path: Path) -> None:
    done = drive("turn", tmp_path)
    assert "within 1 deg" in done
    assert (tmp_path / "results.json").is_file()
    assert math.isfinite(float(done.split("error ")[1].split(",")[0]))


@needs_mujoco
def test_a_robot_goes_back_to_a_pattern(tmp_path: Path) -> None:
    done = drive("return", tmp_path, "--first-seed", "8")
    assert "shown 1, turned 14.9, moved -1.05, " in done
    assert ", faced 1, reached 1, " in done


def drive(scenario: str, output: Path, *options: str) -> str:
    """Run one world of a scenario; what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "ROS_DOMAIN_ID"}
    done = subprocess.run(
        [sys.executable, "-m", "drive", scenario, "--seeds", "1", "--output", str(output), *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,  # less than pytest's limit for a test
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout
