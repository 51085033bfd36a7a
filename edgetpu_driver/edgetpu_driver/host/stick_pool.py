"""The sticks of a host as a whole: their workers, the models they hold, and their state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any

from edgetpu_driver.backends.backend import Backend, Readings
from edgetpu_driver.host.admission import Admission
from edgetpu_driver.host.host_status import HostStatus, State, StickStatus
from edgetpu_driver.host.hosted_model import HostedModel
from edgetpu_driver.host.inference_statistics import joined
from edgetpu_driver.host.model_replica import ModelReplica
from edgetpu_driver.host.placement import Spreading, spread
from edgetpu_driver.host.scheduler import Scheduler
from edgetpu_driver.host.stick_worker import StickWorker

_CLOSENESS = (
    State.READY,
    State.RECOVERING,
    State.STARTING,
    State.BOOT,
    State.FAILED,
    State.ABSENT,
    State.CLOSED,
)
"""States, the closest to being ready first."""
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
        scheduler.rebalance = self._rebalance

    def add(self, model: HostedModel) -> None:
        """Assign a model that was loaded to sticks. To be called with the scheduler's lock held."""
        self._scheduler.models.append(model)
        if self._spreading is Spreading.SPREAD and len(self.workers) > 1:
            self._rebalance()
        else:
            for worker in self.workers:
                self._assign(model, worker)

    def add_stick(self, backend: Backend) -> StickWorker:
        """Add a worker for one more stick, which knows the models already; it is to open the stick."""
        with self._scheduler.lock:
            worker = StickWorker(len(self.workers), backend, self._scheduler, self._on_change)
            self.workers = [*self.workers, worker]
            if self._spreading is Spreading.REPLICATED:
                for model in self._scheduler.models:
                    self._assign(model, worker)
        return worker

    def bus_paths(self) -> set[str]:
        """Bus paths of the sticks that have been opened so far."""
        return {worker.connection.readings.bus_path for worker in self.workers}

    def ask_all(self, command: Callable[[StickWorker], Any]) -> list[Any]:
        """Have every worker do something, and wait; the results, and the exceptions."""
        answers: list[SimpleQueue[Any]] = [worker.ask(partial(command, worker)) for worker in self.workers]
        return [answer.get() for answer in answers]

    def reach_all(self) -> None:
        """Wait until every stick that is ready has done what it was told before."""
        for answer in [worker.ask(_nothing) for worker in self.workers if worker.slot.serving]:
            answer.get()

    @property
    def first(self) -> StickWorker:
        """The worker whose device is closest to being ready."""
        return min(self.workers, key=lambda worker: _CLOSENESS.index(worker.connection.state))

    def status(self) -> HostStatus:
        """The present state, the figures of the last period, and the counters; never waits."""
        sticks = tuple(worker.status() for worker in self.workers)
        first = sticks[self.first.slot.number]
        period = joined([worker.slot.statistics.period for worker in self.workers])
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
                self._admission.limits.tiles,
            ),
        }
        if worker.slot.serving:
            worker.post(partial(worker.attach, model))

    def _rebalance(self) -> None:
        """Assign models to the sticks that are there, those of one caching token to the same."""
        if self._spreading is not Spreading.SPREAD or len(self.workers) == 1:
            return
        groups: dict[Any, list[HostedModel]] = {}
        for model in self._scheduler.models:
            groups.setdefault(model.caching_token or model, []).append(model)
        sizes = {group: sum(model.parameter_bytes for model in held) for group, held in groups.items()}
        present = {group: next(iter(held[0].replicas)) for group, held in groups.items() if held[0].replicas}
        there = [slot.number for slot in self._scheduler.slots if slot.serving]
        for group, number in spread(sizes, present, there or range(len(self.workers))).items():
            for model in groups[group]:
                self._move(model, self.workers[number])

    def _move(self, model: HostedModel, worker: StickWorker) -> None:
        self._assign(model, worker)
        number = worker.slot.number
        for other, replica in list(model.replicas.items()):
            if other != number and not (replica.reading or replica.writing):
                model.replicas = {at: each for at, each in model.replicas.items() if at != other}
                if self.workers[other].slot.serving:
                    self.workers[other].post(replica.close)


def _nothing() -> None:
    """Do nothing."""


def _joined_readings(first: StickStatus, sticks: Sequence[StickStatus]) -> Readings:
    """The readings of one stick, with the counters of all."""
    if len(sticks) == 1:
        return first.readings
    totals = {name: sum(getattr(stick.readings, name) for stick in sticks) for name in _COUNTERS}
    return replace(first.readings, warm=any(stick.readings.warm for stick in sticks), **totals)
