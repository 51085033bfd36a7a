"""Fuzzes the ROS boundary: every topic and service of every node, found in the running graph.

Each node of the table runs in its own process. Subscriptions get damaged serialised messages and
well-formed ones with extreme values; services get both as requests. Well-formed requests must be answered.
After each batch the node must run, answer, and publish results of good messages if it did so before.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rclpy
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import Parameter
from rcl_interfaces.srv import (
    GetParameters,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
from rclpy.executors import SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message
from rclpy.signals import SignalHandlerOptions

from edgetpu_driver.node_kit.executor.held_interrupts import held_interrupts
from edgetpu_driver.node_kit.node_table import DRIVER, all_nodes
from fuzz.message_values import MessageValues, class_named
from fuzz.raw_requests import RawRequests
from fuzz.result_watch import ResultWatch
from testdata.running_nodes.peak_memory import peak_memory

_START_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
"""Time limit for the answer to a well-formed request, for a busy machine, s."""
_RESULT_SECONDS = 30.0
"""Time limit for a first result of every node that needs no further models, for a busy machine, s."""
_AT_ONCE = 8
"""Number of requests in flight."""
_PAUSE = 0.002
"""Time between two messages, s, so that queues do not drop most of them."""
_MATCHED_SECONDS = 5.0
QOS_MESSAGES = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""QoS that matches every subscription: one to a latched topic does not match a volatile publisher."""
_LARGEST_MEMORY = 2048
"""Limit of a node's memory, MiB."""
_WORDS = ("dense_256", "dense_64", "x", "fuzz", "roi", "min_confidence", "rate_limit", "red", "mono8", "rgb8")
_ENDING = (
    Transition.TRANSITION_UNCONFIGURED_SHUTDOWN,
    Transition.TRANSITION_INACTIVE_SHUTDOWN,
    Transition.TRANSITION_ACTIVE_SHUTDOWN,
)

_PROGRAM = """
import sys
from edgetpu_driver.node_kit.process_entry import run_node
sys.exit(run_node({name!r}))
"""


@dataclass
class GraphReport:
    """Counts of messages and answers, and the findings."""

    messages: int = 0
    requests: int = 0
    raw_requests: int = 0
    answers: int = 0
    endpoints: int = 0
    nodes: int = 0
    watched: list[str] = field(default_factory=list)
    """Nodes that published results of good messages before, and must still do so afterwards."""
    findings: list[str] = field(default_factory=list)


class _Process:
    """One node in its own process; a context manager."""

    def __init__(self, name: str, folder: Path, backend: str) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        arguments = ("--ros-args", "-p", f"{DRIVER}:backend:={backend}")
        self._command = [sys.executable, "-c", _PROGRAM.format(name=name), *arguments]
        self._environment = os.environ | {"ROS_HOME": str(folder), "PYTHONUNBUFFERED": "1"}
        self.start()

    def start(self) -> None:
        """Start the process, or restart it after it has ended."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, env=self._environment
            )

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def ended(self) -> str:
        """Exit status and last line of the log; empty while it runs."""
        if self._process.poll() is None:
            return ""
        lines = self._log.read_text(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "no output")
        return f"ended with {self._process.returncode}: {last[:300]}"

    @property
    def peak_memory(self) -> float:
        """Largest resident memory of the process so far, MiB."""
        try:
            return peak_memory(self._process.pid)
        except OSError:
            return 0.0


@dataclass(frozen=True)
class _Endpoint:
    """A subscription or a service of a node."""

    node: str
    kind: Any
    name: str
    is_service: bool

    def __str__(self) -> str:
        return f"{self.node}: {'requests to' if self.is_service else 'messages on'} {self.name}"


class GraphFuzzer:
    """Sends messages and requests to nodes; a context manager that runs them."""

    def __init__(self, seed: int, names: tuple[str, ...] = (), backend: str = "cpu") -> None:
        """`names`: the nodes to fuzz in addition to the driver; all by default."""
        self._values = MessageValues(seed, _WORDS)
        table = all_nodes()
        self._names = (DRIVER, *(name for name in names or table if name != DRIVER))
        self._backend = backend
        self.report = GraphReport()
        self._held = ExitStack()

    def __enter__(self) -> GraphFuzzer:
        # Keep the graph separate from others on this machine or its network.
        os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        folder = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="fuzz_")))
        try:
            self._processes = {
                name: self._held.enter_context(_Process(name, folder, self._backend)) for name in self._names
            }
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # KeyboardInterrupt ends it
            self._held.callback(rclpy.try_shutdown)
            self._node: Node = rclpy.create_node("fuzz")
            self._held.callback(self._node.destroy_node)
            self._executor = SingleThreadedExecutor()
            self._held.callback(self._executor.shutdown)
            self._executor.add_node(self._node)
            for name in self._names:
                self._await_node(name)
            self._watch = ResultWatch(self._node, self._spin_until)
            nodes = [name for name in self._names if name != DRIVER]
            silent = self._watch.silent(nodes, _RESULT_SECONDS)
            self.report.watched = [name for name in nodes if name not in silent]
            self._parameters = {name: self._parameters_of(name) for name in self.report.watched}
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def run(self, inputs: int, advance: Callable[[], None]) -> None:
        """Send `inputs` messages and requests, the same number to each endpoint."""
        endpoints = [each for name in self._names for each in self._endpoints(name)]
        # Transitions come last, since they unload the driver's models.
        endpoints.sort(key=lambda each: each.kind is ChangeState)
        self.report.endpoints, self.report.nodes = len(endpoints), len(self._names)
        for each in endpoints:
            count = max(2, inputs // len(endpoints))
            (self._feed_service if each.is_service else self._feed_topic)(each, count, advance)
            self._check(each)

    def _endpoints(self, name: str) -> list[_Endpoint]:
        topics = self._node.get_subscriber_names_and_types_by_node(name, "/")
        services = self._node.get_service_names_and_types_by_node(name, "/")
        return [
            _Endpoint(name, class_named(types[0]), each, is_service)
            for found, is_service in ((topics, False), (services, True))
            for each, types in sorted(found)
        ]

    def _feed_topic(self, endpoint: _Endpoint, count: int, advance: Callable[[], None]) -> None:
        publisher = self._node.create_publisher(endpoint.kind, endpoint.name, QOS_MESSAGES)
        matched = self._spin_until(lambda: publisher.get_subscription_count() > 0, _MATCHED_SECONDS)
        if not matched and endpoint in self._endpoints(endpoint.node):  # a parameter may have closed it
            self.report.findings.append(f"{endpoint}: messages do not arrive")
        for _ in range(count):
            message = self._values.message(endpoint.kind)
            if self._values.random.random() < 0.7:
                message = self._values.damaged(bytes(serialize_message(message)))
            # The middleware refuses more bytes than any message of a type without sequences can have.
            with suppress(_rclpy.RCLError):
                publisher.publish(message)
                self.report.messages += 1
            advance()
            time.sleep(_PAUSE)
        self._node.destroy_publisher(publisher)

    def _feed_service(self, endpoint: _Endpoint, count: int, advance: Callable[[], None]) -> None:
        client = self._node.create_client(endpoint.kind, endpoint.name, qos_profile=QoSProfile(depth=1000))
        if not self._spin_until(client.service_is_ready, 10.0):
            self.report.findings.append(f"{endpoint}: the service is gone")
            return
        raw = RawRequests(self._node, endpoint.kind, endpoint.name)
        if not self._spin_until(raw.matched, _MATCHED_SECONDS):
            self.report.findings.append(f"{endpoint}: damaged requests do not arrive")
        self._answers(endpoint.node)  # it knows the client then; answers before that are lost
        for start in range(0, count, _AT_ONCE):
            requests = [self._request(endpoint.kind) for _ in range(min(_AT_ONCE, count - start))]
            for request in requests:
                raw.send(self._values.damaged(bytes(serialize_message(request))))
                self.report.raw_requests += 1
                advance()
            readable = requests[: max(1, len(requests) // 2)]
            answers = [client.call_async(request) for request in readable]
            self.report.requests += len(readable)
            self._spin_until(lambda answers=answers: all(each.done() for each in answers), _ANSWER_SECONDS)  # type: ignore[misc]
            answered = sum(each.done() for each in answers)
            self.report.answers += answered
            if answered < len(answers):
                self.report.findings.append(
                    f"{endpoint}: {len(answers) - answered} of {len(answers)} requests got no answer"
                )
                break
        self._node.destroy_client(client)

    def _request(self, kind: Any) -> Any:
        request = self._values.message(kind.Request)
        if kind is ChangeState:
            request.transition.label = ""
            if request.transition.id in _ENDING:
                request.transition.id = 0
        return request

    def _check(self, endpoint: _Endpoint) -> None:
        """Report a node that has ended, does not answer or exceeds its memory, and restart it."""
        process = self._processes[endpoint.node]
        finding = process.ended
        if not finding and not self._answers(endpoint.node):
            finding = process.ended or "no longer answers"
        if not finding and process.peak_memory > _LARGEST_MEMORY:
            finding = f"took {process.peak_memory:.0f} MiB of memory"
        if finding:
            self._report(endpoint, finding)
        if endpoint.kind is ChangeState:
            self._activate(endpoint.node)
        if endpoint.kind in (SetParameters, SetParametersAtomically):
            self._restore_parameters(endpoint.node)
        watched = self.report.watched
        for name in self._watch.silent(
            watched if endpoint.node == DRIVER else {endpoint.node} & set(watched), _ANSWER_SECONDS
        ):
            self._report(
                _Endpoint(name, endpoint.kind, endpoint.name, endpoint.is_service), "silent since then"
            )

    def _report(self, endpoint: _Endpoint, finding: str) -> None:
        """Record a finding, and restart the node."""
        self.report.findings.append(f"{endpoint}: {finding}")
        process = self._processes[endpoint.node]
        process.__exit__()
        process.start()
        self._await_node(endpoint.node)

    def _parameters_of(self, name: str) -> list[Parameter]:
        listed = self._call(ListParameters, f"/{name}/list_parameters", ListParameters.Request())
        names = list(listed.result.names) if listed is not None else []
        answer = self._call(GetParameters, f"/{name}/get_parameters", GetParameters.Request(names=names))
        values = answer.values if answer is not None else []
        return [Parameter(name=each, value=value) for each, value in zip(names, values, strict=False)]

    def _restore_parameters(self, name: str) -> None:
        """Restore the initial parameters of a watched node, since some valid values stop its results."""
        parameters = self._parameters.get(name, [])
        self._call(SetParameters, f"/{name}/set_parameters", SetParameters.Request(parameters=parameters))

    def _await_node(self, name: str) -> None:
        if not self._spin_until(lambda: self._answers(name), _START_SECONDS):
            raise TimeoutError(f"{name} did not start: {self._processes[name].ended or 'it answers nothing'}")

    def _answers(self, name: str) -> bool:
        """Whether a node answers and is in the graph, where it may appear a little later."""
        request = ListParameters.Request()
        if self._call(ListParameters, f"/{name}/list_parameters", request) is None:
            return False
        return (name, "/") in self._node.get_node_names_and_namespaces()

    def _activate(self, name: str) -> None:
        for state, transition in (
            (State.PRIMARY_STATE_UNCONFIGURED, Transition.TRANSITION_CONFIGURE),
            (State.PRIMARY_STATE_INACTIVE, Transition.TRANSITION_ACTIVATE),
        ):
            answer = self._call(GetState, f"/{name}/get_state", GetState.Request())
            if answer is not None and answer.current_state.id == state:
                request = ChangeState.Request(transition=Transition(id=transition))
                self._call(ChangeState, f"/{name}/change_state", request)

    def _call(self, kind: Any, service: str, request: Any) -> Any:
        """The answer to a request; None if there is none."""
        client = self._node.create_client(kind, service)
        try:
            if not self._spin_until(client.service_is_ready, 5.0):
                return None
            answer = client.call_async(request)
            self._spin_until(answer.done, _ANSWER_SECONDS)
            return answer.result() if answer.done() else None
        finally:
            self._node.destroy_client(client)

    def _spin_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            with held_interrupts():
                self._executor.spin_once(0.02)
        return True
