"""The rate limit of an image node: skips images by their stamps."""

from __future__ import annotations

_SHARE_OF_PERIOD = 0.95
"""Share of the period after which the next image is due. Uncritical: it allows for the jitter of a camera at
exactly this rate."""


class RateLimit:
    """Decides which images are skipped, so that no more are processed than `rate_limit` says."""

    def __init__(self) -> None:
        self._last: float | None = None

    def skips(self, stamp: float, limit: float) -> bool:
        """Whether an image is skipped. stamp: s; 0 is no stamp. limit: Hz; 0: none.

        Time that goes backwards, as when a bag is played again, starts a new period.
        """
        if not stamp:
            return False
        if limit > 0 and self._last is not None and 0 <= stamp - self._last < _SHARE_OF_PERIOD / limit:
            return True
        self._last = stamp
        return False
