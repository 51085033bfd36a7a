"""The base class of foreign clients, which use only the messages of the suite.

A client keeps sending requests and judges every answer. A request without an answer for LOST_AFTER is lost.
"""

from __future__ import annotations

import array
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import QoSProfile

from edgetpu_driver.node_kit.process.periodic import Periodic
from edgetpu_driver.node_kit.process.unused_memory import RELEASE_PERIOD, release_unused_memory
from edgetpu_msgs.msg import Priority, Tensor
from edgetpu_msgs.srv import Invoke, LoadModel, MatMul, SetWeights
from soak.chaos.chaos_schedule import has_light_load
from soak.checks.request_checks import judge_refusal
from soak.outcome_journal import Journal, Judgement, Outcome

LOST_AFTER = 30.0
"""Time without an answer after which a request counts as lost, s."""
_LOST_AT_LIGHT_LOAD = 10.0
"""The same at the end of a run, s, which has no actions and a light load unless it is interrupted."""
_RESPONSES = 4000
"""Depth of the queues of responses: the middleware delivers the answers to all clients of a service to each
client, and the default of 10 loses some. Derived: 300 answers a second to a client that is starved for 13 s;
Fast DDS allows at most 5000."""
_DEPTHS = (1, 2, 4, 8, 25)
"""Numbers of requests that a client may have in flight: usually a few, sometimes many."""
_PAUSE = 0.5
"""Time between two attempts after a refusal, s."""

_KINDS = {"load_model": LoadModel, "invoke": Invoke, "set_weights": SetWeights, "matmul": MatMul}

Check = Callable[[Any], Judgement]


@dataclass(frozen=True)
class ClientRun:
    """What a client needs to know about the run."""

    journal: Journal
    models: Path
    """Directory of the models, which the client also reads."""
    seed: int
    period: float
    """Period in which answered requests are replaced by new ones, s."""
    begin: float
    """Monotonic time at which the run began, s."""
    seconds: float
    """Planned duration of the run, s."""

    @property
    def has_light_load(self) -> bool:
        """See `chaos_schedule.has_light_load`."""
        return has_light_load(min(time.monotonic() - self.begin, self.seconds), self.seconds)


@dataclass(frozen=True)
class _Pending:
    service: str
    sent: float
    future: Any
    client: Any
    check: Check
    has_deadline: bool
    loads: int
    """How often the model had been loaded when the request was sent."""


class ForeignClient(Node):
    """Loads a model of its own, keeps requests for it in flight, and reloads it if the driver has lost it."""

    used_services: tuple[str, ...]
    """The services that this client calls besides load_model."""

    def __init__(self, name: str, model: str | Sequence[str], run: ClientRun) -> None:
        """model: file of the model, or files of the segments of a pipeline."""
        super().__init__(name)
        self.random = np.random.default_rng(run.seed)
        self.model = f"{name}/{model if isinstance(model, str) else model[0]}"
        self.loaded = False
        self._loads = 0
        self._file = model
        self._run, self._journal = run, run.journal
        self._pending: deque[_Pending] = deque()
        self._unused = Periodic(RELEASE_PERIOD, release_unused_memory)
        self._pause_until = 0.0
        self._depth = 2
        # No clients of other services: the middleware would deliver all answers of these services, too, and
        # keep the memory of the largest number that ever waited.
        self._requests_to = {
            service: self.create_client(
                _KINDS[service], f"/edgetpu/{service}", qos_profile=QoSProfile(depth=_RESPONSES)
            )
            for service in ("load_model", *self.used_services)
        }
        self.create_timer(run.period, self._tick)

    def next_request(self) -> None:
        """Send one request, or none; to be overridden."""
        raise NotImplementedError

    def on_loaded(self, version: int) -> None:
        """Called when the model is loaded with weights of this version; may be overridden."""

    def in_flight(self, service: str) -> int:
        """Number of requests to a service that have no answer yet."""
        return sum(each.service == service for each in self._pending)

    def send(self, service: str, request: Any, check: Check) -> None:
        """Send a request; `check` is called with a successful answer."""
        client = self._requests_to[service]
        request.client = self.get_fully_qualified_name()
        deadline = float(getattr(request, "deadline", 0.0))
        now, future = time.monotonic(), client.call_async(request)
        pending = _Pending(service, now, future, client, check, deadline > 0, self._loads)
        self._pending.append(pending)
        pending.future.add_done_callback(lambda _: self._on_answer(pending))

    def _tick(self) -> None:
        now = time.monotonic()
        self._count_lost(LOST_AFTER)
        self._journal.flush()
        self._unused.run_when_due()  # otherwise memory stays at that of the largest burst of answers
        if now < self._pause_until or not all(each.service_is_ready() for each in self._requests_to.values()):
            return
        if not self.loaded:
            # Weights that are still on their way would be set in the new model, and it would count them.
            if not self.in_flight("load_model") and not self.in_flight("set_weights"):
                self._load()
            return
        if self.random.random() < 0.02:
            self._depth = int(self.random.choice(_DEPTHS))
        depth = 1 if self._run.has_light_load else self._depth
        for _ in range(depth - len(self._pending)):
            self.next_request()

    def close(self) -> None:
        """Count the requests without an answer."""
        self._count_lost(_LOST_AT_LIGHT_LOAD if self._run.has_light_load else LOST_AFTER)
        self._journal.flush(now=True)

    def _count_lost(self, seconds: float) -> None:
        while self._pending and time.monotonic() - self._pending[0].sent > seconds:
            lost = self._pending.popleft()
            lost.client.remove_pending_request(lost.future)
            self._journal.add(Outcome.LOST, lost.service, lost.sent, "no answer")

    def _load(self) -> None:
        request = LoadModel.Request(name=self.model, shared=False, wait=True)
        if isinstance(self._file, str):
            request.model = self._file
        else:
            request.segments = list(self._file)

        def check(answer: Any) -> Judgement:
            self.loaded = True
            self._loads += 1
            self._depth = max(_DEPTHS)  # the largest burst first: memory must not grow after it
            self.on_loaded(answer.info.weights_version)
            return Outcome.RIGHT, ""

        self.send("load_model", request, check)

    def _on_answer(self, pending: _Pending) -> None:
        if pending not in self._pending:
            return
        self._pending.remove(pending)
        answer = pending.future.result()
        if pending.loads != self._loads:
            outcome, detail = Outcome.NOT_JUDGED, ""  # the model may not have had its weights yet
        elif answer.success:
            outcome, detail = pending.check(answer)
        else:
            code = answer.error.value
            outcome, detail = judge_refusal(code, answer.message, has_deadline=pending.has_deadline)
            self._step_back(outcome, getattr(answer, "retry_after", 0.0))
        self._journal.add(outcome, pending.service, pending.sent, detail)

    def _step_back(self, outcome: Outcome, retry_after: float) -> None:
        if outcome is Outcome.UNKNOWN_MODEL:
            self.loaded = False
        if outcome is not Outcome.EXPIRED:
            self._pause_until = time.monotonic() + (retry_after or _PAUSE)


def invoke_request(
    random: np.random.Generator, model: str, inputs: NDArray[Any], name: str
) -> Invoke.Request:
    """A request with one input, a random priority, and sometimes a deadline."""
    data = array.array("B", np.ascontiguousarray(inputs).tobytes())
    dtype = {np.dtype(np.uint8): Tensor.UINT8, np.dtype(np.int8): Tensor.INT8}[inputs.dtype]
    tensor = Tensor(name=name, dtype=dtype, shape=list(inputs.shape), data=data)
    deadline = float(random.choice([0.0, 0.0, 0.0, 0.02, 0.5]))
    priority = int(random.choice([Priority.DEFAULT, Priority.REAL_TIME, Priority.NORMAL, Priority.BULK]))
    return Invoke.Request(model=model, inputs=[tensor], priority=priority, deadline=deadline)


def arrays_of(tensors: Sequence[Tensor]) -> dict[str, NDArray[Any]]:
    """The outputs of an answer by name, read without the suite's code; only uint8 and int8."""
    kinds = {Tensor.UINT8: np.uint8, Tensor.INT8: np.int8}
    return {each.name: np.frombuffer(each.data, kinds[each.dtype]).reshape(each.shape) for each in tensors}
