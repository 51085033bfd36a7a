"""Entry points of the console scripts: signals are handled before anything slow is imported.

Importing rclpy and a node takes most of a second. Without these handlers, Ctrl-C during that time would print
a traceback. `edgetpu_driver.node_kit.process.spin` replaces them once the node is up.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import FrameType

from edgetpu_driver.files.standard_streams import fill_standard_streams
from edgetpu_driver.node_kit.node_table import DRIVER, all_nodes
from edgetpu_driver.node_kit.process.memory_limit import limit_memory
from edgetpu_driver.node_kit.process.process_end import stop_with_starter
from edgetpu_driver.node_kit.process.stop_signals import stop_signals
from edgetpu_driver.node_kit.process.unused_memory import reuse_large_blocks

LIBRARY_LIMITS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OPENCV_FOR_THREADS_NUM": "1",
    "OPENCV_IO_MAX_IMAGE_PIXELS": str(2**26),
}
"""Read when NumPy and OpenCV are loaded. Images here are too small to profit from more threads, which would
spin on cores that the camera and the other nodes need. The last one is the largest image, px, that OpenCV
decodes. Set the variables to use more."""

SWITCH_INTERVAL = 0.0002
"""Seconds after which a thread that wants to run Python interrupts another. With Python's default, 5 ms, a
stick's thread that returns from an inference waits for most of that while the executor is busy."""


def main() -> int:
    """Run the node of the table `edgetpu.nodes` that has the name of this executable."""
    return run_node(os.path.basename(sys.argv[0]))


def driver() -> int:
    """Run the driver node, whose executable is called edgetpu_node."""
    return run_node(DRIVER)


def run_node(name: str) -> int:
    """Run the node of that name in this process."""
    _prepare()
    entry = all_nodes().get(name)
    if entry is None:
        print(f"{name}: no installed package offers a node of this name", file=sys.stderr)
        return 1
    from edgetpu_driver.node_kit.process.spin import run

    return run(lambda: [entry.load()()])


def run_main(module: str) -> int:
    """Import a module and run its `main`."""
    _prepare()
    status: int = importlib.import_module(module).main()
    return status


def _prepare() -> None:
    fill_standard_streams()
    for number in stop_signals():
        signal.signal(number, _leave)
    stop_with_starter()
    for name, value in LIBRARY_LIMITS.items():
        os.environ.setdefault(name, value)
    sys.setswitchinterval(SWITCH_INTERVAL)
    limit_memory()
    reuse_large_blocks()


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)
