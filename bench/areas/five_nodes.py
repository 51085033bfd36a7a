"""The five nodes in a running graph, compared with a user's plain graph (bench/baseline_rclpy_nodes.py).

Both get the same 640x480 images from a camera in another process, in turns. A graph holds a rate if every
node publishes a result for every image.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.compared_nodes import MODELS, package_of, result_topics
from bench.instructions import counting
from bench.running_graph import Graph, Session, Turn
from demo.processes import find_executable, isolate
from measured_figures.row import Row

AREA = "five_nodes"
_SUITE, _PLAIN = "/suite", "/plain"
_RATES = (30, 45, 60, 75, 90, 100, 110, 120, 135, 150, 165, 180, 200, 220, 240, 260, 280, 300, 330, 360, 400)
_TURN_SECONDS, _QUICK_TURN_SECONDS = 8.0, 3.0
_ATTEMPTS = 2
"""Number of attempts at each rate: another process may interrupt the first one."""
_PAIRS = 10
_PAIR_SECONDS = 2.0
_WARM_UP = 60, 3.0  # Hz, s
_PROCESSES_RATE = 30.0
"""Rate of images for nodes in separate processes, Hz; two slow cores can hold it."""

Measured = tuple[Turn, Turn]
"""A turn of the suite, and one of the plain graph."""


def rows(quick: bool = False) -> Iterator[Row]:
    """Measure for ten minutes, or two if `quick`."""
    os.environ.update(isolate())
    seconds = _QUICK_TURN_SECONDS if quick else _TURN_SECONDS
    pairs = 3 if quick else _PAIRS
    with tempfile.TemporaryDirectory() as models:
        yield from _one_process(Path(models), seconds, pairs)
        yield from _a_process_each(Path(models), pairs)


def _one_process(models: Path, seconds: float, pairs: int) -> Iterator[Row]:
    case = "five nodes in one process"
    with Session() as session:
        suite = session.start(_SUITE, [single_process(models)])
        plain = session.start(_PLAIN, [_plain_process(MODELS)])
        session.set_template(suite)
        for graph in (suite, plain):
            session.measure(graph, *_WARM_UP)
        held = _highest_rates(session, (suite, plain), seconds)
        yield rate_row(f"{case}, rate without loss", *held)
        rate = held[1] / 2 or _RATES[0]
        yield from _pairs(session, suite, plain, case, rate, pairs)


def _a_process_each(models: Path, pairs: int) -> Iterator[Row]:
    case = "a process for each node"
    with Session() as session:
        suite = session.start(_SUITE, _node_processes(models))
        plain = session.start(_PLAIN, [_plain_process([name]) for name in MODELS])
        session.set_template(suite)
        for graph in (suite, plain):
            session.measure(graph, _PROCESSES_RATE, _WARM_UP[1])
        yield from _pairs(session, suite, plain, case, _PROCESSES_RATE, pairs, reach=None)


def rate_row(case: str, suite: float, plain: float) -> Row:
    """A row with the ratio of the highest rates of suite and plain graph, Hz; 0 where none was held."""
    ratio = suite / plain if plain else math.inf if suite else math.nan
    return Row(AREA, case, "rate / plain graph", ratio, "x", 1.2, "higher", plain, baseline_unit="Hz")


def _highest_rates(session: Session, graphs: tuple[Graph, Graph], seconds: float) -> list[int]:
    """The highest of _RATES that each graph held, measured in turns; 0 if it held none."""
    highest = [0, 0]
    active = {0, 1}
    for rate in _RATES:
        for index in sorted(active):
            turns = (session.measure(graphs[index], rate, seconds) for _ in range(_ATTEMPTS))
            if any(turn.lost == 0 for turn in turns):
                highest[index] = rate
            else:
                active.remove(index)
        if not active:
            break
    return highest


def _pairs(
    session: Session,
    suite: Graph,
    plain: Graph,
    case: str,
    rate: float,
    count: int,
    reach: float | None = 1.0,
) -> Iterator[Row]:
    """Lost images, delays and processor time at a rate that both hold. `reach`: limit of the ratios."""
    case = f"{case}, {rate:g} Hz"
    measured: list[Measured] = []
    for _ in range(count):
        turns = [session.measure(graph, rate, _PAIR_SECONDS) for graph in (suite, plain)]
        measured.append((turns[0], turns[1]))
    lost = [sum(turn.lost for turn in turns) for turns in zip(*measured, strict=True)]
    yield Row(AREA, case, "lost images", lost[0], "", 0, "lower", lost[1])
    delays = [(mine.p99, its.p99) for mine, its in measured]
    yield _ratio_row(case, "p99 from stamp to result / plain graph", delays, 1e3, "ms", reach)
    times = [(mine.cpu_seconds / mine.published, its.cpu_seconds / its.published) for mine, its in measured]
    instructions = _instructions_of_image(session, suite, rate)
    yield _ratio_row(case, "processor time / plain graph", times, 1e3, "ms", reach, instructions)
    if instructions is not None:
        its = _instructions_of_image(session, plain, rate)
        metric = "instructions of an image"
        limit = None if reach is None else 22.0
        yield Row(AREA, case, metric, instructions, "M", limit, "lower", its, instructions=instructions)


def _ratio_row(
    case: str,
    metric: str,
    pairs: Sequence[tuple[float, float]],
    factor: float,
    unit: str,
    reach: float | None,
    instructions: float | None = None,
) -> Row:
    """The median ratio of pairs (suite, plain graph); `factor` converts the latter to `unit`."""
    return Row(
        AREA,
        case,
        metric,
        statistics.median(mine / its for mine, its in pairs),
        "x",
        reach,
        "lower",
        factor * statistics.median(its for _, its in pairs),
        baseline_unit=unit,
        instructions=instructions,
    )


def _instructions_of_image(session: Session, graph: Graph, rate: float) -> float | None:
    """Millions of instructions per image of all processes of a graph; None where they cannot be counted."""
    with counting(graph.pids) as counter:
        turn = session.measure(graph, rate, _PAIR_SECONDS)
    return None if counter.value is None else 1e-6 * counter.value / turn.published


def single_process(models: Path) -> list[str]:
    """Command that runs the driver and the five nodes in one process."""
    path = find_executable("edgetpu_perception", "single_process")
    nodes = ",".join(MODELS)
    return [str(path), "--nodes", nodes, *_ros({"backend": "cpu", **_directories(models)})]


def _node_processes(models: Path) -> list[list[str]]:
    """Commands that run the driver and the five nodes in six processes."""
    directories = _directories(models)
    driver = {"backend": "cpu", "model_dirs": directories["model_dirs"]}
    commands = [[str(find_executable("edgetpu_driver", "edgetpu_node")), *_ros(driver)]]
    for name in MODELS:
        path = find_executable(package_of(name), name)
        commands.append([str(path), *_ros({"model_dir": directories["model_dir"], "keep_state": "false"})])
    return commands


def _plain_process(names: Iterable[str]) -> list[str]:
    """Command that runs the plain nodes of these names in one process."""
    results = ((name, result_topics()[name]) for name in names)
    nodes = (f"{name}:{result.message_type.__name__}:{result.topic}" for name, result in results)
    return [sys.executable, "-m", "bench.baseline_rclpy_nodes", *nodes]


def _directories(models: Path) -> dict[str, str]:
    """Parameters with the folder of the models, which is removed at the end of a run."""
    return {"model_dirs": f"['{models}']", "model_dir": str(models), "keep_state": "false"}


def _ros(parameters: Mapping[str, str]) -> list[str]:
    """Parameters as ROS arguments."""
    settings = [argument for name, value in parameters.items() for argument in ("-p", f"{name}:={value}")]
    return ["--ros-args", *settings, "--"]
