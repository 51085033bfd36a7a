"""Carries out the actions of a schedule, logs them, and checks the answers to their requests."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.msg import ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image, JointState
from std_srvs.srv import Trigger

from edgetpu_driver.node_kit.node_table import DRIVER
from edgetpu_msgs.srv import Invoke, LoadModel, MatMul, SetColor, SetTemplate, SetWeights
from soak.camera_messages import image_message
from soak.chaos.chaos_schedule import TOPICS, Action, Kind
from soak.chaos.malformed_messages import bad_request, damaged
from soak.checks.request_checks import Refusal, judge_refusal
from soak.driver_process import StickEvent
from soak.input_publisher import SCENES
from soak.outcome_journal import Disturbance, Journal, Judgement, Outcome
from soak.processes import Processes, children

SWAPPED_MODEL = "foreign_swapping/dense_64"
"""A loaded model to which malformed requests are sent."""

RECOVERY_SECONDS = 8.0
"""Time after a disturbance of the driver within which it still explains failures, s."""
RESTART_SECONDS = 15.0
"""The same after a kill, s: importing and discovery take seconds on a busy machine."""
START_UP_SECONDS = 18.0
"""Time after the start of the run within which the driver starts, s."""
_FAULT_SECONDS = 3.0
"""Time within which the transfer of a pending fault comes, s."""
_LOST_AFTER = 30.0

_DEEP = QoSProfile(depth=1000)

_EFFECTS = {
    Kind.FAULT: RECOVERY_SECONDS + _FAULT_SECONDS,
    Kind.UNPLUG: RECOVERY_SECONDS,
    Kind.RESET: RECOVERY_SECONDS,
    Kind.DEACTIVATE: RECOVERY_SECONDS,
    Kind.CLEAN_UP: RECOVERY_SECONDS,
    Kind.KILL_CHILD: RECOVERY_SECONDS,
    Kind.KILL: RESTART_SECONDS,
}
"""Kinds that may keep the driver from answering: for how long after the action's own `seconds`, s."""

_OF_ONE_STICK = (Kind.FAULT, Kind.UNPLUG)

_DEACTIVATION = (Transition.TRANSITION_DEACTIVATE,)
_CLEANING = (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP)
_BACK_UP = (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE)


class Chaos:
    """Carries out a schedule; call `step` often. The caller spins the node."""

    def __init__(
        self,
        node: Node,
        processes: Processes,
        schedule: Sequence[Action],
        journal: Journal,
        log: Path,
        seed: int,
        sticks: int,
        frames: Path,
    ) -> None:
        now = time.monotonic()
        self.disturbances = [Disturbance(now - 1.0, now + START_UP_SECONDS, ends_requests=False)]
        self.done = 0
        self.sticks = sticks
        self._node, self._processes, self._journal = node, processes, journal
        self._waiting = deque(schedule)
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._asked: dict[int, tuple[float, str, Any]] = {}
        self._log = log.open("w", buffering=1)
        self._chance = random.Random(seed)
        self._begin = now
        self._kills: list[tuple[float, str]] = []
        self._requests = _Requests(node, frames)
        qos = QoSProfile(depth=10)
        self._publishers = {topic: node.create_publisher(_type(topic), topic, qos) for topic in TOPICS}
        self._actions: dict[Kind, Callable[[Action], None]] = {
            Kind.FAULT: self._fault,
            Kind.UNPLUG: self._unplug,
            Kind.KILL: self._kill,
            Kind.KILL_CHILD: self._kill_child,
            Kind.DEACTIVATE: self._deactivate,
            Kind.CLEAN_UP: self._clean_up,
            Kind.BAD_TRANSITION: lambda _: self._transition(Transition.TRANSITION_CONFIGURE, succeeds=False),
            Kind.RESET: lambda _: self._ask(f"/{DRIVER}/reset", Trigger.Request(), _judge_reset),
            Kind.SWAP: self._swap,
            Kind.PARAMETER: lambda action: self._set_parameter(action, accepted=True),
            Kind.BAD_PARAMETER: lambda action: self._set_parameter(action, accepted=False),
            Kind.MALFORMED: self._publish_damage,
            Kind.BAD_REQUEST: self._send_bad_request,
            Kind.CALM: self._calm,
        }

    def step(self) -> None:
        """Carry out the actions that are due."""
        now = time.monotonic() - self._begin
        while self._waiting and self._waiting[0].time <= now:
            self._carry_out(self._waiting.popleft())
        due = [work for at, work in self._later if at <= now]
        self._later = [each for each in self._later if each[0] > now]
        for work in due:  # which may add others
            work()
        self._count_lost()

    def finish(self) -> None:
        """Restore everything that was disturbed: at the end of a run, all nodes must work."""
        for _, work in sorted(self._later, key=lambda each: each[0]):
            work()
        self._later.clear()

    def _carry_out(self, action: Action) -> None:
        self._log.write(json.dumps({**asdict(action), "kind": action.kind.value}) + "\n")
        now = time.monotonic()
        if action.kind in _EFFECTS and (action.kind is not Kind.KILL or action.arguments[0] == DRIVER):
            end = now + action.seconds + _EFFECTS[action.kind]
            killed = action.kind is Kind.KILL
            forgets = killed or action.kind is Kind.CLEAN_UP
            stick = action.stick if action.kind in _OF_ONE_STICK else None
            self.disturbances.append(Disturbance(now - 1.0, end, killed, forgets, stick))
        self._actions[action.kind](action)
        self.done += 1

    def _after(self, seconds: float, work: Callable[[], None]) -> None:
        self._later.append((time.monotonic() - self._begin + seconds, work))

    def _send(self, event: StickEvent) -> None:
        self._processes.write(DRIVER, event.line())

    def _fault(self, action: Action) -> None:
        fault, transfer = action.arguments
        self._send(StickEvent(action.stick, fault, transfer, action.after, action.times))
        self._after(action.seconds + _FAULT_SECONDS, lambda: self._send(StickEvent(action.stick)))

    def _calm(self, _action: Action) -> None:
        for stick in range(self.sticks):
            self._send(StickEvent(stick))
        self._transitions(_BACK_UP)  # refused by a driver that is up

    def _unplug(self, action: Action) -> None:
        self._send(StickEvent(action.stick, plugged=False))
        self._after(action.seconds, lambda: self._send(StickEvent(action.stick)))

    def _kill(self, action: Action) -> None:
        name = action.arguments[0]
        self._kills.append((time.monotonic(), name))
        self._processes.kill(name, action.seconds)

    def _kill_child(self, _action: Action) -> None:
        for pid in children(self._processes.pid(DRIVER))[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _deactivate(self, action: Action) -> None:
        self._transitions(_DEACTIVATION)
        self._after(action.seconds, lambda: self._transitions((Transition.TRANSITION_ACTIVATE,)))

    def _clean_up(self, action: Action) -> None:
        self._transitions(_CLEANING)
        self._after(action.seconds, lambda: self._transitions(_BACK_UP))

    def _transitions(self, transitions: Sequence[int]) -> None:
        """Request transitions in order; a driver that was killed meanwhile is active and refuses them."""

        def follow(answer: Any) -> Judgement:
            del answer
            if transitions[1:]:
                self._transitions(transitions[1:])
            return Outcome.RIGHT, ""

        request = ChangeState.Request(transition=Transition(id=transitions[0]))
        self._ask(f"/{DRIVER}/change_state", request, follow)

    def _transition(self, number: int, *, succeeds: bool) -> None:
        def check(answer: Any) -> Judgement:
            if answer.success == succeeds:
                return Outcome.RIGHT, ""
            return Outcome.NOT_JUDGED, "the driver was not in the state that the schedule expects"

        request = ChangeState.Request(transition=Transition(id=number))
        self._ask(f"/{DRIVER}/change_state", request, check)

    def _swap(self, action: Action) -> None:
        def check(answer: Any) -> Judgement:
            if answer.success:
                return Outcome.RIGHT, ""
            # The node's own request to the driver has a deadline.
            return judge_refusal(answer.error.value, answer.message, has_deadline=True)

        self._ask(*self._requests.swap(action.arguments[0]), check)

    def _set_parameter(self, action: Action, *, accepted: bool) -> None:
        node, name, text = action.arguments

        def check(answer: Any) -> Judgement:
            result = answer.results[0]
            if result.successful == accepted:
                return Outcome.RIGHT, ""
            verb = "refused" if accepted else "accepted"
            return Outcome.WRONG, f"{node} {verb} {name}: {text} ({result.reason})"

        parameter = ParameterMessage(name=name, value=_parameter_value(text))
        self._ask(f"/{node}/set_parameters", SetParameters.Request(parameters=[parameter]), check)

    def _publish_damage(self, action: Action) -> None:
        topic, damage = action.arguments
        self._publishers[topic].publish(damaged(topic, damage, self._chance))

    def _send_bad_request(self, action: Action) -> None:
        service, request = bad_request(action.arguments[0], SWAPPED_MODEL, self._chance)

        def check(answer: Any) -> Judgement:
            if answer.success:
                return Outcome.WRONG, f"a request with a bad {action.arguments[0]} was accepted"
            if answer.error.value in [each.value for each in Refusal] or answer.message:
                return Outcome.RIGHT, ""
            return Outcome.WRONG, f"no reason for a bad {action.arguments[0]}"

        self._ask(f"/{DRIVER}/{service}", request, check)

    def _ask(self, service: str, request: Any, check: Callable[[Any], Judgement]) -> None:
        client = self._requests.client(service, type(request))
        if not client.service_is_ready():
            return
        sent = time.monotonic()
        future = client.call_async(request)
        self._asked[id(future)] = sent, service, future

        def answered(done: Any) -> None:
            if self._asked.pop(id(done), None) is not None:
                outcome, detail = check(done.result())
                self._journal.add(outcome, "chaos", sent, detail)

        future.add_done_callback(answered)

    def _count_lost(self) -> None:
        """Count requests without an answer; those to a node that was killed since then are not judged."""
        now = time.monotonic()
        for key, (sent, service, _) in list(self._asked.items()):
            if now - sent > _LOST_AFTER:
                del self._asked[key]
                node = service.split("/")[1]
                # Other processes notice the end of a process only seconds later.
                killed = any(name == node and sent - RESTART_SECONDS < at for at, name in self._kills)
                outcome = Outcome.NOT_JUDGED if killed else Outcome.LOST
                self._journal.add(outcome, "chaos", sent, f"no answer from {service}")


class _Requests:
    """The clients of services, and the requests that replace the weights of a node."""

    def __init__(self, node: Node, frames: Path) -> None:
        self._node = node
        self._clients: dict[str, Any] = {}
        scene = SCENES["looking"]
        self._view = np.load(frames / "looking.npy")[0]
        left, top, width, height = scene.pattern_box()
        self._patch = self._view[top : top + height, left : left + width]
        for service, kind in _OF_THE_DRIVER.items():
            # Created now: a request sent just as client and service discover each other may get no answer.
            self.client(f"/{DRIVER}/{service}", kind.Request)

    def client(self, service: str, request: type) -> Any:
        """The client of a service, for requests of this type."""
        if service not in self._clients:
            kind = next(each for each in _SERVICES if each.Request is request)
            # A client receives the answers to all clients of a service; those beyond its queue are lost.
            self._clients[service] = self._node.create_client(kind, service, qos_profile=_DEEP)
        return self._clients[service]

    def swap(self, node: str) -> tuple[str, Any]:
        """The service and the request that set the present weights of a node again."""
        if node == "spot_tracker":
            return f"/{node}/set_color", SetColor.Request(preset="red")
        request = SetTemplate.Request(patch=image_message(self._patch), view=image_message(self._view))
        return f"/{node}/set_template", request


_SERVICES = (
    ChangeState,
    Invoke,
    LoadModel,
    MatMul,
    SetColor,
    SetParameters,
    SetTemplate,
    SetWeights,
    Trigger,
)


_OF_THE_DRIVER = {
    "change_state": ChangeState,
    "invoke": Invoke,
    "load_model": LoadModel,
    "matmul": MatMul,
    "reset": Trigger,
    "set_weights": SetWeights,
}


def _judge_reset(answer: Any) -> Judgement:
    return (Outcome.RIGHT, "") if answer.success else (Outcome.NOT_JUDGED, answer.message)


def _type(topic: str) -> Any:
    if topic.endswith("/image"):
        return Image
    return CameraInfo if topic.endswith("/camera_info") else JointState


def _parameter_value(text: str) -> ParameterValue:
    """The value of a parameter, given as text like in a parameter file."""
    value = float("nan") if text == "nan" else yaml.safe_load(text)
    if isinstance(value, bool):
        return ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=value)
    if isinstance(value, int):
        return ParameterValue(type=ParameterType.PARAMETER_INTEGER, integer_value=value)
    if isinstance(value, float):
        return ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)
    if isinstance(value, list):
        return ParameterValue(type=ParameterType.PARAMETER_INTEGER_ARRAY, integer_array_value=value)
    return ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=str(value))
