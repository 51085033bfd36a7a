"""The cost of running a graph with LiteRT in a separate process.

Baseline of a run: the same graph on the same input in this process. Times are the processor time of both
processes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bench.timing import compare
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.litert_process import LiteRtProcess
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.litert_process_restart import IsolatedGraph
from edgetpu_driver.tflite.checks.graph_checks import check_graph
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain import dense_graph
from edgetpu_perception.graphs.families import build
from measured_figures.row import Row
from testdata import GOLDEN

AREA = "isolation"
_PROCESS_CLOCK = 2  # type of a process's clock in Linux's clock numbers
_LARGE = "models/deeplabv3_mnv2_pascal_quant.tflite"
_KB_PER_MB = 1024


def rows() -> Iterator[Row]:
    """Measure."""
    graphs = {name: build(name) for name in ("features1_64x64", "looming_128x128")}
    graphs["dense_1024"] = dense_graph.build(1024)
    path = GOLDEN.find(_LARGE)
    if path is not None:
        graphs["deeplabv3_mnv2_pascal"] = path.read_bytes()
    for name, graph in graphs.items():
        yield _run(name, graph)
    small = graphs["features1_64x64"]
    checked = compare(lambda: check_graph(small), lambda: parse_model(small))
    yield checked.row(AREA, "check a graph, features1_64x64", "parsing it", None)
    yield _start()
    yield _memory()


def _run(name: str, graph: bytes) -> Row:
    """Measure the ratio of a run in a separate process to one in this process."""
    here, isolated = CpuEngine(graph), CpuEngine(graph, isolated=True)
    rng = np.random.default_rng(0)
    inputs = {spec.name: rng.integers(0, 255, spec.shape).astype(spec.dtype) for spec in here.inputs}
    runner = isolated._runner
    assert isinstance(runner, IsolatedGraph)
    comparison = compare(lambda: isolated.run(inputs), lambda: here.run(inputs), _clock_with(runner.pid))
    isolated.close()
    return comparison.row(AREA, f"run {name}", "in this process", None)


def _clock_with(pid: int) -> Callable[[], float]:
    """A clock of the processor time of this process and another one, s."""
    other = ~pid << 3 | _PROCESS_CLOCK
    return lambda: time.process_time() + time.clock_gettime(other)


def _clock_with_children() -> float:
    """The processor time of this process and of its children that have ended, s."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _start() -> Row:
    """Measure the ratio of the start of a process that accepts a graph to that of a Python with NumPy."""

    def start() -> None:
        LiteRtProcess("the model", ProcessLimits()).close()

    def start_python() -> None:
        subprocess.run([sys.executable, "-c", "import numpy"], check=True)

    comparison = compare(start, start_python, _clock_with_children)
    return comparison.row(AREA, "start a process", "a Python that imports NumPy", None)


def _memory() -> Row:
    """Measure the memory of a process that waits for a graph."""
    process = LiteRtProcess("the model", ProcessLimits())
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    size = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    process.close()
    return Row(AREA, "memory of a process without a graph", "PSS", size / _KB_PER_MB, "MB", None, "lower")
