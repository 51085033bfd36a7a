"""The five nodes at 60 Hz, with and without a dashboard and two browsers that receive at full rate.

The browsers are clients of the page's stream (bench/dashboard_client.py). They ask for the next picture as
soon as they have received one, as the page does, but display nothing.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.areas.five_nodes import single_process
from bench.running_graph import Graph, Session, Turn
from demo.processes import find_executable, isolate
from measured_figures.row import Row

AREA = "dashboard"
LIVE_TOOLS = Path(__file__).parents[2] / "build" / "live_tools"
"""Folder in which `tools/install_extra.sh live` installs NiceGUI and the packages of its clients."""

_NAMESPACE = "/suite"
_RATE = 60.0
_NODES = ("spot_tracker", "visual_compass")
"""The nodes that the two browsers show."""
_SECONDS, _QUICK_SECONDS = 8.0, 3.0
_PAIRS, _QUICK_PAIRS = 5, 2
_LEAST_PICTURES = 1.0
"""Least rate at which each browser must take pictures, Hz: otherwise it would cost nothing."""
_START_TIMEOUT = 60.0


def rows(quick: bool = False) -> Iterator[Row]:
    """Measure for three minutes, or one if `quick`; no rows without NiceGUI."""
    if not LIVE_TOOLS.is_dir():
        print(
            "[bench] dashboard: NiceGUI is not installed: tools/run.sh tools/install_extra.sh live",
            file=sys.stderr,
        )
        return
    os.environ.update(isolate())
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(LIVE_TOOLS))))
    seconds, pairs = (_QUICK_SECONDS, _QUICK_PAIRS) if quick else (_SECONDS, _PAIRS)
    with tempfile.TemporaryDirectory() as models, Session() as session:
        suite = session.start(_NAMESPACE, [single_process(Path(models))])
        session.set_template(suite)
        session.measure(suite, _RATE, seconds)
        measured: list[tuple[Turn, Turn]] = []
        taken: list[int] = []
        for _ in range(pairs):
            plain = session.measure(suite, _RATE, seconds)
            watched, pictures = _watched(session, suite, seconds)
            measured.append((watched, plain))
            taken.append(pictures)
    yield from figures(measured, statistics.median(taken) / seconds / len(_NODES))


def figures(measured: Sequence[tuple[Turn, Turn]], pictures: float) -> Iterator[Row]:
    """The figures of turns with and without browsers. `pictures`: rate of each browser, Hz."""
    case = f"five nodes in one process, {_RATE:g} Hz, two browsers"
    lost = [sum(turn.lost for turn in turns) for turns in zip(*measured, strict=True)]
    yield Row(AREA, case, "lost images", lost[0], "", 0, "lower", lost[1])
    ratio = statistics.median(watched.cpu_seconds / plain.cpu_seconds for watched, plain in measured)
    base = 1e3 * statistics.median(plain.cpu_seconds / plain.published for _, plain in measured)
    metric = "processor time of the nodes / without"
    yield Row(AREA, case, metric, ratio, "x", 1.05, "lower", base, baseline_unit="ms")
    yield Row(AREA, case, "pictures taken", pictures, "Hz", _LEAST_PICTURES, "higher")


def _watched(session: Session, suite: Graph, seconds: float) -> tuple[Turn, int]:
    """A turn with the dashboard and its browsers, and the number of pictures that the browsers took."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = find_executable("edgetpu_dashboard", "dashboard")
    # Graph adds the namespace and --ros-args.
    command = [str(path), "--ros-args", "-p", f"port:={port}", "--"]
    dashboard = Graph(_NAMESPACE, [command], names=())
    clients: list[subprocess.Popen[str]] = []
    try:
        _await_port(port)
        clients = [_client(port, node) for node in _NODES]
        session.measure(suite, _RATE, 2.0)  # until discovery is complete and pictures arrive
        for client in clients:
            _ask(client)
        turn = session.measure(suite, _RATE, seconds)
        return turn, sum(_ask(client) for client in clients)
    finally:
        for client in clients:
            client.kill()
            client.wait()
        dashboard.stop()


def _client(port: int, node: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.dashboard_client", str(port), node]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ask(client: subprocess.Popen[str]) -> int:
    """Number of pictures that a client has received since the last call."""
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write("\n")
    client.stdin.flush()
    return int(client.stdout.readline())


def _await_port(port: int) -> None:
    end = time.monotonic() + _START_TIMEOUT
    while not _listens(port):
        if time.monotonic() > end:
            raise TimeoutError(f"the dashboard does not listen on port {port}")
        time.sleep(0.1)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
