"""One run of a host: clients, faults and changes drawn from a seed, and the conditions at its end."""

from __future__ import annotations

import gc
import hashlib
import logging
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.host import model_table
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.requests.request_terms import Priority, RequestTerms
from edgetpu_driver.host.sticks.model_spreading import Spreading
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.weights.weight_request import WeightRequest
from fuzz.interleavings.answers import Answers, random_input
from fuzz.interleavings.fake_models import FakeCpu, Reader, steps_of
from fuzz.interleavings.fake_sticks import BROKEN, PICKY, SIZE, FakeBackend, FakeStick
from fuzz.interleavings.fake_threading import replaced
from fuzz.interleavings.thread_controller import ThreadController

FILES = {
    "a": b"a",
    "b": b"bb",
    "broken": BROKEN,
    "picky": PICKY,
    "one_part": b"steps cdc 1",
    "two_parts": b"steps dcd 2",
    "first": b"steps cd 3",
    "second": b"steps d 4",
    "third": b"steps dc 5",
}
"""Contents of the model files by stem."""
PIPELINES = ("first", "second"), ("first", "second", "third")
NAMES = ("a", "b", "c", "picky")
"""Names under which models are loaded."""
PATIENCE = 60.0
"""Simulated time after the last fault within which every request must be answered, s."""
_HOST = "edgetpu_driver.host."
_TRACED = "edgetpu_driver/host/"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    calls: int
    answered: int
    """Number of calls with a result instead of an error."""
    switches: int


class _Log(logging.Handler):
    """Collects unexpected errors of the host."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.unexpected: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
            self.unexpected.append(f"{record.getMessage()}: {error!r} {where}")


def host_modules() -> list[ModuleType]:
    """The modules of the host whose threads are controlled."""
    return [module for name, module in sorted(sys.modules.items()) if name.startswith(_HOST)]


def write_files(directory: Path) -> None:
    """Write the model files."""
    for stem, data in FILES.items():
        (directory / f"{stem}_edgetpu.tflite").write_bytes(data)


def run_seed(seed: int, directory: Path) -> Outcome:
    """Run a seed with the model files in a directory; raises AssertionError if something goes wrong."""
    controller = ThreadController(seed, _TRACED)
    log = _Log()
    logger = logging.getLogger("edgetpu_driver")
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(log)
    collects = gc.isenabled()
    gc.disable()  # a finaliser that waits for its thread would draw a number of this run
    try:
        with replaced(host_modules(), controller):
            scenario = Scenario(controller, directory, log)
            with patch.object(model_table, "read_model", scenario.reader.read):
                controller.run(scenario.run)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        if collects:
            gc.enable()
        logger.removeHandler(log)
        logger.propagate = propagates
    calls = scenario.answers.calls
    results = sum(1 for call in calls for answer in call.answers if not isinstance(answer, Exception))
    return Outcome(len(calls), results, controller.switches)


class Scenario:
    """A host with its clients."""

    def __init__(self, controller: ThreadController, directory: Path, log: _Log) -> None:
        self._controller = controller
        self._random = random = controller.random
        self._log = log
        models = [[data] for data in FILES.values()] + [
            [FILES[stem] for stem in stems] for stems in PIPELINES
        ]
        self.answers = Answers(
            {hashlib.sha256(b"".join(each)).hexdigest(): steps_of(each) for each in models}
        )
        self._cpu = FakeCpu(controller)
        self.reader = Reader(self._cpu)
        simulated = random.random() < 0.5
        self._sticks = [FakeStick(controller, number, simulated) for number in range(random.randint(1, 3))]
        later = random.randint(0, 1) if len(self._sticks) < 3 else 0
        self._later = [FakeStick(controller, len(self._sticks), simulated) for _ in range(later)]
        for stick in (*self._sticks, *self._later):
            stick.attach_seconds = random.choice((0.0, 0.005))
        self._busy = 0
        self._pauses = random.choice((0.1, 0.5, 0.9))
        self._closes = random.random() < 0.3
        self._parts = random.random() < 0.6
        limits = ClientLimits(waiting_per_client=random.choice((5, 100)))
        self._host = ModelHost(
            [FakeBackend(stick) for stick in self._sticks],
            [directory],
            self._on_change,
            limits,
            spreading=random.choice((Spreading.REPLICATED, Spreading.REPLICATED, Spreading.SPREAD)),
            self_check_period=random.choice((0.0, 0.0, 0.1)),
            find_more=self._find_more,
        )

    def _on_change(self) -> None:
        self._host.status()

    def _find_more(self, known: Collection[str]) -> list[FakeBackend]:
        if not self._later or self._random.random() < 0.5:
            return []
        stick = self._later.pop()
        assert stick.bus_path not in known
        self._sticks.append(stick)
        return [FakeBackend(stick)]

    def run(self) -> None:
        """Run the whole scenario, as the first thread."""
        self._start()
        self._begin("chaos", self._make_chaos)
        for number in range(self._random.randint(2, 4)):
            self._begin(f"client {number}", partial(self._be_client, f"/client{number}"))
        if self._closes:
            self._controller.sleep(self._random.uniform(0.0, 0.4))
            self._host.close()
            self._check_closed()
            self._start()
        assert self._controller.wait(lambda: not self._busy, PATIENCE), (
            f"the clients do not end\n{self._state()}"
        )
        self._calm()
        answered = self._controller.wait(
            lambda: not any(call.pending for call in self.answers.calls), PATIENCE
        )
        if not answered:
            waiting = [f"{call.kind} of '{call.name}'" for call in self.answers.calls if call.pending]
            raise AssertionError(f"not answered: {', '.join(waiting)}\n{self._state()}")
        self._check_rest()
        self._host.close()
        self._check_closed()
        assert self._controller.wait(lambda: not self._controller.unfinished(), PATIENCE), (
            f"threads continue after close: {self._controller.unfinished()}\n{self._controller.stacks()}"
        )
        self.answers.check()
        assert not self._log.unexpected, self._log.unexpected

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        self._busy += 1

        def until_done() -> None:
            work()
            self._busy -= 1

        self._controller.start(name, until_done)

    def _start(self) -> None:
        self._host.start(refresh_period=0.1, retry_period=0.05)

    def _pause(self, most: float) -> None:
        if self._random.random() < self._pauses:
            self._controller.sleep(self._random.uniform(0.0, most))

    # Work of the threads.

    def _be_client(self, client: str) -> None:
        invoke: Callable[[str], None] = self._invoke
        actions = [invoke] * 8 + [self._set_weights] * 4 + [self._multiply] * 3 + [self._load] * 4
        actions += [self._unload, self._look]
        for _ in range(self._random.randint(0, 4)):
            with suppress(EdgeTpuError):
                self._load(client)
        for _ in range(self._random.randint(3, 30)):
            with suppress(EdgeTpuError):
                self._random.choice(actions)(client)
            self._pause(0.03)

    def _terms(self, client: str) -> RequestTerms:
        deadline = self._random.choice((0.0, 0.0, 0.0, 0.005, 0.05, 2.0))
        return RequestTerms(client, self._random.choice(list(Priority)), deadline)

    def _numbers(self) -> np.random.Generator:
        return np.random.default_rng(self._random.getrandbits(32))

    def _submit(self, kind: str, name: str, begin: Callable[[Any], object], argument: Any = None) -> None:
        self.answers.submit(kind, name, self._host.model, begin, argument)

    def _load(self, client: str) -> None:
        name = self._random.choice(NAMES)
        stems: Sequence[str | tuple[str, ...]] = ("a", "a", "b", "b", "broken")
        if self._parts:
            stems = ("a", "broken", "one_part", "one_part", "two_parts", *PIPELINES)
        stem = "picky" if name == "picky" else self._random.choice(stems)
        host = self._host
        self._submit(
            "load", name, lambda done: host.submit_load(stem, name, done, client=client, shared=True)
        )

    def _unload(self, client: str) -> None:
        self._host.unload(self._random.choice(NAMES), client)

    def _invoke(self, client: str) -> None:
        name, inputs, terms = self._random.choice(NAMES), random_input(self._numbers()), self._terms(client)
        part = self._random.choice((0, 0, 0, 1, 2)) if self._parts else 0
        self._submit(
            "invoke",
            name,
            lambda done: self._host.submit_invoke(name, {"x": inputs}, done, terms, part=part),
            inputs,
        )

    def _set_weights(self, client: str) -> None:
        rows, columns = self._random.choice(((SIZE, SIZE), (SIZE, SIZE), (2 * SIZE, SIZE), (SIZE, 2 * SIZE)))
        weights = self._numbers().uniform(-1, 1, (rows, columns)).astype(np.float32)
        name, request, terms = self._random.choice(NAMES), WeightRequest(weights), self._terms(client)
        self._submit(
            "set_weights",
            name,
            lambda done: self._host.submit_set_weights(name, request, done, terms),
            request,
        )

    def _multiply(self, client: str) -> None:
        size = self._random.choice((SIZE, SIZE, 2 * SIZE))
        vector = self._numbers().uniform(-1, 1, size)
        name, terms = self._random.choice(NAMES), self._terms(client)
        request = ProductRequest(vector, passes=self._random.choice((1, 4)))
        self._submit(
            "multiply", name, lambda done: self._host.submit_multiply(name, request, done, terms), vector
        )

    def _look(self, _client: str) -> None:
        host = self._host
        self._random.choice((host.status, host.models, host.end_period))()

    def _make_chaos(self) -> None:
        rate = self._random.choice((0, 4, 12))
        for _ in range(rate):
            stick = self._random.choice(self._sticks)
            what = self._random.random()
            if what < 0.4:
                stick.plugged = not stick.plugged
            elif what < 0.6:
                stick.failures = self._random.choice((1, 1, 2))
            elif what < 0.7:
                self._host.reset()
            elif what < 0.8:
                self._submit("registers", "", self._host.submit_registers)
            elif what < 0.9:
                stick.warm = not stick.warm
            elif what < 0.97 or self._closes:
                self._random.choice((self._host.refresh, self._host.check))()
            else:
                self._host.connect()
            self._pause(0.1)

    def _calm(self) -> None:
        for stick in self._sticks:
            stick.plugged, stick.failures, stick.warm = True, 0, False

    # Conditions at the end.

    def _check_rest(self) -> None:
        """Check that no work is left: sticks are idle, nothing is claimed, unloaded models are released."""
        scheduler, sticks = self._host._scheduler, self._sticks

        def is_ready() -> bool:
            states = [stick.state for stick in self._host.status().sticks]
            resets = any(worker._times.reset_waits for worker in self._host._pool.workers)
            return states == [State.READY] * len(states) and not resets

        ready = self._controller.wait(lambda: len(self._host._pool.workers) <= len(sticks), 1.0)
        for _ in range(100):
            if is_ready():
                break
            self._controller.sleep(0.1)
        else:
            raise AssertionError(f"the sticks are not ready again\n{self._state()}")
        for name in NAMES:
            with suppress(EdgeTpuError):
                self._host.unload(name)
        self._controller.sleep(1.0)
        self._host.refresh()
        assert ready, "there are more workers than sticks"
        assert not scheduler.waiting, f"{scheduler.waiting} requests wait\n{self._state()}"
        assert not scheduler.models, f"models are kept: {[m.name for m in scheduler.models]}\n{self._state()}"
        for slot in scheduler.slots:
            assert (slot.serving, slot.running, slot.parked) == (True, None, set()), self._state()
        assert scheduler._queue._queue.cost == 0, "costs are left in the queue"
        attached = [stick.attached for stick in sticks]
        assert not any(attached), f"engines are left: {attached}"
        self._check_cpu_rest()

    def _check_cpu_rest(self) -> None:
        """Check the same for the CPU."""
        scheduler = self._host._whole.cpu.scheduler
        assert not scheduler.waiting, f"{scheduler.waiting} requests wait for the CPU\n{self._state()}"
        assert not scheduler.models, f"steps are kept: {[m.name for m in scheduler.models]}\n{self._state()}"
        for slot in scheduler.slots:
            assert (slot.running, slot.parked) == (None, set()), self._state()
        # Closing the host in the middle of a run drops engines, whose processes then end.
        assert self._closes or not self._cpu.attached, f"{self._cpu.attached} engines of the CPU are left"

    def _check_closed(self) -> None:
        sessions = [stick.session for stick in self._sticks]
        assert not any(sessions), f"devices are open after close: {sessions}"

    def _state(self) -> str:
        scheduler = self._host._scheduler
        lines = [
            f"stick {slot.number}: serving {slot.serving}, idle {slot.idle}, running {slot.running},"
            f" parked {len(slot.parked)}, {worker.connection.state.name} {worker.connection.status_message}"
            for slot, worker in zip(scheduler.slots, self._host._pool.workers, strict=True)
        ]
        for model in scheduler.models:
            replicas = {
                number: (replica.engine is not None, replica.version, replica.reading, replica.writing)
                for number, replica in model.replicas.items()
            }
            lines.append(
                f"model {model.name}: {model.state.name}, unloaded {model.unloaded}, "
                f"pending {model.requests.unanswered}, swapping {model.requests.swap is not None}, "
                f"version {model.weights_version}, replicas {replicas}"
            )
        lines += [
            f"waiting: {each.kind.value} of {each.model.name}, stick {each.stick}, begun {each.lane.begun}"
            for each in scheduler._queue
        ]
        return "\n".join([*lines, self._controller.stacks()])
