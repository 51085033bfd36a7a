"""The parts of the time to contact: filters, alignment, and search for a second motion."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.time_to_contact.homography_alignment import (
    GROWTH,
    PARAMETERS,
    STRETCH,
    Grid,
    HomographyAlignment,
    unbiased,
)
from edgetpu_perception.time_to_contact.independent_motion import MotionSearch
from edgetpu_perception.time_to_contact.noise_and_exposure import variance_of
from edgetpu_perception.time_to_contact.plane_distance import PlaneDistance
from edgetpu_perception.time_to_contact.relative_depth_filter import (
    RelativeDepth,
)
from edgetpu_perception.time_to_contact.shadow_or_object import moves_along
from edgetpu_perception.time_to_contact.stamp_jitter import StampJitter
from edgetpu_perception.time_to_contact.surface import Surface
from edgetpu_perception.time_to_contact.surface_tracker import SurfaceTracker
from edgetpu_perception.time_to_contact.third_surface import ThirdSurface


class TestStampJitter:
    @staticmethod
    def of(stamps: NDArray[np.float64]) -> float:
        jitter = StampJitter()
        for interval in np.diff(stamps).tolist():
            jitter.take(interval)
        return math.sqrt(jitter.variance)

    def test_of_a_steady_camera_is_zero(self) -> None:
        assert self.of(np.arange(100) / 32) == 0.0

    def test_is_measured(self) -> None:
        late = np.random.default_rng(1).normal(0, 0.003, 300)
        assert self.of(np.arange(300) / 30 + late) == pytest.approx(0.003, rel=0.2)

    def test_of_a_steady_camera_that_loses_images_is_zero(self) -> None:
        kept = np.random.default_rng(2).random(300) < 0.6
        assert self.of(np.arange(300)[kept] / 32) < 1e-6

    @pytest.mark.parametrize("burst", [1, 30, 250])
    def test_is_measured_after_two_images_in_a_burst(self, burst: int) -> None:
        late = np.random.default_rng(1).normal(0, 0.003, 300)
        stamps = np.arange(300) / 30 + late
        stamps[burst] = stamps[burst - 1] + 0.0005
        assert self.of(stamps) == pytest.approx(0.003, rel=0.25)


class TestSurface:
    @staticmethod
    def followed(*, claimed: bool) -> Surface:
        """A surface that has stood still in 20 images, and then has a rate of 1/s at once."""
        surface = Surface(np.ones((4, 4), np.float32), seconds=0.1, steady=20, claimed=claimed)
        for growth in [*[0.0] * 20, 0.1]:
            surface.depth.predict(0.1)
            surface.depth.update(-growth, 1e-8)
        surface.growth, surface.jump = 0.5, 3.0
        surface.grow(0.1)
        return surface

    def test_is_followed_anew_after_a_jump(self) -> None:
        surface = self.followed(claimed=False)
        assert surface.rate == pytest.approx(1.0, rel=0.7)
        assert (surface.steady, surface.growth, surface.jump_sigma) == (0, 0.0, 0.0)

    def test_stays_claimed_after_a_jump(self) -> None:
        assert self.followed(claimed=True).steady == 20

    @pytest.mark.parametrize(
        ("rate", "lost"), [(0.0, False), (17.0, False), (17.5, True), (-6.0, False), (-6.5, True)]
    )
    def test_is_lost_if_the_depth_has_changed_by_a_factor_of_e_since_the_last_image(
        self, rate: float, lost: bool
    ) -> None:
        surface = Surface(np.ones((4, 4), np.float32), depth=RelativeDepth(rate), seconds=0.1)
        assert surface.lost == lost


class TestUnbiased:
    """Growth must be that of the images, independent of the number of steps and the expectation."""

    @pytest.mark.parametrize("steps", [1, 2, 4])
    def test_equals_the_limit_of_many_steps_without_expectation(self, steps: int) -> None:
        random = np.random.default_rng(1)
        slopes = random.normal(0, 1, (8, 40))
        signal = slopes @ slopes.T
        information = signal + np.diag(random.uniform(5, 50, 8))
        prior = np.diag(random.uniform(1, 20, 8))
        truth = random.normal(0, 0.01, 8)
        moved = np.zeros(8)
        for _ in range(steps):
            moved += np.linalg.solve(information + prior, signal @ (truth - moved) - prior @ moved)
        free = prior.copy()
        free[GROWTH, GROWTH] = 1.0
        expected = np.linalg.solve(signal + free, signal @ truth)
        assert unbiased(moved, steps, information, signal, prior)[0] == pytest.approx(expected)

    def test_has_the_variance_due_to_noise_of_the_slopes(self) -> None:
        signal, information, prior = (level * np.eye(8) for level in (100.0, 300.0, 1e-9))
        variance = unbiased(np.zeros(8), 2, information, signal, prior)[1].diagonal()
        assert variance[0] == pytest.approx(300 / 100**2)
        assert variance[GROWTH] == pytest.approx((300 + 1) / (100 + 1) ** 2)


def _noisy_scene() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Jacobian [8, 60, 60] of random slopes, and a residual [60, 60] of noise alone, grey levels."""
    random = np.random.default_rng(1)
    slopes = random.normal(0, 5, (2, 60, 60)).astype(np.float32)
    y, x = (np.mgrid[:60, :60] - 29.5).astype(np.float32) / 45
    jacobian = np.zeros((8, 60, 60), np.float32)
    jacobian[:2] = 45 * slopes
    jacobian[2] = x * jacobian[0] + y * jacobian[1]
    residual = random.normal(0, 2, (60, 60)).astype(np.float32)
    return jacobian, residual


class TestMotionSearch:
    def test_finds_the_square_with_its_own_motion(self) -> None:
        jacobian, residual = _noisy_scene()
        step = (0.004, -0.003, 0.03)
        residual[12:36, 20:44] += np.tensordot(step, jacobian[:3, 12:36, 20:44], 1).astype(np.float32)
        found = MotionSearch(60, 60).find(jacobian, residual, np.full((60, 60), 0.25, np.float32))
        assert found is not None
        assert (found.rows, found.columns) == (slice(12, 36), slice(20, 44))
        assert found.step == pytest.approx(step, abs=0.001)
        assert found.evidence > 100

    @pytest.mark.parametrize(("growing", "rows"), [(False, slice(0, 24)), (True, slice(32, 56))])
    def test_may_be_asked_for_the_square_that_grows(self, growing: bool, rows: slice) -> None:
        """What shrinks above explains more than what grows below."""
        jacobian, residual = _noisy_scene()
        residual[:24, 20:44] -= 0.06 * jacobian[2, :24, 20:44]
        residual[32:56, 20:44] += 0.03 * jacobian[2, 32:56, 20:44]
        weights = np.full((60, 60), 0.25, np.float32)
        found = MotionSearch(60, 60).find(jacobian, residual, weights, growing=growing)
        assert found is not None
        assert (found.rows, found.columns) == (rows, slice(20, 44))
        assert found.step[2] == pytest.approx(0.03 if growing else -0.06, abs=0.003)

    def test_finds_nothing_in_noise(self) -> None:
        random = np.random.default_rng(2)
        jacobian = random.normal(0, 200, (8, 60, 60)).astype(np.float32)
        residual = random.normal(0, 2, (60, 60)).astype(np.float32)
        found = MotionSearch(60, 60).find(jacobian, residual, np.full((60, 60), 0.25, np.float32))
        assert found is not None
        assert found.evidence < 25

    def test_returns_none_for_a_map_that_is_too_small(self) -> None:
        assert MotionSearch(11, 60).find(np.zeros((8, 11, 60)), np.zeros((11, 60)), np.ones((11, 60))) is None


def test_a_speck_in_front_of_a_moving_picture_is_not_tried_as_a_surface() -> None:
    random = np.random.default_rng(1)
    picture = cv2.GaussianBlur(random.normal(0, 150, (60, 80)), (0, 0), 2).astype(np.float32)
    tracker = SurfaceTracker(Grid(60, 60, (45.0, 45.0), (29.5, 29.5)), slope_noise=0.5)
    for frame in range(10):
        brightness = picture[:, frame : frame + 60].copy()
        cv2.circle(brightness, (20, 44), 3, 120, -1)
        down, right = np.gradient(brightness)
        tracker.update(brightness, right, down, right**2 + down**2, frame / 30)
        assert len(tracker.surfaces) == 1


@pytest.mark.parametrize(
    ("established", "rate", "succeeds"), [(True, 0.2, True), (False, 0.2, False), (True, 0.05, False)]
)
def test_a_third_surface_succeeds_a_lost_second_surface_if_it_is_proven_and_sooner_than_the_main_one(
    established: bool, rate: float, succeeds: bool
) -> None:
    """The main surface has a rate of 0.1/s."""
    membership = np.ones((60, 60), np.float32)
    main = Surface(membership, depth=RelativeDepth(0.1))
    tried = Surface(membership, depth=RelativeDepth(rate), established=established)
    third = ThirdSurface(MotionSearch(60, 60))
    third.trials = [tried]
    assert third.successors(main) == ([tried] if succeeds else [])
    assert not third.trials


def _moves_along(behind: NDArray[np.float32], front: NDArray[np.float32], noise: float = 1.0) -> float:
    """`moves_along` of a disc that grows by a sixth before a background that stands still.

    `behind`: the background; `front`: what is seen within the disc in the keyframe; grey levels, [60, 60].
    """
    away, random = np.hypot(*(np.mgrid[:60, :60] - 29.5)), np.random.default_rng(3)
    keyframe = np.where(away < 12, front, behind)
    moves = cv2.getRotationMatrix2D((29.5, 29.5), 0, 14 / 12)
    own = cv2.warpAffine(keyframe, moves, (60, 60), borderMode=cv2.BORDER_REFLECT)
    shaded = np.array_equal(front, np.float32(0.6) * behind)
    image = np.where(away < 14, front if shaded else own, behind) + random.normal(0, noise, (60, 60))
    still, exact = np.eye(3), np.zeros((PARAMETERS, PARAMETERS))
    inside, brightness = np.ones((60, 60), bool), np.zeros(2, np.float32)
    by_own, by_behind = (
        HomographyAlignment(still, still, exact, (seen - image).astype(np.float32), inside, brightness)
        for seen in (own, keyframe)
    )
    membership = ((away > 10) & (away < 14)).astype(np.float32)
    image = (image - 128).astype(np.float32)
    return moves_along(membership, by_own, by_behind, image, np.full((60, 60), noise**-2, np.float32))


class TestLightPattern:
    @staticmethod
    def texture(seed: int) -> NDArray[np.float32]:
        grains = np.random.default_rng(seed).normal(0, 25, (60, 60)).astype(np.float32)
        return 120 + cv2.GaussianBlur(grains, (0, 0), 0.7)

    def test_beneath_a_shadow_the_texture_stays(self) -> None:
        wall = self.texture(1)
        assert _moves_along(wall, np.float32(0.6) * wall) < -100

    def test_of_an_object_the_texture_moves(self) -> None:
        assert _moves_along(self.texture(1), self.texture(2)) > 100

    def test_an_object_without_texture_hides_that_of_the_background(self) -> None:
        assert _moves_along(self.texture(1), np.full((60, 60), 60, np.float32)) > 100

    def test_of_nothing_is_zero(self) -> None:
        nothing = np.zeros((60, 60), np.float32)
        still = HomographyAlignment(
            np.eye(3), np.eye(3), np.eye(8), nothing, nothing == 0, np.zeros(2, np.float32)
        )
        assert moves_along(nothing, still, still, nothing, nothing + 1) == 0.0


@pytest.mark.parametrize(("moves", "certain"), [((), False), ((40.0,), False), ((60.0,), True)])
def test_a_texture_must_be_found_to_move_with_its_surface(moves: tuple[float, ...], certain: bool) -> None:
    surface = Surface(np.ones((4, 4), np.float32))
    for chi_square in moves:
        surface.take_texture(chi_square)
    assert surface.carries_texture is certain


def view_of_a_plane(
    slant: tuple[float, float], motion: tuple[float, float, float], turn: tuple[float, float, float]
) -> NDArray[np.float64]:
    """Warp from the image to the keyframe; motion in units of the distance, which falls from 1."""
    normal = np.array([*slant, 1.0])
    distance = 1 - float(normal @ motion)
    rotation = cv2.Rodrigues(np.array(turn))[0]
    warp = (np.eye(3) + np.outer(motion, normal) / distance) @ rotation
    view: NDArray[np.float64] = warp / warp[2, 2]
    return view


class TestPlaneDistance:
    @pytest.mark.parametrize("slant", [(0.0, 0.0), (0.3, 0.0), (-0.5, 0.6)])
    @pytest.mark.parametrize("course", [(0.0, 0.0), (0.2, -0.1), (-0.6, 0.2)])
    @pytest.mark.parametrize("turn", [(0.0, 0.0, 0.0), (0.1, -0.2, 0.1)])
    def test_is_exact_for_any_slant_course_and_rotation(
        self, slant: tuple[float, float], course: tuple[float, float], turn: tuple[float, float, float]
    ) -> None:
        motion = 0.15 * course[0], 0.15 * course[1], 0.15
        left = 1 - float(np.array([*slant, 1.0]) @ motion)
        found = PlaneDistance().measure(view_of_a_plane(slant, motion, turn), np.eye(8) * 1e-12)
        assert found.log == pytest.approx(math.log(left), rel=0.015)

    def test_motion_parallel_to_a_slanted_plane_is_no_approach(self) -> None:
        warp = view_of_a_plane((0.5, 0.0), (0.2, 0.0, -0.1), (0.0, 0.0, 0.0))
        found = PlaneDistance().measure(warp, np.eye(8) * 1e-12)
        assert found.log == pytest.approx(0.0, abs=2e-3)

    def test_where_the_picture_tells_little_the_stretch_is_that_of_before(self) -> None:
        slant, motion, still = (0.6, 0.0), (-0.1, 0.0, 0.2), (0.0, 0.0, 0.0)
        left = math.log(1 - float(np.array([*slant, 1.0]) @ motion))
        warp, vague = view_of_a_plane(slant, motion, still), np.eye(8) * 1e-12
        wrong = warp + np.diag([0.03, -0.03, 0.0])
        vague[STRETCH, STRETCH] = vague[STRETCH + 1, STRETCH + 1] = 0.03**2
        known, unknown = PlaneDistance(), PlaneDistance()
        known.measure(warp, np.eye(8) * 1e-12)
        known.start_keyframe(overlap=1.0)
        assert known.measure(wrong, vague).log == pytest.approx(left, rel=0.1)
        assert unknown.measure(wrong, vague).log != pytest.approx(left, rel=0.2)

    def test_forgets_a_plane_that_has_left_the_view(self) -> None:
        vague, still = np.eye(8) * 1e-12, (0.0, 0.0, 0.0)
        vague[STRETCH, STRETCH] = vague[STRETCH + 1, STRETCH + 1] = 0.005**2
        left, kept = PlaneDistance(), PlaneDistance()
        for plane, overlap in ((left, 0.0), (kept, 1.0)):
            plane.measure(view_of_a_plane((0.5, 0.3), (-0.1, 0.0, 0.2), still), np.eye(8) * 1e-12)
            plane.start_keyframe(overlap)
        ahead = view_of_a_plane((0.0, 0.0), (0.0, 0.06, 0.2), still)  # slant plus course as before
        errors = [abs(plane.measure(ahead, vague).log - math.log(0.8)) for plane in (left, kept)]
        assert errors[0] < errors[1] / 4

    def test_an_uncertain_stretch_makes_the_distance_uncertain(self) -> None:
        warp = view_of_a_plane((0.0, 0.0), (0.0, 0.0, 0.2), (0.0, 0.0, 0.0))
        vague = np.eye(8) * 1e-12
        vague[STRETCH, STRETCH] = vague[STRETCH + 1, STRETCH + 1] = 0.05**2
        sharp = PlaneDistance().measure(warp, np.eye(8) * 1e-12)
        found = PlaneDistance().measure(warp, vague)
        assert found.lasting_sigma > 10 * sharp.lasting_sigma
        assert found.variance > 100 * sharp.variance


@pytest.mark.parametrize("sigma", [0.4, 0.7, 1.5])
def test_noise_is_measured_despite_rounding_to_whole_levels(sigma: float) -> None:
    rounded = np.rint(np.random.default_rng(9).normal(0, sigma, 20000)).astype(np.float32)
    assert variance_of(rounded**2) == pytest.approx(sigma**2, rel=0.1)


@pytest.mark.parametrize(("steady", "sigma"), [(0, 2.0), (5, 1.0), (10, 0.0), (40, 0.0)])
def test_a_jump_of_the_rate_is_believed_the_more_the_longer_it_lasts(steady: int, sigma: float) -> None:
    assert Surface(np.ones((4, 4), np.float32), jump=2.0, steady=steady).jump_sigma == sigma


@pytest.mark.parametrize(("misfit", "share"), [(1.0, 0.0), (2.0, 0.5), (12.0, 11 / 12)])
def test_what_deviates_from_the_motion_of_a_surface_adds_to_sigma(misfit: float, share: float) -> None:
    """Half of what deviates in a window of 5x5 elements adds up, of the noise 1.8 squared elements."""
    surface = Surface(np.ones((4, 4), np.float32), misfit=misfit)
    expected = surface.depth.rate_sigma * math.sqrt(share * (12.5 / 1.8**2 - 1))
    assert surface.deviation_sigma == pytest.approx(expected)


def surface_with_evidence() -> Surface:
    """A surface that has gained 100 over a keyframe of 0.4 s."""
    surface = Surface(np.ones((4, 4), np.float32))
    surface.take_evidence(100.0, 0.4)
    return surface


def test_evidence_is_kept_while_a_new_keyframe_is_too_young_to_repeat_it() -> None:
    surface = surface_with_evidence()
    surface.take_evidence(5.0, 0.1)
    assert surface.evidence == pytest.approx(97.0)


def test_evidence_is_refuted_by_a_comparison_over_as_long_a_time() -> None:
    surface = surface_with_evidence()
    surface.take_evidence(5.0, 0.4)
    assert surface.evidence == pytest.approx(80.0)


def test_evidence_grows_at_once() -> None:
    surface = surface_with_evidence()
    surface.take_evidence(300.0, 0.4)
    assert surface.evidence == 300.0
