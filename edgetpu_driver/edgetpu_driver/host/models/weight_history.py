"""The weights that were set on a hosted model, and their version."""

from __future__ import annotations

from edgetpu_driver.weights.weight_request import WeightRequest


class WeightHistory:
    """The last weights set on each tensor of a model, in the order in which they were set.

    It may be read at any time; one thread at a time records.
    """

    def __init__(self) -> None:
        self.version = 0
        """Number of times weights were replaced."""
        self._weights: dict[tuple[str, bool], tuple[int, WeightRequest]] = {}
        """By tensor and whether a bias was given: a bias stays in effect when weights are set without one."""

    def since(self, version: int) -> list[tuple[int, WeightRequest]]:
        """The weights that were set after a version, with the versions that they led to."""
        return [each for each in self._weights.values() if each[0] > version]

    def record(self, request: WeightRequest) -> int:
        """Record weights that are in effect now; returns the new version."""
        weights = dict(self._weights)  # other threads may be reading
        has_bias = request.bias is not None
        weights.pop((request.tensor, False), None)
        if has_bias:
            weights.pop((request.tensor, True), None)
        weights[request.tensor, has_bias] = self.version + 1, request
        self._weights = weights
        self.version += 1
        return self.version
