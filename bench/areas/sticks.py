"""Several virtual sticks in one host: throughput by their own clocks, and requests while sticks come and go.

Throughput is the number of results over the longest simulated time of a stick, with sticks on USB 3 ports.
Which stick runs a request depends only on these clocks, so the speed of this computer does not matter.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver import CpuEngine, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.backends.virtual import VirtualStickBackend
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.virtual.graph_packer import pack
from measured_figures.row import Row

AREA = "sticks"
SIZES = (64, 128, 256)
_REQUESTS = 2000
_CHAOS_REQUESTS = 100_000
_QUICK_CHAOS_REQUESTS = 5_000
_CHAOS_STICKS = 3
_INPUTS = 50  # number of different inputs for each model
_IN_FLIGHT = 16
_EVENTS = 0.02  # share of requests before which a stick is pulled or plugged in
_SHARE = 0.95  # least throughput, relative to one stick's times the number of sticks

_Inputs = dict[str, NDArray[Any]]
_Request = tuple[str, _Inputs]
"""Name of a model, and its inputs."""


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Measure a random mix of three Dense models with 64, 128 and 256 rows, seed 0."""
    logging.getLogger("edgetpu_driver").setLevel(logging.ERROR)  # the sticks are pulled on purpose
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            (Path(folder) / f"dense_{size}.tflite").write_bytes(dense.build(size))
        one = _throughput(1, folder)
        yield Row(AREA, "mix of models, 1 stick", "requests per simulated second", one, "1/s", None, "higher")
        for count in (2, 4):
            ratio = _throughput(count, folder) / one
            case = f"mix of models, {count} sticks"
            metric = "throughput / 1 stick"
            yield Row(AREA, case, metric, ratio, "x", _SHARE * count, "higher", one, baseline_unit="1/s")
        yield from _chaos(_QUICK_CHAOS_REQUESTS if quick else _CHAOS_REQUESTS, folder)


def _throughput(count: int, folder: str) -> float:
    sticks, host = _host(count, folder)
    requests = _requests(_REQUESTS)
    begun = [stick.clock.monotonic() for stick in sticks]
    answers = _run(host, requests, lambda _: None)
    elapsed = max(stick.clock.monotonic() - begin for stick, begin in zip(sticks, begun, strict=True))
    host.close()
    return sum(isinstance(answer, InferenceResult) for answer in answers) / elapsed


def _chaos(count: int, folder: str) -> Iterator[Row]:
    """Measure while sticks are unplugged and plugged in at random; at least one ready stick always stays."""
    sticks, host = _host(_CHAOS_STICKS, folder)
    host.start(refresh_period=0.05, retry_period=0.005)
    hand = _Hand(sticks, host)
    requests = _requests(count)
    answers = _run(host, requests, hand.pull_or_plug)
    host.close()
    lost = sum(not isinstance(answer, InferenceResult) for answer in answers)
    case = f"{count} requests on {_CHAOS_STICKS} sticks that come and go"
    yield Row(AREA, case, "sticks pulled", hand.pulled, "", None, "higher")
    yield Row(AREA, case, "wrong results", _wrong_results(requests, answers), "", 0, "lower")
    yield Row(AREA, case, "requests without a result", lost, "", 0, "lower")


class _Hand:
    """Pulls sticks and plugs them in again, at random."""

    def __init__(self, sticks: Sequence[VirtualEdgeTpu], host: ModelHost) -> None:
        self.pulled = 0
        """Number of times that a stick was pulled."""
        self._sticks = sticks
        self._host = host
        self._random = np.random.default_rng(0)

    def pull_or_plug(self, _number: int) -> None:
        """Before a request, sometimes pull a stick, unless no other one is ready, or plug it in again."""
        if self._random.random() > _EVENTS:
            return
        sticks, chosen = self._sticks, int(self._random.integers(len(self._sticks)))
        if not sticks[chosen].is_plugged:
            sticks[chosen].plug()
            return
        status = self._host.status().sticks
        others = [number for number in range(len(sticks)) if number != chosen]
        if any(status[number].state is State.READY and sticks[number].is_plugged for number in others):
            sticks[chosen].unplug()
            self.pulled += 1


def _wrong_results(requests: Sequence[_Request], answers: Sequence[Any]) -> int:
    """Number of results that differ from LiteRT's."""
    engines = {f"dense_{size}": CpuEngine(dense.build(size)) for size in SIZES}
    expected: dict[tuple[str, int], NDArray[Any]] = {}
    wrong = 0
    for (name, inputs), answer in zip(requests, answers, strict=True):
        key = name, id(inputs)
        if key not in expected:
            expected[key] = engines[name].run(inputs)["y"]
        if isinstance(answer, InferenceResult):
            wrong += not np.array_equal(answer.outputs["y"], expected[key])
    return wrong


def _host(count: int, folder: str) -> tuple[list[VirtualEdgeTpu], ModelHost]:
    sticks = [VirtualEdgeTpu(ports=(number + 1,)) for number in range(count)]
    backends = [
        VirtualStickBackend(partial(_open, stick), stick.library.register_model, pack) for stick in sticks
    ]
    host = ModelHost(backends, [folder])
    host.connect()
    for size in SIZES:
        host.load(f"dense_{size}")
    return sticks, host


def _open(stick: VirtualEdgeTpu, on_phase: Any) -> EdgeTpu:
    return EdgeTpu.open(stick, on_phase=on_phase)


def _requests(count: int) -> list[_Request]:
    random = np.random.default_rng(0)
    inputs = {
        size: [{"x": random.integers(0, 256, (1, size), np.uint8)} for _ in range(_INPUTS)] for size in SIZES
    }
    sizes, numbers = random.choice(SIZES, count), random.integers(0, _INPUTS, count)
    return [(f"dense_{size}", inputs[size][number]) for size, number in zip(sizes, numbers, strict=True)]


def _run(host: ModelHost, requests: Sequence[_Request], before: Callable[[int], None]) -> list[Any]:
    """The answers to all requests, _IN_FLIGHT of which run at a time; `before` is called before each."""
    answers: list[Any] = [None] * len(requests)
    finished: SimpleQueue[None] = SimpleQueue()
    free = threading.Semaphore(_IN_FLIGHT)

    def done(number: int, answer: Any) -> None:
        answers[number] = answer
        free.release()
        finished.put(None)

    for number, (name, inputs) in enumerate(requests):
        free.acquire()
        before(number)
        host.submit_invoke(name, inputs, partial(done, number))
    for _ in requests:
        finished.get()
    return answers
