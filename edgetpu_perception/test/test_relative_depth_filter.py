"""The filter of the depth: its rate, and what its innovations tell of the errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgetpu_perception.time_to_contact.relative_depth_filter import (
    LASTING_RATE_ERROR,
    MIN_MISFIT,
    RelativeDepth,
    lasting_error_of,
)


class TestRelativeDepth:
    def test_at_constant_speed_is_predicted_exactly(self) -> None:
        depth = RelativeDepth()
        for frame in range(1, 31):
            depth.predict(1 / 30)
            depth.update(math.log((4 - frame / 30) / 4), 1e-8)
        assert depth.rate == pytest.approx(1 / 3, rel=1e-3)
        depth.predict(1.0)
        assert depth.rate == pytest.approx(1 / 2, rel=1e-3)

    def test_keeps_its_rate_over_a_new_keyframe(self) -> None:
        depth = RelativeDepth()
        for frame in range(1, 31):
            depth.predict(1 / 30)
            depth.update(math.log((4 - frame / 30) / 4), 1e-8)
        depth.start_keyframe()
        for frame in range(1, 11):
            depth.predict(1 / 30)
            depth.update(math.log((3 - frame / 30) / 3), 1e-8)
        assert depth.rate == pytest.approx(1 / (3 - 10 / 30), rel=1e-3)

    @staticmethod
    def after(noise: float, rates: list[float], interval: float = 0.15) -> tuple[RelativeDepth, float]:
        """A filter that expects a noise of 0.002, and the true rate, 1/s.

        After 60 images at the first rate, 30 Hz, and one at each of the others, `interval` seconds apart.
        """
        random, depth, distance = np.random.default_rng(4), RelativeDepth(), 1.0
        for number in range(60 + len(rates) - 1):
            speed = rates[max(number - 59, 0)]
            seconds = 1 / 30 if number < 60 else interval
            distance -= seconds * speed
            depth.predict(seconds)
            depth.update(math.log(distance) + random.normal(0, noise), 2 * 0.002**2)
        return depth, speed / distance

    def test_tells_of_a_rate_that_has_come_at_once(self) -> None:
        assert not self.after(0.002, [0.1])[0].jumped
        assert self.after(0.002, [0.1, 0.5])[0].jumped
        assert not self.after(0.002, [0.1, 0.5, 0.5])[0].jumped
        assert not self.after(0.002, [0.1, 0.12])[0].jumped

    def test_has_twice_the_observed_sigma_where_innovations_are_twice_as_large(self) -> None:
        (expected, _), (larger, _) = self.after(0.002, [0.1]), self.after(0.004, [0.1])
        assert larger.rate_sigma == pytest.approx(expected.rate_sigma, rel=1e-2)
        assert larger.observed_rate_sigma == pytest.approx(2 * expected.observed_rate_sigma, rel=0.15)

    def test_has_an_observed_sigma_for_identical_images(self) -> None:
        depth, _ = self.after(0.0, [0.0])
        assert depth.rate == 0.0
        assert depth.observed_rate_sigma == pytest.approx(math.sqrt(MIN_MISFIT) * depth.rate_sigma)

    def test_takes_errors_that_last_into_its_observed_sigma(self) -> None:
        depth, distance = RelativeDepth(), 3.0
        for _ in range(60):
            distance -= 1 / 30
            depth.predict(1 / 30)
            depth.update(math.log(distance / 3), 2 * 0.002**2)
        by_images = math.sqrt(MIN_MISFIT) * depth.rate_sigma
        assert depth.observed_rate_sigma == pytest.approx(
            math.hypot(by_images, LASTING_RATE_ERROR * depth.rate)
        )

    def test_takes_fewer_errors_that_last_from_a_larger_map(self) -> None:
        assert lasting_error_of(60 * 60) == pytest.approx(LASTING_RATE_ERROR)
        assert lasting_error_of(120 * 120) == pytest.approx(LASTING_RATE_ERROR / 4)

    @pytest.mark.parametrize("images", [2, 3, 4, 5, 8])
    @pytest.mark.parametrize(("before", "after"), [(-0.05, -0.25), (0.1, 0.0), (-0.1, -0.2), (0.05, 0.3)])
    def test_tells_in_its_observed_sigma_of_a_change_of_speed(
        self, images: int, before: float, after: float
    ) -> None:
        """With the sigma that is expected, up to 4.4 sigma after two images."""
        depth, rate = self.after(0.002, [before] + [after] * images)
        assert abs(depth.rate - rate) < 1.5 * depth.observed_rate_sigma

    @pytest.mark.parametrize("seed", range(3))
    def test_takes_a_sudden_change_of_speed_over_at_once(self, seed: int) -> None:
        """From the second image on it is known as well as the old one, with 5 images a second."""
        random, depth, distance = np.random.default_rng(seed), RelativeDepth(), 1.0
        errors, sigmas = [], []
        for number in range(66):
            seconds, speed = (1 / 30, 0.1) if number < 60 else (0.2, -0.2)
            distance -= seconds * speed
            depth.predict(seconds)
            depth.update(math.log(distance) + random.normal(0, 5e-4), 2 * 5e-4**2)
            errors.append(abs(depth.rate - speed / distance))
            sigmas.append(depth.observed_rate_sigma)
        assert errors[60] < 1.5 * sigmas[60]
        assert max(sigmas[61:]) < 1.5 * sigmas[59]
        assert max(np.divide(errors[61:], sigmas[61:])) < 2

    def test_counts_errors_that_are_alike_once(self) -> None:
        """Errors change 30 times a second, however many images there are."""
        few, twice, four_times = (self.rms_of_errors_in_sigmas(rate) for rate in (30, 60, 120))
        assert twice == pytest.approx(few, rel=0.1)
        assert four_times == pytest.approx(few, rel=0.1)

    @staticmethod
    def rms_of_errors_in_sigmas(images_per_second: int) -> float:
        """Root mean square of the errors of the rate in their sigma, after 1 to 3 s of 40 approaches."""
        ratios = []
        for seed in range(40):
            random, depth, distance = np.random.default_rng(seed), RelativeDepth(), 4.0
            error = 0.0
            for number in range(3 * images_per_second):
                if number % (images_per_second // 30) == 0:
                    error = random.normal(0, 0.002)
                distance -= 0.5 / images_per_second
                depth.predict(1 / images_per_second)
                depth.update(math.log(distance / 4) + error, 2 * 0.002**2)
                if number >= images_per_second and number % (images_per_second // 3) == 0:
                    ratios.append((depth.rate - 0.5 / distance) / depth.observed_rate_sigma)
        return float(np.sqrt(np.mean(np.square(ratios))))
