"""Time to contact with stamps that are late, wrong or jump, and with images that come again."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgetpu_perception.time_to_contact.looming import Looming
from testdata.pictures.approached_wall import Wall, claimed, errors, watch


class TestTime:
    def test_the_first_image_has_zones_only(self, looming: Looming) -> None:
        result = looming.update(Wall().seen(), 5.0)
        assert not result.valid
        assert result.confidence == 0
        assert math.isnan(result.ttc)
        assert min(result.zones) > 0

    @pytest.mark.parametrize("jump", [-1.0, 0.0, 1.0])
    def test_a_gap_or_a_step_back_restarts(self, looming: Looming, jump: float) -> None:
        wall = Wall()
        watch(looming, lambda t: wall.seen(t), 1.0)
        assert not looming.update(wall.seen(1.0), 29 / 30 + jump).valid

    @pytest.mark.parametrize("wrong", [-100.0, -0.05, 1.5, 1e9])
    def test_one_image_with_a_wrong_stamp_does_not_matter(self, looming: Looming, wrong: float) -> None:
        wall = Wall()
        before = watch(looming, lambda t: wall.seen(t), 2.0)
        astray = looming.update(wall.seen(2.0), 2.0 + wrong)
        after = [looming.update(wall.seen(t), t) for t in (2.0 + np.arange(1, 10) / 30).tolist()]
        assert not astray.valid
        assert all(r.approaching for r in [before[-1], *after])
        assert errors(before + after)[-9:].max() < 0.02

    @pytest.mark.parametrize("late", [(1,), (1, 2), (1, 2, 3)])
    def test_images_that_come_after_a_newer_one_do_not_matter(
        self, looming: Looming, late: tuple[int, ...]
    ) -> None:
        """Numbers of the late ones; the image after them overtakes them."""
        wall = Wall()
        watch(looming, lambda t: wall.seen(t), 2.0)
        order = [late[-1] + 1, *late, *range(late[-1] + 2, 12)]
        results = [looming.update(wall.seen(t), t) for t in (2 + (np.array(order) - 1) / 30).tolist()]
        assert [r.valid for r in results] == [k not in late for k in order]
        assert all(r.approaching for r in results if r.valid)

    @pytest.mark.parametrize("later", [-100.0, -1.0, 1.5, 1e9])
    def test_two_images_with_stamps_that_follow_each_other_restart(
        self, looming: Looming, later: float
    ) -> None:
        wall = Wall()
        watch(looming, lambda t: wall.seen(t), 1.0)
        results = [looming.update(wall.seen(t), t + later) for t in (1.0 + np.arange(12) / 30).tolist()]
        assert [r.valid for r in results] == [False] * 3 + [True] * 9

    @pytest.mark.parametrize("later", [1e3, 1e9])
    def test_a_clock_that_jumps_for_two_images_and_back_restarts(
        self, looming: Looming, later: float
    ) -> None:
        wall = Wall()
        watch(looming, lambda t: wall.seen(t), 1.0)
        for t in (1.0, 1.0 + 1 / 30):
            looming.update(wall.seen(t), t + later)
        results = [looming.update(wall.seen(t), t) for t in (1.1 + np.arange(12) / 30).tolist()]
        assert all(r.valid for r in results[3:])

    def test_a_late_image_of_another_size_does_not_matter(self, looming: Looming) -> None:
        wall = Wall()
        watch(looming, lambda t: wall.seen(t), 1.0)
        looming.update(wall.seen(0.95)[:, :200], 0.95)
        assert looming.update(wall.seen(1.0), 1.0).valid

    def test_a_fast_approach_is_measured_at_few_images_per_second(self, looming: Looming) -> None:
        """The wall grows by 20 % from the first image to the second."""
        wall, stamps = Wall(), (2.5, 2.75, 3.0, 3.25)
        last = [looming.update(wall.seen(t), t) for t in stamps][-2:]
        assert [r.expansion_rate * (4.0 - r.stamp) for r in last] == pytest.approx([1, 1], abs=0.03)

    def test_nothing_is_told_of_images_that_differ_too_much(self, looming: Looming) -> None:
        """The wall grows by a third, by a half and by its own size."""
        wall = Wall()
        assert not any(looming.update(wall.seen(t), t).valid for t in (2.0, 2.5, 3.0, 3.5))

    def test_images_that_come_twice_do_not_matter(self, looming: Looming) -> None:
        wall, results = Wall(), []
        for t in np.arange(60) / 30:
            results.append(looming.update(wall.seen(t), t))
            assert not looming.update(wall.seen(t), t).valid
        assert np.median(errors(results)) < 0.02

    def test_images_that_are_sent_again_with_new_stamps_do_not_matter(self, looming: Looming) -> None:
        """A driver sends each image of a camera of 30 Hz twice."""
        wall, results = Wall(), []
        for t in np.arange(100) / 30:
            image = wall.seen(t)
            results += [looming.update(image, t), looming.update(image, t + 1 / 60)]
        found = errors(results)[10:]
        assert np.median(found) < 0.01
        assert found.max() < 0.06
        assert all(r.approaching for r in results[40:])

    def test_an_image_sent_again_has_the_rate_at_its_own_stamp(self, looming: Looming) -> None:
        wall = Wall()
        last = watch(looming, lambda t: wall.seen(t), 1.0)[-1]
        image, stamp = wall.seen(1.0), 1.0
        first, again = looming.update(image, stamp), looming.update(image, stamp + 0.02)
        assert last.approaching
        assert first.approaching
        assert again.approaching
        assert again.stamp == stamp + 0.02
        assert again.ttc == pytest.approx(first.ttc - 0.02)
        assert again.expansion_rate == pytest.approx(1 / again.ttc)
        assert again.ttc_sigma == pytest.approx(again.expansion_rate_sigma * again.ttc**2)
        assert (again.zones, again.region) == (first.zones, first.region)

    def test_images_that_stay_the_same_show_that_the_camera_stands_still(self, looming: Looming) -> None:
        wall = Wall(noise=0.0)
        results = watch(looming, lambda t: wall.seen(min(t, 1.0)), 2.0)
        assert all(r.approaching for r in results[20:30])
        assert claimed(results[42:]) == 0
        assert all(r.valid and abs(r.expansion_rate) < 0.02 for r in results[45:])

    def test_late_and_lost_frames_do_not_matter(self, looming: Looming) -> None:
        wall = Wall()
        random = np.random.default_rng(2)
        stamps = np.cumsum(random.choice([1, 1, 2, 3], 50)) / 30
        results = [looming.update(wall.seen(t), t) for t in stamps.tolist() if t < 3.3]
        assert np.median(errors(results)) < 0.02
