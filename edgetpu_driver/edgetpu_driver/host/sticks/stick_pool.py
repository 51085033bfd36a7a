"""The sticks of a host as a whole: their workers, the models they hold, and their state."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any

from edgetpu_driver.backends.backend import Backend, Readings, RegisterValue
from edgetpu_driver.host.host_status import HostStatus, State, StickStatus
from edgetpu_driver.host.inference_statistics import joined
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.model_replica import ModelReplica
from edgetpu_driver.host.requests.admission import Admission
from edgetpu_driver.host.sticks.model_spreading import Spreading, resident_together, spread, stages
from edgetpu_driver.host.sticks.scheduler import Scheduler
from edgetpu_driver.host.sticks.stick_worker import StickWorker

_log = logging.getLogger(__name__)

_CLOSENESS = (
    State.READY,
    State.RECOVERING,
    State.STARTING,
    State.BOOT,
    State.FAILED,
    State.ABSENT,
    State.CLOSED,
)
"""The states, the one closest to READY first."""
_COUNTERS = ("uploads", "bytes_sent", "bytes_received", "retries", "recoveries", "thermal_warnings")


class StickPool:
    """One worker for each backend. All methods may be called from any thread."""

    def __init__(
        self,
        backends: Sequence[Backend],
        scheduler: Scheduler,
        admission: Admission,
        spreading: Spreading,
        on_change: Callable[[], None],
    ) -> None:
        self.workers = [
            StickWorker(number, backend, scheduler, on_change) for number, backend in enumerate(backends)
        ]
        self._on_change = on_change
        self._scheduler = scheduler
        self._admission = admission
        self._spreading = spreading
        self._pipelines: list[tuple[HostedModel, ...]] = []
        """The parts of each model whose parts no stick can have in its memory together."""
        self._ask_registers: list[Callable[[tuple[RegisterValue, ...]], None]] = []
        """Callbacks that wait for the registers; not empty while the registers are being read."""
        scheduler.rebalance = self._rebalance

    def add(self, model: HostedModel) -> None:
        """Assign a loaded model to sticks. Must be called with the scheduler's lock held."""
        self._scheduler.models.append(model)
        if self._spreading is Spreading.SPREAD and len(self.workers) > 1:
            self._rebalance()
        else:
            for worker in self.workers:
                self._assign(model, worker)

    def add_parts(self, parts: Sequence[HostedModel]) -> None:
        """Assign the parts of one model. Must be called with the scheduler's lock held."""
        together = resident_together((part, part.caching_token, part.region) for part in parts)
        if len(together) < 2:
            for part in parts:
                self.add(part)
            return
        self._scheduler.models.extend(parts)
        self._pipelines.append(tuple(parts))
        self._place_pipelines()

    def add_stick(self, backend: Backend) -> StickWorker:
        """Add a worker for one more stick, which is given the models; the worker opens the stick."""
        with self._scheduler.lock:
            worker = StickWorker(len(self.workers), backend, self._scheduler, self._on_change)
            self.workers = [*self.workers, worker]
            if self._spreading is Spreading.REPLICATED:
                for model in self._alone():
                    self._assign(model, worker)
        return worker

    def bus_paths(self) -> set[str]:
        """Bus paths of the sticks that have been opened so far."""
        return {worker.connection.readings.bus_path for worker in self.workers}

    def ask_all(self, command: Callable[[StickWorker], Any]) -> list[Any]:
        """Call a method of every worker and wait; returns the results, or exceptions in their place."""
        answers: list[SimpleQueue[Any]] = [worker.ask(partial(command, worker)) for worker in self.workers]
        return [answer.get() for answer in answers]

    def submit_registers(self, done: Callable[[tuple[RegisterValue, ...]], None]) -> None:
        """Read state and registers of all devices, without waiting.

        Calls during a reading share its result, so that clients cannot keep the devices busy with readings.
        """
        with self._scheduler.lock:
            self._ask_registers.append(done)
            if len(self._ask_registers) > 1:
                return
        found: dict[int, tuple[RegisterValue, ...]] = {}
        workers = self.workers

        def store(worker: StickWorker, registers: tuple[RegisterValue, ...]) -> None:
            with self._scheduler.lock:
                found[worker.slot.number] = registers
                last = len(found) == len(workers)
            if last:
                self._answer_registers(all_registers([found[number] for number in sorted(found)]))

        def read(worker: StickWorker) -> None:
            registers: tuple[RegisterValue, ...] = ()
            try:
                worker.refresh()
                registers = worker.registers()
            finally:
                store(worker, registers)

        def post(worker: StickWorker) -> None:
            try:
                worker.post(partial(read, worker))
            except RuntimeError:  # no thread can be started
                store(worker, ())

        for worker in workers:
            post(worker)

    def _answer_registers(self, registers: tuple[RegisterValue, ...]) -> None:
        with self._scheduler.lock:
            asking, self._ask_registers = self._ask_registers, []
        for done in asking:
            _report(done, registers)

    def stop(self, timeout: float | None, then: Callable[[float | None], None]) -> None:
        """Close all devices after their present work, and wait for them, at most `timeout` seconds in all.

        then: called with the seconds that are left.
        """
        waits = [worker.begin_stop() for worker in self.workers]
        end = None if timeout is None else time.monotonic() + timeout
        for wait in (*waits, then):
            wait(None if end is None else max(end - time.monotonic(), 0.0))

    def reach_all(self) -> None:
        """Wait until every stick that is ready has executed the earlier commands."""
        for answer in [worker.ask(_nothing) for worker in self.workers if worker.slot.serving]:
            answer.get()

    @property
    def first(self) -> StickWorker:
        """The worker whose device is closest to being ready."""
        return _first(self.workers)

    def status(self) -> HostStatus:
        """The present state, the figures of the last period, and the counters; never waits."""
        workers = self.workers  # another one may join meanwhile
        sticks = tuple(worker.status() for worker in workers)
        first = sticks[_first(workers).slot.number]
        period = joined([worker.slot.statistics.period for worker in workers])
        resident = {name: None for stick in sticks for name in stick.resident}
        return HostStatus(
            state=first.state,
            status_message=first.status_message,
            readings=_joined_readings(first, sticks),
            resident=tuple(resident),
            period=period,
            inferences=sum(stick.inferences for stick in sticks),
            recoveries=sum(stick.recoveries for stick in sticks),
            dropped=self._scheduler.dropped,
            waiting=self._scheduler.waiting,
            expired=self._scheduler.expired,
            refused=self._admission.refused,
            sticks=sticks,
        )

    def _assign(self, model: HostedModel, worker: StickWorker) -> None:
        number = worker.slot.number
        if number in model.replicas or model.parsed is None:
            return
        model.replicas = {
            **model.replicas,
            number: ModelReplica(
                model.name,
                model.sha256,
                model.parsed,
                model.weights,
                worker.backend,
                self._admission.limits,
            ),
        }
        if worker.slot.serving:
            worker.post(partial(worker.attach, model))

    def _alone(self) -> list[HostedModel]:
        """The models that are not part of a pipeline."""
        parts = {part for pipeline in self._pipelines for part in pipeline}
        return [model for model in self._scheduler.models if model not in parts]

    def _there(self) -> Sequence[int]:
        """Numbers of the sticks that models are assigned to: those in service or, if there are none, all."""
        serving = [slot.number for slot in self._scheduler.slots if slot.serving]
        return serving or range(len(self.workers))

    def _rebalance(self) -> None:
        """Assign models to the present sticks; models that can be resident together go to the same stick."""
        self._place_pipelines()
        if self._spreading is not Spreading.SPREAD or len(self.workers) == 1:
            return
        models = self._alone()
        held = resident_together((model, model.caching_token, model.region) for model in models)
        groups = {group[0]: group for group in held}
        sizes = {first: sum(model.parameter_bytes for model in group) for first, group in groups.items()}
        present = {first: next(iter(first.replicas)) for first in groups if first.replicas}
        for first, number in spread(sizes, present, self._there()).items():
            for model in groups[first]:
                self._move(model, [number])

    def _place_pipelines(self) -> None:
        """Assign each part of a pipeline to its own stick, as far as there are enough sticks."""
        loaded = set(self._scheduler.models)
        self._pipelines = [parts for parts in self._pipelines if loaded.issuperset(parts)]
        for parts in self._pipelines:
            sizes = [part.parameter_bytes for part in parts]
            for part, numbers in zip(parts, stages(sizes, self._there()), strict=True):
                self._move(part, numbers)

    def _move(self, model: HostedModel, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._assign(model, self.workers[number])
        for other, replica in list(model.replicas.items()):
            if other not in numbers and not (replica.reading or replica.writing):
                model.replicas = {at: each for at, each in model.replicas.items() if at != other}
                if self.workers[other].slot.serving:
                    self.workers[other].post(replica.close)


def all_registers(answers: Sequence[Any]) -> tuple[RegisterValue, ...]:
    """The registers of all devices; devices that raised an exception are left out."""
    return tuple(
        register for registers in answers if not isinstance(registers, Exception) for register in registers
    )


def _report(done: Callable[[tuple[RegisterValue, ...]], None], registers: tuple[RegisterValue, ...]) -> None:
    try:
        done(registers)
    except Exception:
        _log.exception("unexpected error in the callback of a reading of the registers")


def _first(workers: Sequence[StickWorker]) -> StickWorker:
    return min(workers, key=lambda worker: _CLOSENESS.index(worker.connection.state))


def _nothing() -> None:
    """Do nothing."""


def _joined_readings(first: StickStatus, sticks: Sequence[StickStatus]) -> Readings:
    """The readings of one stick, with the counters of all."""
    if len(sticks) == 1:
        return first.readings
    totals = {name: sum(getattr(stick.readings, name) for stick in sticks) for name in _COUNTERS}
    return replace(first.readings, warm=any(stick.readings.warm for stick in sticks), **totals)
