"""Delays of a client at 60 Hz while other clients keep the driver busy, compared with the client alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.flood import FLOOD_MODEL, KINDS, LOADS, OTHER_MODEL
from bench.slow_driver import SECONDS as SLOW_SECONDS
from bench.timed_driver import TIMED_CLIENT
from demo.processes import isolate
from edgetpu_driver.node_kit.executor.held_interrupts import held_interrupts
from measured_figures.row import Row

AREA = "fairness"
_ROOT = Path(__file__).resolve().parents[2]
_RATE = 60.0
_SECONDS = 2.0
_ROUNDS, _QUICK_ROUNDS = 10, 3
"""Numbers of rounds, each with one turn of every kind. A figure is the median over the rounds, since other
load on the machine delays some of them by more than the limits."""
_PATIENCE = 30.0
_ANSWER_PATIENCE = 1.0
"""Time after the last request of a turn in which answers count, s."""
_ADDED_REACH = 2.0
"""Limit of the delay that a flood adds in the driver, ms, in addition to its longest single transfer: on the
CPU one run of the flood's model, a tenth of a millisecond. A flood of loads has no limit: each load prepares
a graph for some milliseconds, and a request waits for at most one of them."""
_RATIO_REACH = 1.5
_ANSWER_REACH = 50.0
"""Limit of the answer time of requests that do not need the device, ms."""
_CALLS = 3
_DISCOVERY_SECONDS = 0.2
"""Time until a service has discovered a new client, s."""


@dataclass(frozen=True)
class _Turn:
    """What the client measured in one turn."""

    driver: float
    """99th percentile of the times from receiving a request to sending its answer, in the driver, ms."""
    total: float
    """99th percentile of the times from a request to its answer, at the client, ms."""
    lost: int
    """Number of requests without a result."""


@dataclass(frozen=True)
class _Round:
    """One turn of each kind, measured one after the other."""

    alone: _Turn
    flooded: _Turn
    elsewhere: _Turn
    """Turn during a flood of a second driver."""


class _TimedClient:
    """A node that sends requests at a rate to the driver in /a, and measures the answers."""

    def __init__(self) -> None:
        import rclpy
        from rclpy.signals import SignalHandlerOptions
        from std_srvs.srv import Trigger

        from edgetpu_driver.node_kit.executor.executor import make_executor
        from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE
        from edgetpu_msgs.srv import Invoke, LoadModel

        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # KeyboardInterrupt ends it
        self._node = rclpy.create_node(TIMED_CLIENT)
        self._executor = make_executor()
        self._executor.add_node(self._node)
        load = self._node.create_client(LoadModel, "/a/edgetpu/load_model")
        self._times = self._node.create_client(Trigger, "/a/edgetpu/times")
        self._invoke = self._node.create_client(Invoke, "/a/edgetpu/invoke", qos_profile=QOS_SERVICE)
        for client in (load, self._times, self._invoke):
            client.wait_for_service(_PATIENCE)
        self._spin_until(time.perf_counter() + _DISCOVERY_SECONDS)
        request = LoadModel.Request(model=OTHER_MODEL, client=TIMED_CLIENT, shared=True, wait=True)
        answer = self._call(load, request)
        (spec,) = answer.info.inputs
        self._request = _inference_request(spec)
        self.measure(1.0)

    def measure(self, seconds: float) -> _Turn:
        """Send requests for `seconds` s, and wait for their answers."""
        answers: list[tuple[float, bool]] = []
        self._driver_times()
        begin = time.perf_counter()
        count = int(seconds * _RATE)
        for number in range(count):
            self._spin_until(begin + number / _RATE)
            self._send(answers)
        end = time.perf_counter() + _ANSWER_PATIENCE
        while len(answers) < count and time.perf_counter() < end:
            with held_interrupts():
                self._executor.spin_once(_ANSWER_PATIENCE)
        good = [elapsed for elapsed, success in answers if success]
        return _Turn(_p99(self._driver_times()), _p99(good), count - len(good))

    def begin_inference(self, namespace: str) -> None:
        """Load the model on another driver and request an inference, without waiting for the result."""
        from edgetpu_msgs.srv import Invoke, LoadModel

        load = self._node.create_client(LoadModel, f"{namespace}/edgetpu/load_model")
        invoke = self._node.create_client(Invoke, f"{namespace}/edgetpu/invoke")
        for client in (load, invoke):
            client.wait_for_service(_PATIENCE)
        self._call(load, LoadModel.Request(model=OTHER_MODEL, client=TIMED_CLIENT, wait=True))
        invoke.call_async(self._request)

    def elapsed(self, kind: Any, service: str, request: Any) -> float:
        """Time from a request to its answer, which may be an error, s."""
        client = self._node.create_client(kind, service)
        client.wait_for_service(_PATIENCE)
        self._spin_until(time.perf_counter() + _DISCOVERY_SECONDS)
        begin = time.perf_counter()
        self._executor.spin_until_future_complete(client.call_async(request), _PATIENCE)
        seconds = time.perf_counter() - begin
        self._node.destroy_client(client)
        return seconds

    def close(self) -> None:
        import rclpy

        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown()

    def _send(self, answers: list[tuple[float, bool]]) -> None:
        sent = time.perf_counter()
        self._invoke.call_async(self._request).add_done_callback(
            lambda future: answers.append((time.perf_counter() - sent, future.result().success))
        )

    def _spin_until(self, end: float) -> None:
        while (left := end - time.perf_counter()) > 0:
            with held_interrupts():
                self._executor.spin_once(left)

    def _driver_times(self) -> list[float]:
        from std_srvs.srv import Trigger

        seconds: list[float] = json.loads(self._call(self._times, Trigger.Request()).message)
        return seconds

    def _call(self, client: Any, request: Any) -> Any:
        answer = client.call_async(request)
        self._executor.spin_until_future_complete(answer, _PATIENCE)
        if not answer.done():
            raise TimeoutError(f"no answer from {client.srv_name} within {_PATIENCE:g} s")
        if not answer.result().success:
            raise RuntimeError(f"{client.srv_name}: {answer.result()}")
        return answer.result()


def rows(quick: bool = False) -> Iterator[Row]:
    """Measure for eight minutes, or three if `quick`."""
    os.environ.update(isolate(drivers=("/a/edgetpu", "/b/edgetpu")))
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    with tempfile.TemporaryDirectory() as models, _drivers(Path(models)):
        client = _TimedClient()
        try:
            for kind in KINDS:
                yield from _during_a_flood(client, kind, rounds)
            yield from _with_a_slow_device(client)
        finally:
            client.close()


def _with_a_slow_device(client: _TimedClient) -> Iterator[Row]:
    """Measure requests that do not need the device while its inference takes seconds.

    Baseline: the same requests to another driver, whose device is idle.
    """
    from edgetpu_msgs.srv import ListModels, LoadModel

    case = f"while an inference takes {SLOW_SECONDS:g} s"
    requests = {
        "list_models": (ListModels, "list_models", ListModels.Request()),
        "load_model": (LoadModel, "load_model", LoadModel.Request(model=FLOOD_MODEL, name="another")),
        "load_model of an unknown file": (LoadModel, "load_model", LoadModel.Request(model="unknown")),
    }
    client.begin_inference("/slow")
    slow, idle = (
        [
            1e3 * max(client.elapsed(kind, f"{driver}/edgetpu/{service}", request) for _ in range(_CALLS))
            for kind, service, request in requests.values()
        ]
        for driver in ("/slow", "/b")
    )
    for name, longest, baseline in zip(requests, slow, idle, strict=True):
        yield Row(AREA, case, f"longest answer of {name}", longest, "ms", _ANSWER_REACH, "lower", baseline)


def _during_a_flood(client: _TimedClient, kind: str, rounds: int) -> Iterator[Row]:
    """Measure in turns: the client alone, during a flood, and during the same flood of another driver."""
    measured = [_round(client, kind) for _ in range(rounds)]
    case = f"a client at {_RATE:g} Hz during {kind}"
    lost, lost_alone = sum(one.flooded.lost for one in measured), sum(one.alone.lost for one in measured)
    yield Row(AREA, case, "lost requests", lost, "", 0, "lower", lost_alone)
    added = median(one.flooded.driver - one.alone.driver for one in measured)
    reach = None if kind == LOADS else _ADDED_REACH
    before = median(one.alone.driver for one in measured)
    yield Row(AREA, case, "added p99 in the driver", added, "ms", reach, "lower", before)
    metric = "p99 of the client / flood to a second driver"
    ratio = median(one.flooded.total / one.elsewhere.total for one in measured)
    total = median(one.elsewhere.total for one in measured)
    yield Row(AREA, case, metric, ratio, "x", _RATIO_REACH, "lower", total, baseline_unit="ms")


def _round(client: _TimedClient, kind: str) -> _Round:
    alone = client.measure(_SECONDS)
    with _flood("/a/edgetpu", kind):
        flooded = client.measure(_SECONDS)
    with _flood("/b/edgetpu", kind):
        elsewhere = client.measure(_SECONDS)
    return _Round(alone, flooded, elsewhere)


def _p99(seconds: list[float]) -> float:
    """99th percentile of times, ms; infinite without any times."""
    return 1e3 * float(np.percentile(seconds, 99)) if seconds else float("inf")


@contextmanager
def _drivers(models: Path) -> Iterator[None]:
    """Drivers in the namespaces /a, /b and /slow that have the models."""
    from edgetpu_driver.toolchain import dense_graph
    from edgetpu_perception.graphs import families

    (models / f"{OTHER_MODEL}.tflite").write_bytes(families.build(OTHER_MODEL))
    (models / f"{FLOOD_MODEL}.tflite").write_bytes(dense_graph.build(256))
    options = ("-p", "backend:=cpu", "-p", f"model_dirs:=['{models}']", "--log-level", "error")
    timed_a, timed_b, slow = (
        _start(module, "--ros-args", "-r", f"__ns:={namespace}", *options)
        for module, namespace in (
            ("bench.timed_driver", "/a"),
            ("bench.timed_driver", "/b"),
            ("bench.slow_driver", "/slow"),
        )
    )
    try:
        yield
    finally:
        slow.kill()  # its device still blocks, so SIGINT could not close it in time
        slow.wait()
        _stop(timed_a)
        _stop(timed_b)


@contextmanager
def _flood(driver: str, kind: str) -> Iterator[None]:
    process = _start("bench.flood", driver, kind)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        if process.poll() is not None:
            raise RuntimeError(f"{kind}: the flood ended early")
    finally:
        _stop(process)


def _inference_request(spec: Any) -> Any:
    from edgetpu_driver.node_kit.messages.tensor_messages import dtype_of
    from edgetpu_msgs.msg import Priority, Tensor
    from edgetpu_msgs.srv import Invoke

    size = int(np.prod(spec.shape)) * dtype_of(spec.dtype).itemsize
    tensor = Tensor(name=spec.name, dtype=spec.dtype, shape=spec.shape, data=array("B", bytes(size)))
    return Invoke.Request(
        model=OTHER_MODEL, inputs=[tensor], client=TIMED_CLIENT, priority=Priority.REAL_TIME
    )


def _start(module: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)


def _stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
