"""One inference for the requests of several clients on an image: shared results, and joint graphs."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, TypeAlias

from numpy.typing import NDArray

from edgetpu_driver.errors import (
    BusyError,
    DeviceError,
    EdgeTpuError,
    ExpiredError,
    ModelUnsupportedError,
    UnavailableError,
)
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.request_deadlines import expired_after
from edgetpu_driver.host.requests.request_terms import RequestTerms
from edgetpu_driver.host.shared_inference.image_groups import ImageGroup, ImageGroups, ImageInUse
from edgetpu_driver.host.shared_inference.joint_model import JointModel
from edgetpu_driver.toolchain.graph_family import joint_name
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
"""Seconds after which weights that a device could not take are sent again. Uncritical."""

MOST_JOINT = 16
"""Groups that may have a joint graph; the models of further ones are run one by one. Chosen above the number
of cameras of a robot, but limited: clients can use any number of names in their requests."""

_MOST_LOGGED = 256
"""Joint graphs to remember because the reason against them has been logged. Chosen far above MOST_JOINT, but
limited: clients can name any number of models in their requests."""

Inputs: TypeAlias = Mapping[str, NDArray[Any]]
Done: TypeAlias = Callable[["InferenceResult | EdgeTpuError"], None]
Invoke: TypeAlias = Callable[[HostedModel, Inputs, Done, RequestTerms], None]
"""Runs a model without waiting; raises what can be refused at once."""
Swap: TypeAlias = Callable[
    [HostedModel, WeightRequest, Callable[["WeightResult | EdgeTpuError"], None]], None
]
"""Replaces weights of a model without waiting; raises what can be refused at once."""
Load: TypeAlias = Callable[[str, Callable[["HostedModel | EdgeTpuError"], None]], None]
"""Loads the joint graph of a name, without waiting."""


@dataclass(eq=False)
class _Waiting:
    """A request for one model."""

    model: HostedModel
    version: int
    """Version of the model's weights when the request was made."""
    inputs: Inputs
    done: Done
    terms: RequestTerms
    deadline: float
    """Steady time by which the inference must begin, s; infinite without a deadline."""


@dataclass(eq=False)
class _Run:
    """An inference on an image, of one model or of a joint model."""

    model: HostedModel
    joint: JointModel | None
    priority: int
    deadline: float
    """Steady time by which it begins or fails, s."""
    versions: dict[HostedModel, int]
    """The models whose results it gives, each with the version of its weights when it was begun."""
    result: InferenceResult | None = None
    waiting: list[_Waiting] = field(default_factory=list)

    def serves(self, waiting: _Waiting) -> bool:
        """Whether its result is valid for a request: right model, weights in effect, not too late."""
        if self.versions.get(waiting.model) != waiting.model.weights_version:
            return False
        in_time = self.priority <= waiting.terms.priority and self.deadline <= waiting.deadline
        return in_time or self.result is not None

    def result_of(self, model: HostedModel, result: InferenceResult) -> InferenceResult | None:
        """The result of a model; None if the version of its weights is unknown."""
        return result if self.joint is None else self.joint.result_of(model, result)


class SharedInference:
    """Answers requests of several clients for the same image by one inference.

    Requests for the same model and the same image share one result. Models of the suite's catalogue that are
    run on the same images become heads of a joint graph, which is run instead of them. It is rebuilt when
    these models change. Until it is ready, and while a head lacks weights that were set, the models run on
    their own; so they do if the joint graph would displace others that were compiled together with them. The
    results are the same numbers. All methods may be called from any thread.
    """

    def __init__(
        self,
        invoke: Invoke,
        swap: Swap,
        load: Load,
        unload: Callable[[HostedModel], None],
        models: Callable[[], Sequence[HostedModel]],
        report: Callable[[str], None] = _log.info,
    ) -> None:
        """Prepare for a host.

        load, unload: of joint graphs, by name. models: returns the loaded models except joint graphs. report:
        gets a line when a joint graph is used or cannot be used.
        """
        self._invoke, self._swap, self._load, self._unload = invoke, swap, load, unload
        self._models = models
        self._report = report
        self.expired = self.refused = 0
        """Requests answered EXPIRED and BUSY while they waited for the inference of another request."""
        self._lock = threading.Lock()
        """Never held while requests are answered."""
        self._groups = ImageGroups(self._changed)
        self._wanted: dict[ImageGroup, tuple[HostedModel, ...]] = {}
        """The heads that each group's joint graph is to have."""
        self._logged: deque[str] = deque(maxlen=_MOST_LOGGED)
        self._next_try: dict[JointModel, float] = {}

    @staticmethod
    def can_share(model: HostedModel, terms: RequestTerms) -> bool:
        """Whether inferences of a model can be shared; anonymous clients cannot be distinguished."""
        return bool(model.head_name and terms.client)

    def ask(self, model: HostedModel, inputs: Inputs, done: Done, terms: RequestTerms) -> None:
        """Answer a request, whose inputs were checked, by an inference on the same image or a new one.

        Raises what `invoke` raises; see ModelHost.submit_invoke.
        """
        data = inputs[model.inputs[0].name].tobytes()
        deadline = time.monotonic() + terms.deadline if terms.deadline > 0 else inf
        waiting = _Waiting(model, model.weights_version, inputs, done, terms, deadline)
        with self._lock:
            asker, image = self._groups.ask(terms.client, model, data)
            run = next((each for each in image.runs if each.serves(waiting)), None)
            if run is not None and run.result is None:
                run.waiting.append(waiting)
                return
            if run is None:
                begun = self._begin(asker.group.joint, waiting, image)
        if run is None:
            self._start(begun, image, waiting)
        else:
            self._answer(run, waiting, run.result)

    def weights_changed(self, model: HostedModel) -> None:
        """Note that weights of a model were set, so that the joint graphs with it get them."""
        if not model.head_name:
            return
        with self._lock:
            for group in self._groups.groups:
                if group.joint is not None and model in group.joint.heads:
                    self._send_weights(group.joint, model)

    # Inferences.

    def _begin(self, joint: JointModel | None, waiting: _Waiting, image: ImageInUse) -> _Run:
        """A new inference on an image, of the joint graph if that can run now."""
        model, terms = waiting.model, (int(waiting.terms.priority), waiting.deadline)
        if joint is not None and (reason := joint.reason_against(self._models())):
            self._report_once(joint.heads, ModelUnsupportedError(reason))
            joint = None
        if joint is not None and model in joint.heads and not joint.can_run(model):
            self._send_weights(joint, model)
            joint = None
        if joint is None or model not in joint.heads:
            run = _Run(model, None, *terms, {model: waiting.version})
        else:
            versions = {head: head.weights_version for head in joint.heads if joint.can_run(head)}
            run = _Run(joint.model, joint, *terms, versions)
        run.waiting.append(waiting)
        image.runs.append(run)
        return run

    def _start(self, run: _Run, image: ImageInUse, first: _Waiting) -> None:
        try:
            self._invoke(run.model, first.inputs, partial(self._finish, run, image), first.terms)
        except Exception as error:
            for waiting in self._fail(run, image):
                if waiting is not first:
                    self._run_alone(waiting)
            if run.joint is None or not isinstance(error, EdgeTpuError):
                raise
            self._invoke(first.model, first.inputs, first.done, first.terms)

    def _finish(self, run: _Run, image: ImageInUse, answer: InferenceResult | EdgeTpuError) -> None:
        if isinstance(answer, EdgeTpuError):
            first, *others = self._fail(run, image)
            if isinstance(answer, BusyError):  # all of them have waited for too long
                self.refused += len(others)
                for waiting in (first, *others):
                    _hand_over(waiting, answer)
                return
            if run.joint is None or isinstance(answer, (DeviceError, ExpiredError, UnavailableError)):
                _hand_over(first, answer)
            else:
                self._run_alone(first)
            for waiting in others:
                self._run_alone(waiting)
            return
        with self._lock:
            run.result = answer
            answered, run.waiting = run.waiting, []
        for waiting in answered:
            self._answer(run, waiting, answer)

    def _fail(self, run: _Run, image: ImageInUse) -> list[_Waiting]:
        """Abandon an inference; returns the requests that wait for it."""
        with self._lock:
            image.runs.remove(run)
            waiting, run.waiting = run.waiting, []
        return waiting

    def _answer(self, run: _Run, waiting: _Waiting, result: InferenceResult | None) -> None:
        own = None
        if result is not None:
            with self._lock:
                own = run.result_of(waiting.model, result)
        if own is None or own.weights_version < waiting.version:
            self._run_alone(waiting)
        else:
            _hand_over(waiting, own)

    def _run_alone(self, waiting: _Waiting) -> None:
        terms = waiting.terms
        if waiting.deadline < inf:
            remaining = waiting.deadline - time.monotonic()
            if remaining <= 0:
                self.expired += 1
                return _hand_over(waiting, expired_after(terms.deadline))
            terms = replace(terms, deadline=remaining)
        try:
            self._invoke(waiting.model, waiting.inputs, waiting.done, terms)
        except EdgeTpuError as error:
            _hand_over(waiting, error)

    # Joint graphs. All but `_loaded` and `_swapped` are called with the lock held.

    def _changed(self, group: ImageGroup) -> None:
        """Load the joint graph of a group's models, if these have changed."""
        models = [model for model in group.models if model.head_name]
        heads = tuple(sorted(models, key=lambda model: (model.head_name, model.name)))
        heads = heads if len(heads) > 1 else ()
        if heads == self._wanted.get(group, ()):
            return
        if heads and group not in self._wanted and len(self._wanted) >= MOST_JOINT:
            return  # the group asks again with each image
        if heads:
            before, self._wanted[group] = self._wanted.get(group, ()), heads
            name = joint_name([head.head_name for head in heads])
            try:
                self._load(name, partial(self._loaded, group, heads))
            except RuntimeError:  # no thread can be started: the group asks again with each image
                if before:
                    self._wanted[group] = before
                else:
                    del self._wanted[group]
        else:
            del self._wanted[group]
            self._replace(group, None)

    def _loaded(
        self, group: ImageGroup, heads: tuple[HostedModel, ...], outcome: HostedModel | EdgeTpuError
    ) -> None:
        with self._lock:
            if isinstance(outcome, EdgeTpuError):
                self._report_once(heads, outcome)
                return
            try:
                if self._wanted.get(group) == heads:
                    self._use(group, JointModel(outcome, heads))
                    return
            except EdgeTpuError as error:
                self._report_once(heads, error)
            self._unload(outcome)

    def _use(self, group: ImageGroup, joint: JointModel) -> None:
        self._replace(group, joint)
        self._report(f"{_names(joint.heads)} are run as one graph")
        for head in joint.heads:
            self._send_weights(joint, head)

    def _report_once(self, heads: Sequence[HostedModel], error: EdgeTpuError) -> None:
        """Log why a joint graph is not used, unless it is one of the last for which that was logged."""
        names = _names(heads)
        if names not in self._logged:
            self._logged.append(names)
            self._report(f"{names} are run one by one, not as one graph: {error}")

    def _replace(self, group: ImageGroup, joint: JointModel | None) -> None:
        before, group.joint = group.joint, joint
        if before is not None:
            self._next_try.pop(before, None)
            self._unload(before.model)

    def _send_weights(self, joint: JointModel, head: HostedModel) -> None:
        """Set on a joint graph the weights that were set on one of its models."""
        if time.monotonic() < self._next_try.get(joint, 0.0):
            return
        try:
            for version, request in joint.missing(head):
                self._swap(joint.model, request, partial(self._swapped, joint, head, version))
        except EdgeTpuError as error:
            self._not_set(joint, head, error)

    def _swapped(
        self, joint: JointModel, head: HostedModel, version: int, outcome: WeightResult | EdgeTpuError
    ) -> None:
        with self._lock:
            if isinstance(outcome, EdgeTpuError):
                self._not_set(joint, head, outcome)
            else:
                joint.hold(head, version, outcome.version)

    def _not_set(self, joint: JointModel, head: HostedModel, error: EdgeTpuError) -> None:
        if isinstance(error, (BusyError, DeviceError, ExpiredError, UnavailableError)):
            joint.send_again(head)
            self._next_try[joint] = time.monotonic() + _RETRY_SECONDS
        else:
            self._report(f"{head.name} is run on its own, not as part of one graph: {error}")
            head.head_name = ""


def _names(heads: Sequence[HostedModel]) -> str:
    return ", ".join(head.head_name for head in heads)


def _hand_over(waiting: _Waiting, answer: InferenceResult | EdgeTpuError) -> None:
    try:
        waiting.done(answer)
    except Exception:
        _log.exception("unexpected error in the callback of a request for model '%s'", waiting.model.name)
