"""Gives waiting requests to sticks that become free; `stick_choice` decides which stick takes which."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from functools import partial
from itertools import count
from math import inf, nan
from typing import Any, cast

from edgetpu_driver.engines.divisible_work import Calculation, outcome_of
from edgetpu_driver.errors import DeviceError, DeviceLostError, EdgeTpuError
from edgetpu_driver.host.background_thread import BackgroundThread
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.requests import weight_access
from edgetpu_driver.host.requests.admission import Admission
from edgetpu_driver.host.requests.answers import Answers, answer_all
from edgetpu_driver.host.requests.request import Kind, Lane, Request, Work
from edgetpu_driver.host.requests.request_deadlines import expiry
from edgetpu_driver.host.requests.request_queue import Staying
from edgetpu_driver.host.requests.request_terms import Priority
from edgetpu_driver.host.requests.waiting_requests import WaitingRequests
from edgetpu_driver.host.sticks.stick_choice import Queued, best_of, may_take
from edgetpu_driver.host.sticks.stick_eligibility import can_run, is_pointless, refusal
from edgetpu_driver.host.sticks.stick_slot import StickSlot

QUANTUM = 0.02
"""Engine time, s, after which long work lets other requests run that are due: less than the 33 ms between two
images of a usual camera."""
HANDED_ON = 1
"""How often a request is run again after it made a stick fail, other than by being unplugged."""


class Scheduler:
    """Requests that wait and the sticks that run them. All methods may be called from any thread.

    A request goes to an idle stick at once; otherwise it waits in the queue, from which the workers of the
    sticks take the next one they can run. Weights of a model change on one stick first; the others follow,
    and do not run the model in between.
    """

    def __init__(self, admission: Admission, unavailable_reason: Callable[[], str]) -> None:
        self.lock = threading.Lock()
        """Guards all state of models, replicas and slots; never held while anything waits."""
        self.slots: list[StickSlot] = []
        self.models: list[HostedModel] = []
        """The models that have requests or may get some."""
        self.rebalance: Callable[[], None] = _ignore
        """Called with the lock held when a stick joins or leaves: assigns models to sticks."""
        self.peers: tuple[Scheduler, ...] = ()
        """Other schedulers of the host; their requests count for the limits as well."""
        self.expired = 0
        """Number of requests whose deadline passed before work on them began."""
        self.dropped = 0
        """Number of requests for a loaded model that ended without a result."""
        self.watch: Callable[[], None] = _ignore
        """Called when a request that had begun waits again, perhaps until its deadline."""
        self._unavailable_reason = unavailable_reason
        self._queue = WaitingRequests(admission)
        self._sequence = count()
        self._arithmetic = BackgroundThread("edgetpu arithmetic")

    # Arriving requests.

    def submit(self, request: Request) -> None:
        """Queue or start a request. Raises what can be refused at once."""
        model = request.model
        with self.lock:
            # An unloaded model still runs what was submitted before; it is released afterwards.
            error = model.gone() if model.unloaded else self.refusal_of(model)
            if error is not None:
                self.dropped += 1
                raise error
            slot = self._idle_slot(request)
            if slot is None and not request.follows:
                sticks = sum(slot.serving for slot in self.slots)
                self._queue.admit(request.client, sticks, [each._queue for each in self.peers])
            request.sequence = request.first_sequence = next(self._sequence)
            model.requests.unanswered += 1
            if slot is None:
                self._push(request)
                return
            request.cost = 0.0  # nothing was charged
            self._take(slot, request)
        slot.wake(request)

    def _idle_slot(self, request: Request) -> StickSlot | None:
        lane = request.lane
        idle = [slot for slot in self.slots if slot.idle and can_run(slot, lane)]
        if len(self.slots) == 1 or not idle:
            return idle[0] if idle else None
        candidates, queued = self._candidates(lane), Queued(len(self._queue) + 1, time.monotonic())
        idle = [slot for slot in idle if may_take(slot, lane.model, candidates, queued)]
        return best_of(idle, lane.model) if idle else None

    # Requests for workers.

    def next(self, slot: StickSlot) -> Request | None:
        """The request that a worker is to run now; None if there is none, and the worker is idle."""
        now = time.monotonic()
        answers: Answers = []
        with self.lock:
            if slot.running is not None:
                return None  # a request has just been handed over
            request = None
            if len(self._queue):
                answers = self._expire(now)
                staying = Staying(slot.has_parameters_of, now)
                request = self._queue.pop(partial(self._may_run, slot, now), staying, slot.number)
            if request is None:
                slot.idle, slot.looks_again = True, len(self._queue) > 0
                if len(self._queue) and len(self.slots) > 1:
                    self._wake_idle()  # a stick that left work to this one may now be the first to finish it
            else:
                self._take(slot, request)
        answer_all(answers)
        return request

    def set_busy(self, slot: StickSlot) -> None:
        """Give no request to a worker that is busy with a command."""
        with self.lock:
            if slot.running is None:
                slot.began = time.monotonic()
            slot.idle = False

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return len(self._queue)

    def waiting_for(self, slot: StickSlot) -> int:
        """Number of waiting requests that a stick may run."""
        with self.lock:
            return sum(slot.number in request.model.replicas for request in self._queue)

    def expire(self) -> None:
        """Answer the requests whose deadline has passed, and those that have waited for `max_wait`."""
        with self.lock:
            answers = self._expire(time.monotonic())
        answer_all(answers)

    def _expire(self, now: float) -> Answers:
        expired = self._queue.expire(now)
        self.expired += len(expired)
        overdue = self._queue.overdue(now, sum(slot.serving for slot in self.slots))
        answers = [*((request, expiry(request)) for request in expired), *overdue]
        for request, _ in answers:
            self._settle(request)
        return answers

    def _take(self, slot: StickSlot, request: Request) -> None:
        model = request.model
        slot.idle = False
        slot.running, slot.began = request, time.monotonic()
        if slot.simulated_time is not None:
            slot.expected = slot.simulated_time() + model.expected.device
        if request.work is None:
            request.stick = slot.number
            weight_access.begin(request, model.replicas[slot.number])

    def _may_run(self, slot: StickSlot, now: float, lane: Hashable) -> bool:
        lane = cast(Lane, lane)
        if not can_run(slot, lane):
            return False
        if len(self.slots) == 1 or lane.stick is not None:
            return True
        return may_take(slot, lane.model, self._candidates(lane), Queued(len(self._queue), now))

    def _candidates(self, lane: Lane) -> list[StickSlot]:
        return [slot for slot in self.slots if can_run(slot, lane)]

    def _wake_idle(self) -> None:
        """Have idle workers look for work; those that find none stay idle."""
        now = time.monotonic()
        for slot in self.slots:
            if slot.idle and self._queue.most_urgent(partial(self._may_run, slot, now)) is not None:
                slot.look_for_work()

    def _push(self, request: Request) -> None:
        """Queue a request; idle workers that leave it to a busy stick check later whether that is stuck."""
        self._queue.push(request)
        for slot in self.slots:
            if slot.idle and not slot.looks_again and can_run(slot, request.lane):
                slot.look_for_work()

    # Work in progress.

    def must_suspend(self, slot: StickSlot, request: Request, elapsed: float) -> bool:
        """Whether work that has run for `elapsed` seconds is to let another request go first."""
        if not len(self._queue):
            return False
        with self.lock:
            urgent = self._queue.most_urgent(partial(self._may_run, slot, time.monotonic()))
        return urgent is not None and (urgent < request.priority or elapsed > QUANTUM)

    def suspend(self, slot: StickSlot, request: Request, elapsed: float) -> None:
        """Put work that has begun back into the queue."""
        with self.lock:
            self._account(slot, request, elapsed)
            self._queue.push(request)
            self._wake_idle()

    def hand_on(self, slot: StickSlot, request: Request) -> None:
        """Queue a request again whose model was moved, or whose deadline passed, before it began here."""
        with self.lock:
            slot.running, slot.began = None, inf
            weight_access.end(request)
            request.restart()
            self._push(request)
            answers = self._refuse()
            self._wake_idle()
        answer_all(answers)

    def calculate(self, slot: StickSlot, request: Request, calculation: Calculation, elapsed: float) -> None:
        """Start a calculation that a request needs before it can continue."""
        with self.lock:
            self._account(slot, request, elapsed)
            slot.parked.add(request)
            work = request.work
        assert work is not None
        self._arithmetic.submit_or_do(lambda: self._resume(slot, request, work, outcome_of(calculation)))

    def _resume(self, slot: StickSlot, request: Request, work: Work, value: Any) -> None:
        with self.lock:
            if request.work is not work or request not in slot.parked:
                return  # the stick was lost meanwhile
            slot.parked.discard(request)
            work.value = value
            self._queue.push(request)
            self._wake_idle()

    def _account(self, slot: StickSlot, request: Request, elapsed: float) -> None:
        """Charge engine time to the client whose request has stopped running."""
        slot.running, slot.began = None, inf
        slot.statistics.add_busy(elapsed)
        self._queue.charge(request.client, request.priority, elapsed - request.cost)
        request.served += elapsed
        request.turn += elapsed
        request.cost, request.deadline, request.due = 0.0, inf, inf  # it has begun in time
        if request.turn > QUANTUM:  # the other requests of its client are next
            request.turn, request.sequence = 0.0, next(self._sequence)

    # Ending requests.

    def finish(self, slot: StickSlot, request: Request, elapsed: float, answer: Any, resident: bool) -> None:
        """Answer a request that has been run. resident: whether its parameters were in memory before."""
        model = request.model
        with self.lock:
            self._account(slot, request, elapsed)
            weight_access.end(request)
            succeeded = not isinstance(answer, EdgeTpuError)
            if succeeded and request.kind is Kind.SWAP:
                assert request.work is not None
                answer = weight_access.record(model, request.work.replica, *answer)
                for other in self.slots:
                    self.update(other, model)
            elif succeeded and request.kind is not Kind.UPDATE:
                latency = None if request.of_whole else time.monotonic() - request.arrived
                slot.statistics.add(latency, resident)
                device = getattr(answer, "device_duration", nan)
                model.expected.learn(request.served / request.inferences, device)
            self._settle(request)
            answers = self._refuse() if request.kind is Kind.UPDATE else []
            if len(self._queue):
                self._wake_idle()
        request.answer(answer)
        answer_all(answers)

    def update(self, slot: StickSlot, model: HostedModel) -> None:
        """Have a stick set the weights in effect if it has others. Must be called with the lock held."""
        replica = model.replicas.get(slot.number)
        if replica is None or replica.engine is None or replica.version == model.weights_version:
            return
        if model not in self.models:
            return  # it was released while the stick attached it
        updates = (each for each in self._queue if each.kind is Kind.UPDATE)
        if any((each.model, each.stick) == (model, slot.number) for each in updates):
            return
        request = Request(
            model, Kind.UPDATE, lambda held: held.updating(), _ignore, "", int(Priority.REAL_TIME), 0.0
        )
        request.stick, request.sequence = slot.number, next(self._sequence)
        model.requests.unanswered += 1
        self._queue.push(request)

    def _settle(self, request: Request) -> None:
        """Note that a request is answered; an unloaded model is released with its last request."""
        model = request.model
        model.requests.unanswered -= 1
        if model.unloaded and not model.requests.unanswered:
            self._release_model(model)

    def _release_model(self, model: HostedModel) -> None:
        if model not in self.models:
            return  # it was not loaded yet, or could not be
        self.models.remove(model)
        for number, replica in model.replicas.items():
            if self.slots[number].serving:
                self.slots[number].post(replica.close)

    def unload(self, model: HostedModel) -> None:
        """Take no more requests for a model. Must be called with the lock held."""
        model.unloaded = True
        if not model.requests.unanswered:
            self._release_model(model)

    def withdraw(self, model: HostedModel) -> list[Request]:
        """Take out the requests for a model; the caller answers them. Must be called with the lock held."""
        requests = self._queue.remove(lambda each: each.model is model)
        model.requests.unanswered -= len(requests)
        return requests

    # Joining and leaving sticks.

    def join(self, slot: StickSlot, simulated_time: Callable[[], float] | None) -> None:
        """Note that a stick is ready, with the models that it is to run attached."""
        with self.lock:
            slot.serving, slot.simulated_time = True, simulated_time
            slot.start_clock(self.slots)
            self.rebalance()
            for model in self.models_on(slot):
                self.update(slot, model)
            answers = self._refuse()
            self._wake_idle()
        answer_all(answers)

    def attached(self, slot: StickSlot, model: HostedModel) -> None:
        """Note that a stick holds one more model, which may be unable to run there."""
        with self.lock:
            self.update(slot, model)
            answers = self._refuse()
            self._wake_idle()
        answer_all(answers)

    def models_on(self, slot: StickSlot) -> list[HostedModel]:
        """The models that a stick is to run. Must be called with the lock held."""
        return [model for model in self.models if slot.number in model.replicas]

    def leave(self, slot: StickSlot, error: EdgeTpuError) -> None:
        """Note that a stick is gone; hand its requests to others, or answer them.

        error: the answer to the request that is running there, if no other stick can run it.
        """
        with self.lock:
            slot.serving = False
            held = [model.replicas[slot.number] for model in self.models_on(slot)]
            self.rebalance()
            running, slot.running = slot.running, None
            begun = [*slot.parked, *self._queue.remove(lambda each: each.stick == slot.number)]
            slot.parked.clear()
            if running is not None:
                begun.append(running)
                failed = isinstance(error, DeviceError) and not isinstance(error, DeviceLostError)
                running.failures += failed and running.has_run  # otherwise a command failed before it ran
            answers: Answers = []
            for request in sorted(begun, key=lambda each: each.sequence):
                weight_access.end(request)
                request.restart()
                gone = self.refusal_of(request.model)
                if request.kind is Kind.UPDATE:
                    self._settle(request)
                elif gone is None and request.failures <= HANDED_ON:
                    self._push(request)
                else:
                    answers.append((request, error if request is running else gone or error))
                    self._settle(request)
            for replica in held:
                replica.detach()
            self.dropped += len(answers)
            answers += self._refuse()
            self._wake_idle()
        answer_all(answers)
        self.watch()

    def refuse(self) -> None:
        """Answer the requests that can no longer run on any stick."""
        with self.lock:
            answers = self._refuse()
        answer_all(answers)

    def _refuse(self) -> Answers:
        models = {request.model for request in self._queue}
        errors = {model: error for model in models if (error := self.refusal_of(model)) is not None}
        refused = self._queue.remove(lambda each: not each.lane.begun and each.model in errors)
        for request in [*refused, *self._queue.remove(is_pointless)]:
            self._settle(request)
        self.dropped += len(refused)
        return [(request, errors[request.model]) for request in refused]

    def refusal_of(self, model: HostedModel) -> EdgeTpuError | None:
        """Why requests for a model cannot be run; see `refusal`. Must be called with the lock held."""
        return refusal(model, self.slots, self._unavailable_reason)


def _ignore(*_arguments: object) -> None:
    """Do nothing."""
