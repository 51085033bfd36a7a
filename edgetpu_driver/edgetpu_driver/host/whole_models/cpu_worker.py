"""The thread that runs the parts of models that run on the CPU."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.backends.cpu_parts import CpuPartsBackend
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.model_replica import ModelReplica
from edgetpu_driver.host.requests.admission import Admission
from edgetpu_driver.host.sticks.scheduler import Scheduler
from edgetpu_driver.host.sticks.stick_worker import StickWorker


class CpuWorker:
    """Runs parts on the CPU, in an order determined by the same rules as for sticks.

    Its thread starts with `prepare`. All methods may be called from any thread.
    """

    def __init__(self, admission: Admission) -> None:
        self._limits = admission.limits
        self.scheduler = Scheduler(admission, lambda: worker.connection.status_message)
        worker = self._worker = StickWorker(0, CpuPartsBackend(), self.scheduler, _nothing)

    def add(self, parts: Iterable[HostedModel], backend: Backend) -> None:
        """Start to run parts; backend: makes their engines."""
        worker = self._worker
        for part in parts:
            assert part.parsed is not None
            replica = ModelReplica(part.name, part.sha256, part.parsed, part.weights, backend, self._limits)
            with self.scheduler.lock:
                part.replicas = {0: replica}
                self.scheduler.models.append(part)
            worker.post(partial(worker.attach, part))

    def unload(self, parts: Iterable[HostedModel]) -> None:
        """Take no more requests for parts."""
        with self.scheduler.lock:
            for part in parts:
                self.scheduler.unload(part)

    def prepare(self) -> None:
        """Start the thread, unless it runs, and wait until it can take work."""
        worker = self._worker
        if worker.is_to_close or not worker.slot.serving:
            worker.ask(worker.ensure_open).get()

    def reopen(self) -> None:
        """Continue after `close`, if there are any parts."""
        if self.scheduler.models:
            self.prepare()

    def reach(self) -> None:
        """Wait until earlier commands are done."""
        if self._worker.slot.serving:
            self._worker.ask(_nothing).get()

    def close(self, timeout: float | None = None) -> None:
        """End the thread after the present work; waiting requests are answered UnavailableError."""
        self._worker.stop(timeout)


def _nothing() -> None:
    """Do nothing."""
