"""What it takes to get going: imports, and the control transfers that bring up a running stick."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from edgetpu_driver import EdgeTpu, VirtualEdgeTpu
from measured_figures.row import Row

AREA = "startup"
_REPEATS = 7
_REPEATS_UNCACHED = 2
_VENDOR_TRANSFERS = 56
"""The vendor's table where clock gating is off and nobody sleeps; each poll succeeds at once."""
_PEER_TRANSFERS = 54
_VENDOR_REQUESTS = (0x40, 0xC0)
_PLAIN = "import edgetpu_driver"
_COMPLETE = "import edgetpu_driver; edgetpu_driver.EdgeTpu, edgetpu_driver.CompiledModel"
_IMPORT = """
import time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
{}
print(1e3 * (middle - start), 1e3 * (time.perf_counter() - middle))
"""


def rows() -> Iterator[Row]:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        numpy, driver = _best(_REPEATS_UNCACHED, _COMPLETE, folder, "-B")
        uncached = Row(
            AREA, "with both and without cached bytecode", "time", driver, "ms", None, "lower", numpy
        )
        numpy, driver = _best(_REPEATS, _PLAIN, folder)
        yield Row(AREA, "import edgetpu_driver, beyond NumPy", "time", driver, "ms", 40.0, "lower", numpy)
        numpy, driver = _best(_REPEATS, _COMPLETE, folder)
        yield Row(AREA, "the same with EdgeTpu and CompiledModel", "time", driver, "ms", 40.0, "lower", numpy)
        yield uncached
    count = _control_transfers()
    yield Row(
        AREA,
        "bring up a running stick",
        "control transfers",
        count,
        "",
        _VENDOR_TRANSFERS,
        "lower",
        _PEER_TRANSFERS,
    )


def _best(repeats: int, statement: str, cache: str, *flags: str) -> tuple[float, float]:
    """Milliseconds to import NumPy, and for the statement after it: the best of some fresh processes.

    cache: the folder of the bytecode, so that it does not matter what is cached already or may not be.
    """
    command = [sys.executable, *flags, "-X", f"pycache_prefix={cache}", "-c", _IMPORT.format(statement)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    outputs = [
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        for _ in range(repeats)
    ]
    times = [tuple(map(float, output.split())) for output in outputs]
    return min(first for first, _ in times), min(second for _, second in times)


class _CountingStick(VirtualEdgeTpu):
    """Counts the requests to the chip's registers."""

    count = 0

    def ctrl_transfer(self, dev_handle: Any, bmRequestType: int, *arguments: Any) -> int:  # noqa: N803
        self.count += bmRequestType in _VENDOR_REQUESTS
        return int(super().ctrl_transfer(dev_handle, bmRequestType, *arguments))


def _control_transfers() -> int:
    stick = _CountingStick()
    with EdgeTpu.open(usb_backend=stick):
        return stick.count
