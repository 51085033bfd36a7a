"""A driver whose inferences take 6 s, like a hanging transfer: `python -m bench.slow_driver`."""

from __future__ import annotations

import sys
import time
from typing import Any

from edgetpu_driver.backends.backend import Backend, ParsedModel
from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.node_kit.process.spin import run
from edgetpu_driver.node_kit.process_entry import run_main
from edgetpu_driver.nodes.driver_node import DriverNode

SECONDS = 6.0
"""Duration of an inference, s; it blocks the thread of the device."""


class _SlowBackend(CpuBackend):
    def attach(self, model: ParsedModel) -> AttachedEngine:
        engine = super().attach(model)
        run_at_once = engine.run

        def run_slowly(inputs: Any) -> Any:
            time.sleep(SECONDS)
            return run_at_once(inputs)

        engine.run = run_slowly  # type: ignore[method-assign]
        return engine


class _SlowDriver(DriverNode):
    def make_backends(self) -> list[Backend]:
        return [_SlowBackend()]


def main() -> int:
    """Run the driver until SIGINT."""
    return run(lambda: [_SlowDriver()])


if __name__ == "__main__":
    sys.exit(run_main("bench.slow_driver"))
