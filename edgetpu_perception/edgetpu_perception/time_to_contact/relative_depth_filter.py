"""Rate of approach: a Kalman filter over the depth relative to a keyframe."""

from __future__ import annotations

import math

SPEED_CHANGE_SIGMA = 0.03
"""Expected relative change of the speed within 1 s, one standard deviation, while measurements fit.

Rows: looming, plane, 95th percentile and inside one sigma.
"""

MIN_RATE_SCALE = 0.5
"""Changes of speed at a smaller rate count as if they were relative to this rate, 1/s.

Rows: looming, static and receding.
"""

SUDDEN_VARIANCES = 25.0
"""Squared innovation over its variance above which the speed has changed since the last image.

Derived: five standard deviations. Rows: looming, speed changes; 16 and 40 change them by 2 points.
"""

JUMP_SHARE = 0.5
"""A rate of which more than this share came in one image has jumped: something else may have come into view.

Uncritical: what speeds up steadily gains far less from one image to the next.
"""

SURPRISE_THRESHOLD = 6.0
"""Mean squared innovation over its variance above which a change of speed is assumed.

Rows: looming, object before a background, 95th percentile.
"""

MAX_VARIANCE_BOOST = 400.0
"""Largest factor by which a surprise raises the variance of the change of speed. Rows: the same."""

CONSTANT_RATE_SIGMA = 0.1
"""Relative standard deviation of a rate computed as if it had been constant. Rows: the same."""

ALIKE_S = 0.03
"""Time within which the errors of images are alike, s: resampling errors hardly change while the picture
moves by a fraction of an element. All innovations within this time count as one measure of the errors.

Derived: correlations of successive innovations are below 0.1 at 30 images a second, 0.2 at 60, 0.3 at 120.
Rows: none, as the clips have 30 images a second; test_counts_errors_that_are_alike_once.
"""

_SURPRISE_WEIGHT = 0.25
"""Weight of the newest innovation, or of its square, in the averages that tell of a change of speed.

Rows: the same.
"""

MISFIT_WEIGHT = 0.08
"""Weight of the newest squared innovation in the average that corrects the variance.

Rows: looming, plane and plane at a slant, inside one sigma.
"""

ASSUMED_INNOVATIONS = 4
"""The average begins as if there had been this many innovations as large as expected. Rows: the same."""

MIN_MISFIT = 0.03
"""Least factor on the variance. Given as a guard: a picture that stands still has no innovations at all, and
clear pictures at a constant speed have factors down to 0.05."""

LASTING_RATE_ERROR = 0.004
"""Relative standard deviation of the rate due to lasting errors, such as those of resampling, which
innovations do not show. For a map of LASTING_ERROR_ELEMENTS.

Rows: looming, plane at a slant, inside one sigma; 0.003 and 0.005 change them by 2 to 7 points.
"""

LASTING_ERROR_ELEMENTS = 60 * 60
"""Elements of the map for which LASTING_RATE_ERROR was measured. Given by the model of 64x64 px."""

MAX_TREND = 9.0
"""Squared mean innovation over its variance above which the speed must have changed.

Derived: three standard deviations.
"""


def lasting_error_of(elements: int) -> float:
    """Relative standard deviation of the rate due to lasting errors in a map of this many elements.

    In a larger map the errors of more elements average out, and over its longer sides they change the growth
    less.
    """
    return LASTING_RATE_ERROR * LASTING_ERROR_ELEMENTS / elements


class _AlikeInnovations:
    """Combines the innovations of images whose errors are alike into one."""

    def __init__(self) -> None:
        self._sum, self._count, self._seconds = 0.0, 0, 0.0

    def add(self, innovation: float, seconds: float) -> float | None:
        """Add an innovation over its standard deviation, `seconds` after the last one.

        Returns None until ALIKE_S has passed; then the sum of the innovations over the standard deviation
        that it would have if all were independent.
        """
        self._sum, self._count = self._sum + innovation, self._count + 1
        self._seconds += seconds
        if self._seconds < ALIKE_S:
            return None
        found = self._sum / math.sqrt(self._count)
        self._sum, self._count, self._seconds = 0.0, 0, 0.0
        return found


class RelativeDepth:
    """Kalman filter with the state log(depth / depth at the keyframe), and rate = speed / depth, 1/s.

    At constant speed depth falls linearly, so the derivative of the rate is the square of the rate.
    """

    def __init__(
        self,
        rate: float = 0.0,
        log_depth: float = 0.0,
        log_depth_sigma: float = 0.0,
        lasting_error: float = LASTING_RATE_ERROR,
    ) -> None:
        """Start with this state and a standard deviation of the rate of 1.0, 1/s.

        `lasting_error`: relative standard deviation of the rate due to lasting errors.
        """
        self.rate = rate
        self.lasting_error = lasting_error
        self._log_depth = log_depth
        self._variance = (log_depth_sigma**2, 0.0, 1.0)
        self._keyframe_variance = math.nan
        self._surprise = 1.0
        self.jumped = False
        """Whether the last measurement was sudden and gave the rate more than JUMP_SHARE of its value."""
        self._innovations = 0
        self._misfit = 1.0
        self._mean_innovation = 0.0
        self._seconds = 0.0
        self._alike = _AlikeInnovations()

    @property
    def rate_sigma(self) -> float:
        """One standard deviation of the rate, 1/s, as expected from the noise and from changes of speed."""
        return math.sqrt(self._variance[2])

    @property
    def observed_rate_sigma(self) -> float:
        """One standard deviation of the rate, 1/s, as the innovations show it.

        If all variances are wrong by the same factor, the rate is still right, and the factor is the mean
        squared innovation over its variance. Innovations of one sign show that the rate lags behind the
        speed; then the factor follows from their mean. Lasting errors are added.
        """
        trend = self._mean_innovation**2 * (2 - _SURPRISE_WEIGHT) / _SURPRISE_WEIGHT
        factor = max(self._misfit, MIN_MISFIT, trend if trend > MAX_TREND else 0.0)
        return math.hypot(math.sqrt(factor) * self.rate_sigma, self.lasting_error * self.rate)

    def predict(self, seconds: float) -> None:
        """Predict the state after this time."""
        self._seconds = seconds
        left = max(1.0 - self.rate * seconds, 0.2)
        self._log_depth += math.log(left)
        self.rate /= left
        depth, cross, rate = self._variance
        a, b = -seconds / left, 1.0 / left**2
        self._variance = (depth + 2 * a * cross + a * a * rate, b * (cross + a * rate), b * b * rate)
        boost = min(self._surprise**2, MAX_VARIANCE_BOOST) if self.surprised else 1.0
        change = boost * (SPEED_CHANGE_SIGMA**2) * (MIN_RATE_SCALE**2 + self.rate**2) * seconds
        self._allow_change(change, seconds)

    def _allow_change(self, variance: float, seconds: float) -> None:
        """Allow for a change of the rate, 1/s, with this variance, at any time in the last seconds."""
        depth, cross, rate = self._variance
        self._variance = (
            depth + variance * seconds**2 / 3,
            cross - variance * seconds / 2,
            rate + variance,
        )

    def update(self, log_depth: float, variance: float, judged: bool = True) -> None:
        """Add a measurement; the present image and the keyframe contribute half of its variance each.

        `judged`: whether its innovation tells how large the errors are.
        """
        noise = variance / 2
        if math.isnan(self._keyframe_variance):
            depth, cross, rate = self._variance
            self._variance = (depth + noise, cross, rate)
        self._keyframe_variance = noise
        innovation = log_depth - self._log_depth
        total = self._variance[0] + noise
        sudden = innovation**2 > SUDDEN_VARIANCES * max(self._misfit, 1.0) * total
        if sudden:
            # The likeliest variance of the change makes this innovation one standard deviation. A change that
            # is allowed for now needs no allowance later, however far apart the next images are.
            time = max(self._seconds, ALIKE_S)
            self._allow_change(3 * (innovation**2 - total) / time**2, time)
            total = innovation**2
        self._judge(innovation / math.sqrt(total), judged)
        depth, cross, rate = self._variance
        total = depth + noise
        self._log_depth += depth / total * innovation
        change = cross / total * innovation
        self.rate += change
        self.jumped = sudden and abs(change) > JUMP_SHARE * abs(self.rate)
        self._variance = (depth * noise / total, cross * noise / total, rate - cross * cross / total)

    def _judge(self, innovation: float, judged: bool) -> None:
        """Learn from an innovation over its standard deviation how large the errors are."""
        self._surprise += _SURPRISE_WEIGHT * (innovation**2 - self._surprise)
        mean = self._alike.add(innovation, self._seconds)
        if mean is None:
            return
        self._mean_innovation += _SURPRISE_WEIGHT * (mean - self._mean_innovation)
        if judged and not self.surprised:  # a surprise has been allowed for
            self._innovations += 1
            weight = max(MISFIT_WEIGHT, 1 / (self._innovations + ASSUMED_INNOVATIONS))
            self._misfit += weight * (mean**2 - self._misfit)

    @property
    def surprised(self) -> bool:
        """Whether recent measurements contradict a constant speed."""
        return self._surprise > SURPRISE_THRESHOLD

    def start_over(self, log_depth: float, variance: float, seconds: float) -> None:
        """Restart from one measurement, as if the speed had been constant since the keyframe."""
        grown = math.exp(-log_depth)
        self._log_depth, self.rate = log_depth, (grown - 1) / seconds
        depth, slope = variance / 2, -grown / seconds
        self._variance = (depth, slope * depth, 2 * slope**2 * depth + (CONSTANT_RATE_SIGMA * self.rate) ** 2)
        self._surprise, self._mean_innovation = 1.0, 0.0

    def start_keyframe(self) -> None:
        """Make the present image the keyframe."""
        self._log_depth = 0.0
        if not math.isnan(self._keyframe_variance):
            self._variance = (self._keyframe_variance, 0.0, self._variance[2])
