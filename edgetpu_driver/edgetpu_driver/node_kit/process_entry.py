"""Where the executables of the suite begin: an interrupt before the node is up ends them in silence.

Importing rclpy and the node takes most of a second. A Ctrl-C meanwhile would leave a traceback, so nothing
heavy is imported before the signals are in hand; `edgetpu_driver.node_kit.spin` takes them over.
"""

from __future__ import annotations

import importlib
import os
import signal
from types import FrameType

_THREADS = "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"
"""Read when NumPy and OpenCV are loaded. A small image is not worth waking other threads for, which then spin
on cores that the camera and the other nodes need; who has cores to spare may set more."""


def run_main(module: str) -> int:
    """Import a module and run its `main`."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    for threads in _THREADS:
        os.environ.setdefault(threads, "1")
    status: int = importlib.import_module(module).main()
    return status


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def driver() -> int:
    """Run the driver node."""
    return run_main("edgetpu_driver.nodes.driver_node")
