"""The common base of all nodes: parameters, counters, diagnostics and messages in the log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from diagnostic_msgs.msg import DiagnosticStatus
from rcl_interfaces.msg import SetParametersResult
from rclpy.client import Client
from rclpy.exceptions import ParameterNotDeclaredException
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.service import Service
from rclpy.timer import Timer

from edgetpu_driver.errors import EdgeTpuError, InputError
from edgetpu_driver.node_kit.diagnostics import CounterDiagnostic, Counters, publish_diagnostics
from edgetpu_driver.node_kit.executor.callback_guard import UnreadableError, reason
from edgetpu_driver.node_kit.executor.steady_timers import create_steady_timer
from edgetpu_driver.node_kit.heartbeat import start_heartbeat
from edgetpu_driver.node_kit.messages.error_codes import write_error
from edgetpu_driver.node_kit.middleware.damaged_requests import refuse_damaged_answers
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE
from edgetpu_driver.node_kit.parameters import Setting, declare
from edgetpu_driver.node_kit.printable_text import one_line
from edgetpu_driver.node_kit.process.process_end import report_failed_start
from edgetpu_driver.node_kit.result_topics import ResultTopic
from edgetpu_driver.node_kit.unknown_parameters import unknown_overrides

try:
    from rclpy.event_handler import PublisherEventCallbacks
except ImportError:  # ROS 2 Humble
    from rclpy.qos_event import PublisherEventCallbacks

_MOST_REPORTS = 1000
"""Largest number of kinds of reports kept: senders can make up kinds, for example names of encodings."""

_PATIENCE_WITH_CLOCK = 10.0
"""Seconds after which the lack of a time from /clock is logged. Chosen: longer than nodes take to find each
other."""

_NO_EVENTS = PublisherEventCallbacks(use_default_callbacks=False)


class BaseNode(Node):
    """A node of the suite: declares `settings`, publishes diagnostics once a second, reports a problem once.

    A subclass calls `super().__init__(name)`, makes its interfaces from `values`, and then calls
    `start_diagnostics`.
    """

    settings: ClassVar[tuple[Setting, ...]] = ()
    """The parameters of the node."""

    results: ClassVar[ResultTopic | None] = None
    """The result that the node publishes for each message it receives, for tools that record it."""

    ignores_common_parameters: ClassVar[bool] = False
    """Whether parameters set for all nodes are seldom meant for this one."""

    subject: ClassVar[str] = "messages"
    """The things that the node counts, as named in its diagnostics."""

    @classmethod
    def types_on_demand(cls) -> frozenset[str]:
        """Return types of topics and services of other nodes that the node opens later, when they are wanted.

        Its security policy allows them in addition to the interfaces that the node opens when it is made.
        """
        return frozenset()

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.counters: Counters = Counters()
        self._counter_diagnostic = CounterDiagnostic(self.full_name, self.subject)
        self._reported: set[Hashable] = set()
        self._clock_deadline: float | None = None
        """When a lack of messages on /clock is logged, s of time.monotonic; None until one is noticed."""
        try:
            self.values = declare(self, self.settings, self.on_parameter, self.refuse_parameter)
            self._report_unknown_parameters(options.get("cli_args") or ())
        except BaseException as error:
            report_failed_start(error)
            super().destroy_node()  # not the subclass's own method, whose fields are not set yet
            raise

    def _report_unknown_parameters(self, cli_args: Sequence[str]) -> None:
        own_only = self.ignores_common_parameters
        for line in unknown_overrides(self, list(self.values), cli_args, own_only=own_only):
            self.get_logger().warning(line)

    @property
    def full_name(self) -> str:
        """Namespace and name without the leading slash, as in diagnostics and in names of models."""
        name: str = self.get_fully_qualified_name()
        return name.lstrip("/")

    @property
    def now(self) -> float:
        """The node's time, s."""
        return 1e-9 * float(self.get_clock().now().nanoseconds)

    @contextmanager
    def destroyed_on_error(self) -> Iterator[None]:
        """Destroy the node if the block, a part of its construction, raises."""
        try:
            yield
        except BaseException as error:
            report_failed_start(error)
            self.destroy_node()
            raise

    def on_stop(self) -> None:
        """Do what cannot wait until other nodes of the process are destroyed; called once, before the first.

        `destroy_node` follows.
        """

    def create_publisher(self, *arguments: Any, **options: Any) -> Publisher:
        """Make a publisher as Node does, without callbacks for events.

        By default it would warn of subscribers with an incompatible QoS, which log that themselves; and
        each callback is one more entity to wait for between two messages.
        """
        return super().create_publisher(*arguments, **{"event_callbacks": _NO_EVENTS, **options})

    def create_service(self, srv_type: Any, *arguments: Any, **options: Any) -> Service:
        """Make a service as Node does, by default with QOS_SERVICE; rclpy's own queue holds ten requests."""
        return super().create_service(srv_type, *arguments, **{"qos_profile": QOS_SERVICE, **options})

    def create_client(self, srv_type: Any, *arguments: Any, **options: Any) -> Client:
        """Make a client as Node does, by default with QOS_SERVICE; damaged answers are ignored."""
        refuse_damaged_answers(self, srv_type)
        return super().create_client(srv_type, *arguments, **{"qos_profile": QOS_SERVICE, **options})

    def create_steady_timer(self, period: float, callback: Callable[[], None]) -> Timer:
        """Make a timer with a period in seconds of real time, even if the graph runs on simulated time."""
        return create_steady_timer(self, period, callback)

    def set_parameters_atomically(self, parameter_list: list[Parameter]) -> SetParametersResult:
        """Set all of the parameters or none; see Node.

        rclpy overlooks an empty name, and its error does not say which names are unknown.
        """
        unknown = [each.name for each in parameter_list if not self.has_parameter(each.name)]
        if unknown:
            raise ParameterNotDeclaredException(unknown)
        return super().set_parameters_atomically(parameter_list)

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply the new value of a parameter that is not read-only; `values` has it already."""

    def refuse_parameter(self, name: str, values: Mapping[str, Any]) -> str | None:
        """Return the reason why a value that passed its checks is refused while the node runs, or None.

        values: the values that all parameters would have.
        """
        del name, values
        return None

    def report_once(self, kind: Hashable, text: str, *, error: bool = False, counted: bool = False) -> None:
        """Log a warning or an error unless one of this kind was logged before; the node continues.

        counted: whether the caller counts all of this kind in /diagnostics.
        """
        if kind in self._reported or len(self._reported) >= _MOST_REPORTS:
            return
        self._reported.add(kind)
        further = "only counted, in /diagnostics" if counted else "not logged"
        line = f"{one_line(text)}. Further ones of this kind are {further}."
        # rclpy refuses a line of code that logs at two levels.
        if error:
            self.get_logger().error(line)
        else:
            self.get_logger().warning(line)

    def skip_malformed(self, kind: Hashable, fault: str, what: str) -> None:
        """Count a message with unexpected content; log once for each kind that it is skipped.

        fault: what was expected and what came; what: what is skipped.
        """
        self.counters.count_malformed(fault)
        self.report_once(kind, f"{what} skipped: {fault}", counted=True)

    def on_callback_failure(self, source: str, error: Exception) -> None:
        """Log once and count an exception of a callback, or why a message or request could not be read.

        An EdgeTpuError refuses a request and is the answer to the client; it is not counted.
        """
        if isinstance(error, UnreadableError):
            self.counters.unreadable += 1
        elif not isinstance(error, EdgeTpuError):
            self.counters.errors += 1
        refused = isinstance(error, EdgeTpuError)
        line = f"{source}: {reason(error)}"
        self.report_once((source, type(error)), line, error=not refused, counted=not refused)

    def forget_reports(self) -> None:
        """Log reports of every kind again, because something has changed."""
        self._reported.clear()

    def start_diagnostics(self) -> None:
        """Start to publish diagnostics and a heartbeat."""
        publish_diagnostics(self, self.diagnostics)
        start_heartbeat(self)

    def problems(self) -> list[str]:
        """Return the problems that keep the node from working, a line each, for its diagnostics."""
        return []

    @property
    def needs_user(self) -> bool:
        """Whether a problem remains until a user changes something, so that it counts as an error."""
        return False

    def diagnostics(self) -> list[DiagnosticStatus]:
        """Make all entries of the node in /diagnostics."""
        return [self.diagnostic()]

    def diagnostic(self) -> DiagnosticStatus:
        """Make the node's entry of /diagnostics (REP-107) from its counters and problems."""
        problems = [*self._clock_problems(), *self.problems()]
        return self._counter_diagnostic.status(self.counters, problems, needs_user=self.needs_user)

    def _clock_problems(self) -> list[str]:
        """Return a problem, and log it if it lasts, if the node waits for simulated time."""
        clock = self.get_clock()
        if not (clock.ros_time_is_active and clock.now().nanoseconds == 0):
            return []
        problem = "use_sim_time is true, but no time has come from /clock"
        now = time.monotonic()
        if self._clock_deadline is None:  # counted from here: the start of a process may take long
            self._clock_deadline = now + _PATIENCE_WITH_CLOCK
        elif now >= self._clock_deadline:
            self._clock_deadline = math.inf  # logged once
            self.get_logger().warning(problem)
        return [problem]


def fill_answer(response: Any, error: Exception | None = None, message: str = "") -> Any:
    """Write into a service's response how the call ended, and return it."""
    if error is not None:
        return write_error(response, error if isinstance(error, EdgeTpuError) else InputError(str(error)))
    response.success, response.message = True, one_line(message)
    return response
