"""The thread that owns one stick: opens it, runs requests on it, reads, recovers and closes it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any

from edgetpu_driver.backends.backend import Backend, RegisterValue
from edgetpu_driver.errors import DeviceError, EdgeTpuError, UnavailableError, unexpected
from edgetpu_driver.host.host_status import State, StickStatus
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.model_replica import ModelReplica
from edgetpu_driver.host.requests.request import Kind, Request
from edgetpu_driver.host.sticks.device_connection import DeviceConnection
from edgetpu_driver.host.sticks.device_upkeep import Upkeep, UpkeepTimes
from edgetpu_driver.host.sticks.pending_attachments import PendingAttachments
from edgetpu_driver.host.sticks.pending_command import Command, PendingCommand
from edgetpu_driver.host.sticks.scheduler import Scheduler
from edgetpu_driver.host.sticks.self_check import SelfCheck, SelfCheckError
from edgetpu_driver.host.sticks.stick_duty import Duty
from edgetpu_driver.host.sticks.stick_slot import STUCK_SECONDS, StickSlot
from edgetpu_driver.host.sticks.stick_thread import StickThread
from edgetpu_driver.host.sticks.thermal_throttle import ThermalThrottle

_log = logging.getLogger(__name__)


class StickWorker:
    """Does everything that touches one device in one thread, which ends when the device is closed.

    By itself it only runs requests. After `keep_open` it also opens the device, reads it periodically, and
    reopens it when it is lost. The thread survives any exception of a device or a library.
    """

    def __init__(
        self, number: int, backend: Backend, scheduler: Scheduler, on_change: Callable[[], None]
    ) -> None:
        """on_change: called whenever the state of the device changed."""
        self._thread = StickThread(f"edgetpu stick {number}", self._step)
        self.slot = StickSlot(number, self._thread.put, self.post)
        self.connection = DeviceConnection(backend, on_change)
        self.backend = backend
        self._scheduler = scheduler
        self._throttle = ThermalThrottle()
        self.request_reset = PendingCommand(self.post, self.reset)
        self._duty = Duty.SERVE
        self.is_to_close = False
        """Whether it has been told to close and has not done so yet; it starts nothing new."""
        self._commanded = False
        """Whether the last piece of work was a command, so that a request is next."""
        self._times = UpkeepTimes()
        self._self_check = SelfCheck()
        self._pending = PendingAttachments(lambda: self._replicas().values())
        scheduler.slots.append(self.slot)

    # May be called from any thread.

    def post(self, command: Command) -> None:
        """Have the thread call a function between two pieces of work; starts the thread if necessary."""
        self._thread.post(command)

    def ask(self, command: Callable[[], Any]) -> SimpleQueue[Any]:
        """Post a command; returns a queue that receives its result, or the exception that it raised."""
        answer: SimpleQueue[Any] = SimpleQueue()

        def work() -> None:
            try:
                answer.put(command())
            except Exception as error:
                answer.put(error)

        self.post(work)
        return answer

    def keep_open(self, upkeep: Upkeep) -> None:
        """Open the device and keep it open."""

        def begin() -> None:
            self._duty = self._duty.without(Duty.END)
            self._times.begin(upkeep, time.monotonic())

        self.post(begin)

    def stop(self, timeout: float | None = None) -> None:
        """Close the device and end the thread, after the work under way; wait at most `timeout` seconds."""
        self.begin_stop()(timeout)

    def begin_stop(self) -> Callable[[float | None], None]:
        """Stop as `stop` does, without waiting; the function returned waits for a given number of seconds."""
        if not self._thread.runs:
            return _ignore
        self.is_to_close = True
        closed = self.ask(self._close)

        def wait(timeout: float | None) -> None:
            if not self._thread.is_current:
                with suppress(Empty):
                    closed.get(timeout=timeout)

        return wait

    def status(self) -> StickStatus:
        """The present state, the figures of the last period, and the counters; never waits."""
        connection, statistics = self.connection, self.slot.statistics
        readings, period, number = connection.readings, statistics.period, self.slot.number
        with self._scheduler.lock:
            held = [(model.name, model.replicas[number]) for model in self._scheduler.models_on(self.slot)]
        return StickStatus(
            connection.state,
            connection.status_message,
            readings,
            throttled=self.slot.throttled,
            resident=tuple(name for name, replica in held if replica.resident),
            waiting=self._scheduler.waiting_for(self.slot),
            utilisation=period.utilisation,
            throughput=period.throughput,
            inferences=statistics.completed,
            uploads_avoided=statistics.uploads_avoided,
            recoveries=connection.reopened + readings.recoveries,
            failed_checks=self._self_check.failures,
        )

    # Commands; called by the thread only.

    def open(self) -> None:
        """Open the device again and attach the models."""
        self._duty = Duty.SERVE
        if self.is_to_close:
            return
        if self.connection.is_open:
            self._give_up(State.RECOVERING, "opened again", UnavailableError("the device is reopened"))
        self.connection.open()
        if self.connection.is_open:
            self._join()

    def ensure_open(self) -> None:
        """Open the device unless it is open."""
        if not self.connection.is_open:
            self.open()

    def reset(self) -> None:
        """Close the device, so that it is brought up from scratch; if it is kept open, see ResetPace."""
        if not self._times.begin_reset(time.monotonic()):
            return
        message = "reset on request"
        self._duty = self._duty.without(Duty.STAY_CLOSED)
        self._give_up(State.RECOVERING, message, UnavailableError(f"no device: {message}"))
        self._times.hurry()

    def refresh(self) -> None:
        """Read state and counters; this also notices a lost device."""
        if not self.connection.is_open:
            return
        try:
            self.connection.read()
            self._throttle_if_hot()
        except DeviceError as error:
            self._lose(error)

    def _throttle_if_hot(self) -> None:
        """Slow down a hot stick, so that cooler ones take over its work. Raises DeviceError."""
        throttle, before = self._throttle, self._throttle.preset
        throttle.update(self.connection.readings, time.monotonic())
        if throttle.preset == before:
            return
        self.backend.set_clock(throttle.preset)
        with self._scheduler.lock:
            self.slot.throttled = throttle.throttled
        celsius = self.connection.readings.temperature
        _log.warning(
            "stick %d, at %.0f degrees, now runs at '%s'", self.slot.number, celsius, throttle.preset
        )
        self.connection.set_message(throttle.note)

    def check(self) -> None:
        """Repeat an inference whose result is known; a wrong result takes the stick out of service."""
        replicas = self._replicas().values()
        replica = self._self_check.choose([each for each in replicas if not each.writing])
        if replica is None or not self.connection.is_open:
            return
        try:
            self._self_check.check(replica)
        except SelfCheckError as error:
            self._duty = Duty.STAY_CLOSED
            _log.error("stick %d is out of service: %s", self.slot.number, error)
            self._give_up(State.FAILED, str(error), UnavailableError(f"no device: {error}"))
        except DeviceError as error:
            self._lose(error)

    def registers(self) -> tuple[RegisterValue, ...]:
        """Read the device's error and status registers; empty without a device."""
        try:
            registers = self.connection.registers()
        except DeviceError as error:
            self._lose(error)
            return ()
        path = self.connection.readings.bus_path
        return tuple(replace(register, bus_path=path) for register in registers)

    def attach(self, model: HostedModel) -> None:
        """Attach a model that this stick is to run, if its device is open."""
        replica = None if self.is_to_close else self._replicas().get(model)
        if self.connection.is_open and replica is not None and replica.engine is None:
            try:
                replica.attach(self.connection.readings.bus_path)
            except DeviceError as error:
                return self._lose(error)
            self._scheduler.attached(self.slot, model)
            self._pending.plan()
        return None

    def _attach_again(self) -> None:
        """Attach the models again whose graphs have ended their processes, if that is due."""
        self._scheduler.set_busy(self.slot)
        for model, replica in self._replicas().items():
            if replica.attempts.due <= time.monotonic():
                self.attach(model)
        self._pending.plan()

    def _join(self) -> None:
        attached = self._replicas()
        try:
            for replica in attached.values():
                if self.is_to_close:
                    return
                replica.attach(self.connection.readings.bus_path)
        except DeviceError as error:
            self._lose(error)
            return
        self._throttle.opened(self.connection.readings)
        self.slot.throttled = False
        self._scheduler.join(self.slot, self.backend.simulated_time)
        # Models may have been loaded and unloaded meanwhile; from here on the stick is notified of them.
        present = self._replicas()
        for model in present:
            if model not in attached:
                self.attach(model)
        for model, replica in attached.items():
            if present.get(model) is not replica:
                replica.close()
        self._pending.plan()
        if self.connection.is_open:
            self.connection.confirm()

    def _replicas(self) -> dict[HostedModel, ModelReplica]:
        with self._scheduler.lock:
            models = self._scheduler.models_on(self.slot)
            return {model: model.replicas[self.slot.number] for model in models}

    def _lose(self, error: EdgeTpuError) -> None:
        """Handle the loss of the device: pass its work to others, and reopen it at once."""
        self.connection.lose(error)
        self._scheduler.leave(self.slot, error)
        self._times.hurry()

    def _give_up(self, state: State, message: str, error: EdgeTpuError) -> None:
        self.connection.give_up(state, message)
        self._scheduler.leave(self.slot, error)

    def _close(self) -> None:
        self._duty, self.is_to_close = Duty.END, False
        self._times.end()
        self._scheduler.leave(self.slot, UnavailableError("no device: the driver is being shut down"))
        self.connection.close()

    # The thread.

    def _step(self) -> bool:
        """Process one request, command or reading; return whether the thread is to end.

        If both wait, commands and pieces of requests alternate.
        """
        if self._duty is Duty.END and self._end():
            return True
        item: Request | Command | None = None
        if upkeep := self._times.due(time.monotonic()):
            self._scheduler.set_busy(self.slot)
            self._keep(upkeep)
        if self._pending.is_due(time.monotonic()):
            self._attach_again()
        if not self._thread.has_mail or self._commanded:
            item = self._scheduler.next(self.slot) or self._wait()
        else:
            item = self._thread.take(None)
        self._commanded = False
        if isinstance(item, Request):
            self._serve(item)
        elif item is not None:
            self._scheduler.set_busy(self.slot)
            self._commanded = not self.is_to_close
            item()
        return False

    def _wait(self) -> Request | Command | None:
        now = time.monotonic()
        timeouts = [self._times.seconds_left(now), self._pending.seconds_left(now)]
        if self.slot.looks_again:  # as it may have left work to another stick
            timeouts.append(STUCK_SECONDS)
        return self._thread.take(min((each for each in timeouts if each is not None), default=None))

    def _end(self) -> bool:
        self._duty = Duty.SERVE  # before a command may start the thread again
        if not self._thread.end():
            self._duty = Duty.END
        return self._duty is Duty.SERVE

    def _keep(self, upkeep: Upkeep) -> None:
        """Read the device, or open it; called when one of these is due."""
        if self.connection.is_open:
            self.refresh()
            if self._times.begin_check(upkeep, time.monotonic()):
                self.check()
        if self._times.reset_waits:
            self.reset()
        if not self.connection.is_open and self._duty is Duty.SERVE:
            self.open()
            upkeep.on_attempt(self.connection.is_open)
            self._times.opened(time.monotonic())
        self._times.plan(upkeep, time.monotonic(), is_open=self.connection.is_open)

    def _serve(self, request: Request) -> None:
        """Run a request until it ends, needs a calculation, or has to let another one go first."""
        slot, scheduler = self.slot, self._scheduler
        work = request.work
        if slot.running is not request or work is None:
            return None  # the stick was lost after the request had been handed over
        if work.replica.engine is None or request.deadline < time.monotonic():
            return scheduler.hand_on(slot, request)
        resident, start = False, time.perf_counter()
        try:
            resident, pieces = work.replica.resident, work.pieces
            while True:
                value, work.value = work.value, None
                calculation = pieces.throw(value) if isinstance(value, Exception) else pieces.send(value)
                elapsed = time.perf_counter() - start
                if calculation is not None:
                    return scheduler.calculate(slot, request, calculation, elapsed)
                if self._thread.has_mail or scheduler.must_suspend(slot, request, elapsed):
                    return scheduler.suspend(slot, request, elapsed)
        except StopIteration as finished:
            answer = finished.value
        except DeviceError as error:
            return self._lose(error)
        except EdgeTpuError as error:
            answer = error.with_traceback(None)  # its frames refer to the answer, which would stay in memory
        except Exception as error:
            _log.exception("unexpected error in a request for model '%s'", request.model.name)
            answer = unexpected(error)
        self.connection.confirm()
        scheduler.finish(slot, request, time.perf_counter() - start, answer, resident)
        if request.kind is Kind.UPDATE:
            self._pending.plan()
        return None


def _ignore(_value: object) -> None:
    """Do nothing."""
