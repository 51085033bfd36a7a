"""Start-up cost: imports, and the control transfers that bring up a running stick.

Baseline of imports: the import of NumPy in the same process.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from edgetpu_driver import EdgeTpu, VirtualEdgeTpu
from measured_figures.row import Row

AREA = "startup"
_REPEATS = 11
_REPEATS_UNCACHED = 3
_VENDOR_TRANSFERS = 56
"""Register writes and polls of the vendor's bring-up, without clock gating and sleep, if no poll repeats."""
_PEER_TRANSFERS = 54
_VENDOR_REQUESTS = (0x40, 0xC0)
_PLAIN = "import edgetpu_driver"
_COMPLETE = "import edgetpu_driver; edgetpu_driver.EdgeTpu, edgetpu_driver.CompiledModel"
_IMPORT = """
import time
start = time.process_time()
import numpy
middle = time.process_time()
{}
print(1e6 * (middle - start), 1e6 * (time.process_time() - middle))
"""


def rows() -> Iterator[Row]:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        uncached = _import(
            "the same without cached bytecode", None, _REPEATS_UNCACHED, _COMPLETE, folder, "-B"
        )
        yield _import("import edgetpu_driver", 0.1, _REPEATS, _PLAIN, folder)
        yield _import("the same with EdgeTpu and CompiledModel", 0.6, _REPEATS, _COMPLETE, folder)
        yield uncached
    yield Row(
        AREA,
        "bring up a running stick",
        "control transfers",
        _control_transfers(),
        "",
        _VENDOR_TRANSFERS,
        "lower",
        _PEER_TRANSFERS,
    )


def _import(case: str, reach: float | None, repeats: int, statement: str, cache: str, *flags: str) -> Row:
    """Median ratio of the time of a statement to the preceding import of NumPy, in fresh processes.

    `cache`: folder of the bytecode, which makes the time independent of other caches.
    """
    command = [sys.executable, *flags, "-X", f"pycache_prefix={cache}", "-c", _IMPORT.format(statement)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(repeats):
        result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        times.append(tuple(map(float, result.stdout.split())))
    return Row(
        AREA,
        case,
        "time / import numpy",
        statistics.median(driver / numpy for numpy, driver in times),
        "x",
        reach,
        "lower",
        baseline=statistics.median(numpy for numpy, _ in times),
        baseline_unit="us",
    )


class _CountingStick(VirtualEdgeTpu):
    """Counts the accesses to the chip's registers."""

    count = 0

    def ctrl_transfer(self, dev_handle: Any, bmRequestType: int, *arguments: Any) -> int:  # noqa: N803
        self.count += bmRequestType in _VENDOR_REQUESTS
        return int(super().ctrl_transfer(dev_handle, bmRequestType, *arguments))


def _control_transfers() -> int:
    stick = _CountingStick()
    with EdgeTpu.open(usb_backend=stick):
        return stick.count
