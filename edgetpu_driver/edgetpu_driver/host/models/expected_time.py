"""How long an inference of a model is expected to take."""

from __future__ import annotations

_FIRST_ESTIMATE = 0.001
"""Expected engine time, s, of a model that has not run yet."""
_NEW_SHARE = 0.2  # weight of the last measurement in the estimate


class ExpectedTime:
    """The expected time of one inference, from the measured ones."""

    def __init__(self) -> None:
        self.engine = _FIRST_ESTIMATE
        """On the host's clock, s."""
        self.device = 0.0
        """On the clock of a simulated device, s."""

    def learn(self, engine: float, device: float) -> None:
        """Take measured times, s; NaN for a device without a clock."""
        self.engine += _NEW_SHARE * (engine - self.engine)
        if device >= 0:  # not NaN
            self.device += _NEW_SHARE * (device - self.device)
