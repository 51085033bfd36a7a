"""Whole models of a host: their parts on the sticks and on the CPU, and the requests for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.engines.divisible_work import Pieces
from edgetpu_driver.errors import (
    BusyError,
    EdgeTpuError,
    InputError,
    ModelUnsupportedError,
    UnavailableError,
)
from edgetpu_driver.host.host_status import HostStatus
from edgetpu_driver.host.inference_statistics import InferenceStatistics
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.models.model_parts import ReadModel
from edgetpu_driver.host.models.model_replica import ModelReplica
from edgetpu_driver.host.requests.admission import Admission
from edgetpu_driver.host.requests.answers import answered
from edgetpu_driver.host.requests.request import Kind, Request
from edgetpu_driver.host.sticks.deadline_watch import DeadlineWatch
from edgetpu_driver.host.sticks.scheduler import Scheduler
from edgetpu_driver.host.sticks.stick_eligibility import unsupported
from edgetpu_driver.host.sticks.stick_pool import StickPool
from edgetpu_driver.host.whole_models.cpu_worker import CpuWorker
from edgetpu_driver.host.whole_models.whole_run import WholeRun
from edgetpu_driver.tflite.tensor import checked_inputs
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult


class WholeModels:
    """Models whose plan has several steps. All methods may be called from any thread."""

    def __init__(self, scheduler: Scheduler, pool: StickPool, admission: Admission) -> None:
        """scheduler: that of the sticks."""
        self._sticks = scheduler
        self._pool = pool
        self.cpu = CpuWorker(admission)
        self.cpu.scheduler.peers, scheduler.peers = (scheduler,), (self.cpu.scheduler,)
        self._cpu_watch = DeadlineWatch(self.cpu.scheduler)
        self._statistics = InferenceStatistics()

    def add(self, model: HostedModel, read: ReadModel) -> None:
        """Start running the parts of a loaded model. Must be called with the scheduler's lock held."""
        self._pool.add_parts(model.device_parts)
        off_device = [part for part in model.parts if not part.on_device]
        if read.cpu is not None:
            self.cpu.add(off_device, read.cpu)

    def unload(self, model: HostedModel) -> None:
        """Take no more requests for a model. Must be called with the scheduler's lock held."""
        model.unloaded = True
        if not model.requests.unanswered:
            self._release(model)

    def _release(self, model: HostedModel) -> None:
        for part in model.device_parts:
            self._sticks.unload(part)
        self.cpu.unload(part for part in model.parts if not part.on_device)

    def submit(self, request: Request) -> None:
        """Run a whole model, or a request for its part for the Edge TPU.

        Raises InputError and what can be refused at once; see ModelHost.
        """
        if request.inputs is None or request.part:
            part = target_part(request.model, request.kind, request.part)
            self._sticks.submit(replace(request, model=part, part=0))
        else:
            self._run(request, request.inputs)

    def _run(self, request: Request, inputs: Mapping[str, NDArray[Any]]) -> None:
        model = request.model
        if model.unsupported_reason:
            raise unsupported(model)
        inputs = checked_inputs(model.inputs, inputs)
        run = WholeRun(
            model, inputs, request, self._submit_step, lambda answer: self._finish(run, request, answer)
        )
        with self._sticks.lock:
            if model.unloaded:
                raise model.gone()
            errors = (self._sticks.refusal_of(part) for part in model.device_parts)
            error = next((each for each in errors if each is not None), None)
            if error is not None:
                self._sticks.dropped += 1
                raise error
            model.requests.unanswered += 1
        try:
            run.start()
        except BaseException:
            self._settle(model)
            raise
        if request.deadline < inf and not model.parts[0].on_device:
            self._cpu_watch.arm()

    def take_over(self, request: Request) -> None:
        """Run a request that has waited for a model of several steps to be loaded."""
        answered(lambda _: self.submit(request), request.answer)
        self._sticks.watch()  # for its deadline: the watch ends when nothing waits

    def status(self, status: HostStatus) -> HostStatus:
        """The status of the sticks, including the requests in progress on the CPU."""
        cpu, period = self.cpu.scheduler, status.period
        latencies = (*period.latencies, *self._statistics.period.latencies)
        return replace(
            status,
            period=replace(period, latencies=latencies),
            dropped=status.dropped + cpu.dropped,
            waiting=status.waiting + cpu.waiting,
            expired=status.expired + cpu.expired,
        )

    def end_period(self) -> None:
        """End the period over which latencies are measured."""
        self._statistics.end_period()

    def _submit_step(self, request: Request) -> None:
        """Submit the request for a step to the sticks or to the CPU."""
        scheduler = self._sticks if request.model.on_device else self.cpu.scheduler
        scheduler.submit(request)

    def _finish(self, run: WholeRun, request: Request, answer: InferenceResult | EdgeTpuError) -> None:
        if not isinstance(answer, EdgeTpuError):
            with self._sticks.lock:
                self._statistics.add(run.age, False)
        self._settle(request.model)
        request.answer(answer)

    def _settle(self, model: HostedModel) -> None:
        with self._sticks.lock:
            model.requests.unanswered -= 1
            if model.unloaded and not model.requests.unanswered:
                self._release(model)


def only_device_part(model: HostedModel) -> HostedModel:
    """The model, or its only part for the Edge TPU, whose weights can be replaced.

    Raises ModelUnsupportedError if it has several, or none.
    """
    parts = model.device_parts
    if not parts:
        raise ModelUnsupportedError(
            f"expected a model with a part for the Edge TPU; all of '{model.name}' runs on the CPU here"
        )
    if len(parts) > 1:
        raise ModelUnsupportedError(
            f"expected a model with one part for the Edge TPU, or the part whose weights to set; "
            f"'{model.name}' has {len(parts)}: name the tensor, or say which part"
        )
    return parts[0]


def device_part(model: HostedModel, number: int) -> HostedModel:
    """The part of that number, from 1, that sticks run. Raises InputError."""
    parts = model.device_parts
    if not 1 <= number <= len(parts):
        raise InputError(
            f"expected part 1 to {len(parts)} of '{model.name}', or 0 for the whole model; got {number}"
        )
    return parts[number - 1]


def target_part(model: HostedModel, kind: Kind, number: int) -> HostedModel:
    """The part to which a request for weights goes. Raises InputError, ModelUnsupportedError.

    To set weights without a number, the first of several parts; `setting` then finds the right one.
    """
    if number:
        return device_part(model, number)
    several = len(model.device_parts) > 1
    return model.device_parts[0] if several and kind is Kind.SWAP else only_device_part(model)


class TensorInPartError(ModelUnsupportedError):
    """The weight tensor is in another part than the requested one."""

    def __init__(self, part: int) -> None:
        """part: its number, from 1."""
        super().__init__(f"part {part} has the weight tensor")
        self.part = part


def part_with_tensor(model: HostedModel, tensor: str) -> int:
    """The number, from 1, of the only part for the Edge TPU with a weight tensor of that name.

    Raises InputError, with the reason of each part, if none or several have it; UnavailableError if a part
    that no stick holds at present may have it.
    """
    found, reasons = [], []
    kind: type[EdgeTpuError] = InputError
    for number, part in enumerate(model.device_parts, start=1):
        engines = [replica.engine for replica in tuple(part.replicas.values())]
        engine = next((each for each in engines if each is not None), None)
        if engine is None:
            kind = kind if part.unsupported_reason else UnavailableError
            reason = part.unsupported_reason or "no stick holds it at present"
            reasons.append(f"part {number}: {reason}")
            continue
        try:
            engine.weight_tensor(tensor)
            found.append(number)
        except BusyError:
            raise
        except EdgeTpuError as error:
            reasons.append(f"part {number}: {error}")
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"expected a weight tensor of one part of '{model.name}'; '{tensor}' is in parts "
            f"{', '.join(map(str, found))}: say which part"
        )
    raise kind(
        f"expected a weight tensor of one part of '{model.name}'; '{tensor}' is in none: {'; '.join(reasons)}"
    )


def invoking(
    model: HostedModel, inputs: Mapping[str, NDArray[Any]], part: int = 0, reset: bool = False
) -> Callable[[ModelReplica], Pieces[InferenceResult]]:
    """A function that starts an inference of a model that one engine runs, or of one of its parts."""

    def begin(replica: ModelReplica) -> Pieces[InferenceResult]:
        if part:
            device_part(model, part)  # raises InputError; the model may have been loaded meanwhile
        result = yield from replica.invoking(inputs, reset)
        return replace(result, part=part) if part else result

    return begin


def setting(
    model: HostedModel, request: WeightRequest, part: int = 0
) -> Callable[[ModelReplica], Pieces[tuple[WeightRequest, WeightResult]]]:
    """A function that replaces weights of a model that one engine runs, or of its only part.

    Without `part`, in a model with several parts, it raises TensorInPartError if another part than that of
    the replica has the tensor.
    """

    def begin(replica: ModelReplica) -> Pieces[tuple[WeightRequest, WeightResult]]:
        if part:
            device_part(model, part)
        elif len(model.device_parts) > 1:
            if not request.tensor:
                only_device_part(model)  # which tells what is missing
            number = yield partial(part_with_tensor, model, request.tensor)
            if replica not in model.device_parts[number - 1].replicas.values():
                raise TensorInPartError(number)
        return (yield from replica.setting(request))

    return begin
