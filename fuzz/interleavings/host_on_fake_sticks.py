"""A host on fake sticks whose threads run in a deterministic order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.weights.weight_request import WeightRequest
from fuzz.interleavings.fake_sticks import INPUT, SIZE, FakeBackend, FakeStick
from fuzz.interleavings.fake_threading import replaced
from fuzz.interleavings.scenario import host_modules
from fuzz.interleavings.thread_controller import ThreadController

INPUTS = {"x": np.full(INPUT.shape, 3, np.int8)}
WEIGHTS = WeightRequest(np.full((SIZE, SIZE), 0.5, np.float32))


class Stage:
    """A host on fake sticks; the first thread, which is that of the test, runs whenever it can."""

    def __init__(self, directory: Path) -> None:
        self.controller = ThreadController(0, steady=True)
        self.sticks = [FakeStick(self.controller, number, False) for number in range(2)]
        self._directory = directory

    def make_host(self, sticks: int = 1, **options: Any) -> ModelHost:
        """A connected host on the first `sticks` sticks."""
        backends = [FakeBackend(stick) for stick in self.sticks[:sticks]]
        host = ModelHost(options.pop("backends", backends), [self._directory], **options)
        host.connect()
        return host

    def run(self, work: Callable[[], None]) -> None:
        """Run `work` as the first thread."""
        with replaced(host_modules(), self.controller):
            self.controller.run(work)

    def until(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        """Let the other threads run until the condition holds."""
        assert self.controller.wait(condition, seconds)
