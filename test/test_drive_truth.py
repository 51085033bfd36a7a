"""The truth beside the results of a drive, the figures made of both, and their plots."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from builtin_interfaces.msg import Time
from std_msgs.msg import Header

from drive import report
from drive.comparisons import Comparisons
from drive.scenario import Outcome
from drive.scenarios.accuracy_scenario import Accuracy
from drive.scenarios.template_from_camera import PATCH
from drive.truth import Measured, Record, Truth
from drive.worlds import robot_world as worlds
from drive.worlds.camera import Camera, InImage, image_motion
from drive.worlds.panelled_room import make_room
from drive.worlds.robot_world import FOCAL_LENGTH, HEIGHT, PERIOD, WIDTH, Box, World
from edgetpu_msgs.msg import Flow, Heading, PatternMatch, ServoError, TimeToContact
from edgetpu_msgs.srv import SetTemplate

MIDDLE = (WIDTH - 1) / 2, (HEIGHT - 1) / 2
NAN = pytest.approx(math.nan, nan_ok=True)

needs_mujoco = pytest.mark.skipif(
    bool(worlds.renderer_problem()), reason=worlds.renderer_problem() or "MuJoCo renders here"
)


def camera(x: float = 0.0, y: float = 0.0, yaw: float = 0.0) -> Camera:
    """A camera at a place of the floor, which looks along +x if yaw is 0."""
    ahead = np.array([math.cos(yaw), math.sin(yaw), 0.0])
    right = np.array([math.sin(yaw), -math.cos(yaw), 0.0])
    axes = np.array([right, (0.0, 0.0, -1.0), ahead])
    return Camera(WIDTH, HEIGHT, FOCAL_LENGTH, np.array([x, y, 0.0]), axes)


def truth(seconds: float, **known: object) -> Truth:
    at_rest = Truth(seconds, 0.0, 0.0, 0.0, 0.0, 0.0, math.nan, 0.0, None, None)
    return replace(at_rest, **known)


def record_of(*truths: Truth) -> Record:
    return Record(list(truths))


class TestACamera:
    def test_shows_what_is_ahead_in_the_middle(self) -> None:
        assert camera(1.0, 2.0, 0.5).pixels(np.array([[1 + math.cos(0.5), 2 + math.sin(0.5), 0.0]])) == (
            pytest.approx(np.array([MIDDLE]))
        )

    def test_shows_what_is_to_the_left_and_above_at_smaller_x_and_y(self) -> None:
        found = camera().pixels(np.array([[2.0, 1.0, 0.5]]))
        assert found == pytest.approx(
            np.array([[MIDDLE[0] - FOCAL_LENGTH / 2, MIDDLE[1] - FOCAL_LENGTH / 4]])
        )

    def test_shows_nothing_of_what_is_behind(self) -> None:
        assert np.isnan(camera().pixels(np.array([[-1.0, 0.0, 0.0]]))).all()

    def test_looks_along_the_rays_of_its_pixels(self) -> None:
        here = camera(1.0, -1.0, 0.3)
        pixels = here.grid(4, 3)
        assert pixels[0] == pytest.approx([WIDTH / 8 - 0.5, HEIGHT / 6 - 0.5])
        assert here.pixels(here.position + 2.5 * here.rays(pixels)) == pytest.approx(pixels)

    def test_shows_a_ball_farther_out_than_its_centre(self) -> None:
        found = camera().ball(np.array([2.0, -1.0, 0.0]), 0.5)
        # Rays at atan(1 / 2) +- asin(0.5 / sqrt(5)) touch it.
        low, high = (math.tan(math.atan(0.5) + sign * math.asin(0.5 / math.sqrt(5))) for sign in (-1, 1))
        assert found.x == pytest.approx(MIDDLE[0] + FOCAL_LENGTH * (low + high) / 2)
        assert found.y == pytest.approx(MIDDLE[1])
        assert not found.whole  # its edge would be at 204 px from the middle
        assert not found.absent

    @pytest.mark.parametrize(
        ("y", "whole", "absent"), [(0.0, True, False), (-1.2, False, False), (-1.4, False, True)]
    )
    def test_knows_how_much_of_a_ball_it_shows(self, y: float, whole: bool, absent: bool) -> None:
        found = camera().ball(np.array([2.0, y, 0.0]), 0.1)
        assert (found.whole, found.absent) == (whole, absent)

    def test_shows_no_ball_behind_it(self) -> None:
        assert camera().ball(np.array([-2.0, 0.0, 0.0]), 0.1) == InImage(NAN, NAN, whole=False, absent=True)

    def test_shows_the_middle_of_a_patch_where_its_middle_is(self) -> None:
        middle = np.array([2.0, 0.2, 0.1])
        corners = middle + np.array([(0, a, b) for a in (-0.2, 0.2) for b in (-0.1, 0.1)])
        found = camera().patch(middle, corners)
        assert (found.x, found.y) == (pytest.approx(MIDDLE[0] - 26.6), pytest.approx(MIDDLE[1] - 13.3))
        assert found.whole
        assert not camera(yaw=-0.6).patch(middle, corners).whole
        assert camera(yaw=math.pi).patch(middle, corners).absent


class TestTheMotionOfTheImage:
    axis = np.array([[3.0, 0.0, 0.0]])

    @pytest.mark.parametrize("turned", [0.02, -0.1])
    def test_is_that_of_the_tangent_on_the_axis_of_a_camera_that_turns(self, turned: float) -> None:
        motion = image_motion(camera(), camera(yaw=turned), self.axis)
        assert motion == pytest.approx(np.array([[FOCAL_LENGTH * math.tan(turned), 0.0]]))

    def test_points_away_from_where_the_camera_drives_to(self) -> None:
        aside = np.array([[2.0, -0.5, -0.25]])
        motion = image_motion(camera(), camera(x=1.0), aside)
        assert motion == pytest.approx(FOCAL_LENGTH * np.array([[0.5 / 1 - 0.5 / 2, 0.25 / 1 - 0.25 / 2]]))

    def test_goes_on_beyond_the_edges_of_the_image(self) -> None:
        motion = image_motion(camera(), camera(yaw=0.8), self.axis)
        assert motion == pytest.approx(np.array([[FOCAL_LENGTH * math.tan(0.8), 0.0]]))

    def test_is_unknown_for_points_that_get_behind_the_camera(self) -> None:
        assert np.isnan(image_motion(camera(), camera(x=4.0), self.axis)).all()


def header(seconds: float) -> Header:
    return Header(stamp=stamp(seconds))


def stamp(seconds: float) -> Time:
    nanoseconds = 1000 * 10**9 + round(1e9 * seconds)
    return Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


class TestTheTruthBesideAResult:
    def test_of_a_heading_counts_from_its_reference(self) -> None:
        record = record_of(*(truth((n + 1) * PERIOD, yaw=0.1 * n) for n in range(5)))
        heading = Heading(header=header(5 * PERIOD), reference_stamp=stamp(2 * PERIOD), valid=True, yaw=0.25)
        record.measure(heading, 5 * PERIOD)
        (found,) = record.measured["yaw"]
        assert (found.true, found.value) == (pytest.approx(0.3), 0.25)

    def test_of_a_heading_from_another_world_is_unknown(self) -> None:
        record = record_of(truth(PERIOD))
        record.measure(
            Heading(header=header(PERIOD), reference_stamp=stamp(-1.0), valid=True, yaw=0.25), PERIOD
        )
        assert record.measured["yaw"][0].true == NAN

    def test_of_an_approach_is_its_time_and_its_rate(self) -> None:
        record = record_of(truth(PERIOD, time_to_contact=4.0, expansion_rate=0.25))
        record.measure(TimeToContact(valid=True, ttc=5.0, ttc_sigma=0.5, expansion_rate=0.5), PERIOD)
        assert record.measured["time to contact"][0].true == 4.0
        rate = record.measured["expansion rate"][0]
        assert (rate.value, rate.true) == (0.5, 0.25)

    def test_of_a_spot_is_in_pixels(self) -> None:
        record = record_of(truth(PERIOD, spot=InImage(159.5, 20.0, whole=True, absent=False)))
        record.measure(ServoError(valid=True, x=0.0, y=-1.0, x_sigma=0.01, y_sigma=0.02), PERIOD)
        x, y = record.measured["spot x"][0], record.measured["spot y"][0]
        assert (x.value, x.true, x.sigma) == (159.5, 159.5, pytest.approx(1.595))
        assert (y.value, y.true, y.sigma) == (0.0, 20.0, pytest.approx(2.39))

    def test_of_a_pattern_that_the_image_cuts_off_is_unknown(self) -> None:
        record = record_of(truth(PERIOD, pattern=InImage(10.0, 20.0, whole=False, absent=False)))
        record.measure(PatternMatch(valid=True, x=10.0, y=20.0), PERIOD)
        assert record.measured["pattern x"] == [Measured(PERIOD, 10.0, 0.0, NAN)]

    def test_of_a_result_that_is_not_valid_is_kept(self) -> None:
        record = record_of(truth(PERIOD, pattern=InImage(10.0, 20.0, whole=True, absent=False)))
        record.measure(PatternMatch(valid=False), PERIOD)
        assert record.measured["pattern y"] == [Measured(PERIOD, NAN, NAN, 20.0)]


def compared(*numbers: tuple[float, float, float]) -> Comparisons:
    """Of value, sigma and truth each, image by image."""
    values, sigmas, true = np.array(numbers).T
    return Comparisons(values[np.newaxis], sigmas[np.newaxis], true[np.newaxis])


class TestComparisons:
    found = compared((1.5, 1.0, 1.0), (2.0, 0.5, 4.0), (math.nan, math.nan, 1.0), (3.0, 1.0, math.nan))

    def test_count_valid_results_where_the_truth_is_known(self) -> None:
        assert self.found.valid == pytest.approx(200 / 3)
        assert self.found.not_valid == 25

    def test_have_the_errors_of_valid_results(self) -> None:
        assert (self.found.error, self.found.relative_error, self.found.inside) == (1.25, 50, 50)

    def test_take_an_endless_time_to_contact_for_an_error(self) -> None:
        assert compared((math.inf, math.inf, 4.0)).error == math.inf

    def test_of_no_images_are_unknown(self) -> None:
        found = Comparisons.of([Record()], ("spot x", "spot y"), lambda _: True)
        assert (found.valid, found.error, found.inside) == (NAN, NAN, NAN)

    def test_are_made_of_the_images_that_count(self) -> None:
        record = record_of(truth(PERIOD, speed=1.0), truth(2 * PERIOD))
        record.measured["yaw"] = [Measured(n * PERIOD, 0.5 * n, 0.1, 0.0) for n in (1, 2, 3)]
        found = Comparisons.of([record, Record()], ("yaw",), lambda truth: truth.speed == 0)
        assert found.values.tolist() == [[1.0]]


def test_of_two_coordinates_the_distance_is_the_error() -> None:
    record = record_of(truth(PERIOD, spot=InImage(10.0, 10.0, whole=True, absent=False)))
    record.measured = {
        "spot x": [Measured(PERIOD, 13.0, 5.0, 10.0)],
        "spot y": [Measured(PERIOD, 6.0, 1.0, 10.0)],
    }
    rows = {
        (row.case, row.metric): row.value
        for row in Accuracy().rows([Outcome(0, {}, ((0.0, 0.0, 0.0),), record)])
    }
    case = "spot_tracker, a red ball, 1 worlds"
    assert rows[case, "valid"] == 100
    assert rows[case, "position, median error"] == 5
    assert rows[case, "inside one sigma (68)"] == 50


def test_the_report_plots_the_quantities_that_were_measured() -> None:
    record = record_of(truth(PERIOD))
    outcome = Outcome(0, {}, (), record)
    always = ["yaw", "time to contact"]
    assert [panel.quantity for panel in report.panels([outcome])] == always
    record.measured = {"flow x": [Measured(PERIOD, 1.0, 0.1, 1.0)], "expansion rate": []}
    assert [panel.quantity for panel in report.panels([outcome])] == [*always, "flow x"]


@needs_mujoco
class TestAWorld:
    @pytest.fixture
    def world(self) -> Iterator[World]:
        """A wall 2 m ahead of the robot, and a ball before it."""
        ball = Box(1.5, 0.4, 0.0, 0.1, 0.1, 0.2, color=(1.0, 0.0, 0.0), bottom=0.2, ball=True)
        world = World(1, [ball, Box(2.05, 0.0, 0.0, 0.05, 3.0), Box(1.0, 0.0, 0.0, 0.1, 0.1, moves=True)])
        world.move(1 - 1, 1.0, -0.5)
        world.step(PERIOD, 0.0, 0.0)
        yield world
        world.close()

    def test_knows_which_surfaces_the_camera_sees(self, world: World) -> None:
        ahead, mover = np.array([0.0, 0.0, 0.35]), np.array([1.0, -0.5, 0.35])
        targets = np.array([(2.0, 0.0, 0.35), (2.0, 1.0, 0.5), mover]) - ahead
        found = world.surfaces(targets / np.linalg.norm(targets, axis=1, keepdims=True))
        assert found[:2] == pytest.approx(np.array([(2.0, 0.0, 0.35), (2.0, 1.0, 0.5)]))
        assert np.isnan(found[2]).all()

    def test_knows_where_the_ball_is_in_its_image(self, world: World) -> None:
        world.spot = 0
        seen = world.image(noise=0.0).astype(int)
        rows, columns = np.nonzero(seen[:, :, 0] - seen[:, :, 1:].max(axis=2) > 100)
        found = world.spot_in_image()
        assert found is not None
        assert (found.x, found.y) == (
            pytest.approx(columns.mean(), abs=0.2),
            pytest.approx(rows.mean(), abs=0.2),
        )

    def test_knows_the_yaw_of_the_camera_in_its_image(self, world: World) -> None:
        world.step(PERIOD, 0.0, 1.0)
        before = world.pose[2]
        assert world.camera_yaw == pytest.approx(before - worlds.PHYSICS_STEP * world.velocity[1], abs=1e-4)

    def test_moves_its_image_to_the_right_as_the_robot_turns_left(self, world: World) -> None:
        record = Record()
        record.see(world, PERIOD)
        before = world.camera_yaw
        world.step(PERIOD, 0.0, 0.5)
        record.see(world, 2 * PERIOD)
        turned = world.camera_yaw - before
        message = Flow(header=header(2 * PERIOD), previous_stamp=stamp(PERIOD), valid=True, dx=1.0)
        record.measure(message, 2 * PERIOD)
        dx = record.measured["flow x"][0].true
        # The median is less than the mean: 1.06 of the motion on the axis of the camera, and not 1.1.
        assert 1.0 < dx / (FOCAL_LENGTH * math.tan(turned)) < 1.09
        assert record.measured["flow y"][0].true == pytest.approx(0.0, abs=0.01)

    def test_has_no_flow_to_an_image_that_it_did_not_take(self, world: World) -> None:
        record = Record()
        record.see(world, PERIOD)
        record.measure(Flow(header=header(PERIOD), previous_stamp=stamp(-1.0), valid=True), PERIOD)
        assert record.measured["flow x"][0].true == NAN


class RobotWithoutNodes:
    """Takes the place of SimulatedRobot; it takes no images."""

    def __init__(self) -> None:
        self.record = Record()
        self.world: World
        self.requests: list[SetTemplate.Request] = []
        self._velocity = 0.0, 0.0

    def enter(self, world: World) -> None:
        self.world = world

    def drive(self, linear: float, angular: float) -> None:
        self._velocity = linear, angular

    def advance(self) -> None:
        self.world.step(PERIOD, *self._velocity)
        self.record.see(self.world, (len(self.record.truths) + 1) * PERIOD)

    def call(self, service_type: type, _: str, request: SetTemplate.Request | None = None) -> object:
        if request is not None:
            self.requests.append(request)
        return service_type.Response(success=True)


@needs_mujoco
def test_the_robot_stands_turns_and_drives_at_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "image", lambda _: np.zeros((HEIGHT, WIDTH, 3), np.uint8))
    robot = RobotWithoutNodes()
    outcome = Accuracy().run(robot, 3)
    assert outcome.values == {"shown": 1.0, "collided": 0.0}
    first, *_, last = robot.record.truths
    assert (first.speed, first.turning, last.speed) == (0.0, 0.0, pytest.approx(0.0, abs=0.001))
    assert math.hypot(last.x, last.y) == pytest.approx(1.7, abs=0.1)
    assert abs(math.degrees(last.yaw)) == pytest.approx(360, abs=1)
    assert max(abs(truth.turning) for truth in robot.record.truths) > math.radians(59)
    # Wholly in the image at the start and at the end, and not at all in between.
    for target in ("spot", "pattern"):
        seen = [getattr(truth, target) for truth in robot.record.truths]
        assert seen[0].whole
        assert seen[-1].whole
        assert any(one.absent for one in seen)
    (request,) = robot.requests
    assert (request.patch.width, request.patch.height) == PATCH
    assert (request.view.width, request.view.height) == (WIDTH, HEIGHT)


@needs_mujoco
@pytest.mark.parametrize("seed", range(2))
def test_the_room_of_a_seed_shows_ball_and_poster(seed: int) -> None:
    room = make_room(seed)
    world = World(seed, room.boxes)
    world.spot = room.ball
    found = world.spot_in_image()
    assert found is not None
    assert found.whole
    assert all(box.bottom >= 0 for box in room.boxes)
    ray = np.array(room.poster) - world.camera.position
    assert world.surfaces(ray[np.newaxis] / np.linalg.norm(ray))[0] == pytest.approx(room.poster, abs=0.001)
    world.close()
