"""What callbacks raise, and what cannot be read, is logged once and counted; the node goes on."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rcl_interfaces.msg import Parameter, ParameterValue  # noqa: E402
from rcl_interfaces.srv import GetParameters, SetParameters, SetParametersAtomically  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.parameter import Parameter as SetParameter  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from edgetpu_driver.errors import (  # noqa: E402
    EdgeTpuError,
    GraphProcessError,
    InputError,
    ModelUnsupportedError,
)
from edgetpu_driver.node_kit.base_node import BaseNode  # noqa: E402
from edgetpu_driver.node_kit.executor.callback_guard import GuardedExecutor, UnreadableError  # noqa: E402
from edgetpu_driver.node_kit.executor.executor import StaticSingleThreadedExecutor  # noqa: E402
from edgetpu_driver.node_kit.fatal_error import FatalError  # noqa: E402
from edgetpu_driver.node_kit.parameters import Setting  # noqa: E402
from edgetpu_msgs.msg import ErrorCode  # noqa: E402
from edgetpu_msgs.srv import SaveFile  # noqa: E402
from fuzz.raw_requests import RawRequests  # noqa: E402
from testdata.running_nodes.spinning_node import spin_until  # noqa: E402

UNKNOWN_TYPE = 10

WITHOUT_ITS_TEXT = bytes([0, 1, 0, 0]) + (9).to_bytes(4, "little")
"""CDR, little-endian: the length of a text that does not follow."""


class GuardedNode(BaseNode):
    """A node that remembers what it would log."""

    settings = (
        Setting("speed", 1.0, "Speed.", read_only=False),
        Setting("words", [], "Words.", read_only=False, any_type=True),
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("guarded", **options)
        self.lines: list[str] = []

    def report_once(self, kind: Any, text: str, **options: bool) -> None:
        """Remember the line."""
        if kind not in self._reported:
            self.lines.append(text)
        super().report_once(kind, text, **options)


class Bench:
    """A node in the executor under test, and another node in an executor of rclpy that talks to it."""

    def __init__(self, kind: type[SingleThreadedExecutor]) -> None:
        self.context = rclpy.context.Context()
        rclpy.init(context=self.context)
        self.node = GuardedNode(context=self.context)
        self.executor = kind(context=self.context)
        self.executor.add_node(self.node)
        self.peer = rclpy.create_node("peer", context=self.context)
        self.peer_executor = SingleThreadedExecutor(context=self.context)
        self.peer_executor.add_node(self.peer)

    def close(self) -> None:
        for executor in (self.executor, self.peer_executor):
            executor.shutdown()
        for node in (self.node, self.peer):
            node.destroy_node()
        self.context.try_shutdown()

    def spin_until(self, condition: Callable[[], bool]) -> None:
        spin_until(condition, self._spin_once)

    def _spin_once(self) -> None:
        self.executor.spin_once(0.01)
        self.peer_executor.spin_once(0.0)

    def publisher(self, topic: str) -> Any:
        """A publisher that the node has found; it also sends bytes as they are."""
        publisher = self.peer.create_publisher(String, topic, 10)
        self.spin_until(lambda: publisher.get_subscription_count() == 1)
        return publisher

    def ask(self, kind: Any, name: str, request: Any) -> Any:
        client = self.peer.create_client(kind, name)
        self.spin_until(client.service_is_ready)
        future = client.call_async(request)
        self.spin_until(future.done)
        return future.result()


@pytest.fixture(params=[StaticSingleThreadedExecutor, GuardedExecutor])
def bench(request: pytest.FixtureRequest, ros_domain: int) -> Iterator[Bench]:  # noqa: ARG001
    bench = Bench(request.param)
    yield bench
    bench.close()


def test_a_message_that_cannot_be_read_is_skipped_and_counted(bench: Bench) -> None:
    got: list[str] = []
    subscription = bench.node.create_subscription(
        String, "words", lambda message: got.append(message.data), 10
    )
    publisher = bench.publisher("words")
    subscription.msg_type = int  # Fast DDS drops truncated messages itself, others have the conversion fail
    publisher.publish(String(data="a"))
    bench.spin_until(lambda: bench.node.counters.unreadable > 0)
    subscription.msg_type = String
    bench.spin_until(lambda: got == ["a"])
    assert [line.split(" (")[0] for line in bench.node.lines] == [
        "message on /words: cannot be read, skipped"
    ]


def test_requests_that_the_middleware_cannot_deserialise_are_logged_once_and_counted(bench: Bench) -> None:
    bench.node.create_service(SaveFile, "save", lambda _, response: response)
    requests = RawRequests(bench.peer, SaveFile, "/save")
    bench.spin_until(requests.matched)
    for count in (1, 2):
        requests.send(WITHOUT_ITS_TEXT)
        bench.spin_until(lambda count=count: bench.node.counters.unreadable == count)
    assert bench.node.counters.errors == 0
    assert bench.node.lines == [
        "request to /save: cannot be read, skipped (the middleware could not deserialise it)"
    ]


def test_a_client_that_leaves_is_no_unreadable_request(bench: Bench) -> None:
    client = bench.peer.create_client(GetParameters, "/guarded/get_parameters")
    bench.spin_until(client.service_is_ready)
    bench.peer.destroy_client(client)
    bench.ask(SetParameters, "/guarded/set_parameters", SetParameters.Request())
    assert bench.node.counters.unreadable == 0


def test_what_the_callback_of_a_subscription_raises_is_logged_once_and_counted(bench: Bench) -> None:
    got: list[str] = []

    def receive(message: String) -> None:
        got.append(message.data)
        raise ArithmeticError("two\nlines")

    bench.node.create_subscription(String, "words", receive, 10)
    publisher = bench.publisher("words")
    for word in "ab":
        publisher.publish(String(data=word))
    bench.spin_until(lambda: got == ["a", "b"])
    assert bench.node.counters.errors == 2
    assert bench.node.lines == ["message on /words: unexpected ArithmeticError: two lines"]


@pytest.mark.parametrize("failure", [ValueError("wrong"), UnreadableError(ValueError("wrong"))])
def test_what_a_failed_callback_held_is_released_without_the_garbage_collector(
    bench: Bench, failure: Exception
) -> None:
    held: list[weakref.ref[Any]] = []

    def fail(_message: String) -> None:
        image = np.zeros(4)
        held.append(weakref.ref(image))
        try:
            raise KeyError("reason")
        except KeyError as reason:
            raise type(failure)(*failure.args) from reason

    bench.node.create_subscription(String, "words", fail, 10)
    publisher = bench.publisher("words")
    gc.disable()
    try:
        for count in (1, 2):  # the first is logged
            publisher.publish(String(data="a"))
            bench.spin_until(lambda count=count: len(held) == count)
            bench.spin_until(lambda: held[-1]() is None)
    finally:
        gc.enable()


def _fail(*_arguments: Any) -> Any:
    raise ArithmeticError("wrong")


async def _fail_later(*_arguments: Any) -> Any:
    raise ArithmeticError("wrong")


def _cannot_be_sent(_request: Any, response: Any) -> Any:
    response.success, response.message = True, "\udcff"
    return response


@pytest.mark.parametrize(
    ("callback", "text"),
    [
        (_fail, "unexpected ArithmeticError: wrong"),
        (_fail_later, "unexpected ArithmeticError: wrong"),
        (lambda *_: None, "unexpected TypeError"),
    ],
)
def test_a_client_gets_an_answer_from_a_service_that_raises(
    bench: Bench, callback: Callable[..., Any], text: str
) -> None:
    bench.node.create_service(Trigger, "ask", callback)
    answer = bench.ask(Trigger, "ask", Trigger.Request())
    assert (answer.success, answer.message) == (False, text)
    assert bench.node.lines == [f"request to /ask: {text}"]


def test_a_client_gets_an_answer_if_the_first_one_cannot_be_sent(bench: Bench) -> None:
    bench.node.create_service(Trigger, "ask", _cannot_be_sent)
    answer = bench.ask(Trigger, "ask", Trigger.Request())
    assert not answer.success
    assert answer.message.startswith("unexpected UnicodeEncodeError")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError, ErrorCode.BAD_INPUT),
        (ModelUnsupportedError, ErrorCode.BAD_MODEL),
        (GraphProcessError, ErrorCode.DEVICE),
    ],
)
def test_an_answer_has_the_code_of_the_error(bench: Bench, error: type[EdgeTpuError], code: int) -> None:
    def refuse(*_arguments: Any) -> Any:
        raise error("expected a name")

    bench.node.create_service(SaveFile, "save", refuse)
    answer = bench.ask(SaveFile, "save", SaveFile.Request())
    assert (answer.success, answer.message) == (False, "expected a name")
    assert answer.error.value == code


def test_a_request_that_cannot_be_read_does_not_end_the_service(bench: Bench) -> None:
    service = bench.node.create_service(Trigger, "ask", lambda _, response: response)
    service.srv_type = SimpleNamespace(Request=int)
    client = bench.peer.create_client(Trigger, "ask")
    bench.spin_until(client.service_is_ready)
    answer = client.call_async(Trigger.Request())
    bench.spin_until(lambda: bench.node.counters.unreadable > 0)
    service.srv_type = Trigger
    bench.spin_until(answer.done)
    assert bench.node.lines[0].startswith("request to /ask: cannot be read, skipped")


def test_timers_and_guard_conditions_continue(bench: Bench) -> None:
    condition = bench.node.create_guard_condition(_fail)
    bench.node.create_timer(0.01, _fail)
    bench.spin_until(lambda: bench.node.counters.errors >= 2)
    before = bench.node.counters.errors
    condition.trigger()
    bench.spin_until(lambda: bench.node.counters.errors >= before + 2)
    assert bench.node.lines == ["_fail: unexpected ArithmeticError: wrong"]


def test_a_task_that_raises_is_reported_by_the_node_it_belongs_to(bench: Bench) -> None:
    bench.executor.create_task(_fail)
    bench.spin_until(lambda: bench.node.counters.errors == 1)
    assert bench.node.lines == ["task: unexpected ArithmeticError: wrong"]


def test_a_fatal_error_ends_the_spinning(bench: Bench) -> None:
    def give_up() -> None:
        raise FatalError("no device")

    bench.node.create_timer(0.01, give_up)
    with pytest.raises(FatalError, match="no device"):
        bench.spin_until(lambda: False)


def test_a_default_that_no_message_can_hold_ends_the_start_with_a_reason(bench: Bench) -> None:
    class Homeless(BaseNode):
        settings = (Setting("directory", "/home/\udcff", "Directory."),)

    with pytest.raises(FatalError, match=r"'directory': expected a default in UTF-8 \(check \$ROS_HOME\)"):
        Homeless("homeless", context=bench.context)


def test_a_single_value_for_a_list_ends_the_start_with_how_to_write_a_list(bench: Bench) -> None:
    class Listing(BaseNode):
        settings = (Setting("devices", [], "Devices."),)

    overrides = [SetParameter("devices", value="all")]
    with pytest.raises(FatalError, match=r"'devices'.*\(lists are written in brackets: '\[a, b\]'\)$"):
        Listing("listing", context=bench.context, parameter_overrides=overrides)


def _parameter(name: str, kind: int = 3, value: float = 2.0) -> Parameter:
    return Parameter(name=name, value=ParameterValue(type=kind, double_value=value))


def test_a_parameter_of_an_unknown_type_is_refused_and_those_before_it_are_set(bench: Bench) -> None:
    request = SetParameters.Request(
        parameters=[_parameter("speed"), _parameter("speed", UNKNOWN_TYPE), _parameter("speed", value=3.0)]
    )
    results = bench.ask(SetParameters, "guarded/set_parameters", request).results
    assert [each.successful for each in results] == [True, False, False]
    assert results[1].reason.startswith("unexpected ValueError: 10 is not")
    assert results[2].reason == "not set: a parameter before it in the request failed"
    assert bench.node.values["speed"] == 2.0


@pytest.mark.parametrize("name", ["", "slow"])
def test_a_parameter_that_the_node_does_not_have_is_refused_by_name(bench: Bench, name: str) -> None:
    request = SetParameters.Request(parameters=[_parameter(name), _parameter("speed")])
    unknown, speed = bench.ask(SetParameters, "guarded/set_parameters", request).results
    assert (unknown.successful, speed.successful) == (False, True)
    words = "Invalid access to undeclared parameter(s)"
    assert unknown.reason in (f"{words}: ['{name}']", f"('{words}', ['{name}'])")  # of Jazzy, of Humble
    together = SetParametersAtomically.Request(parameters=[_parameter("speed", value=3.0), _parameter(name)])
    result = bench.ask(SetParametersAtomically, "guarded/set_parameters_atomically", together).result
    assert (result.successful, result.reason) == (False, unknown.reason)
    assert bench.node.values["speed"] == 2.0


def test_a_parameter_of_any_type_cannot_be_deleted(bench: Bench) -> None:
    words = Parameter(name="words", value=ParameterValue(type=9, string_array_value=["left"]))
    request = SetParameters.Request(parameters=[words, Parameter(name="words")])
    results = bench.ask(SetParameters, "guarded/set_parameters", request).results
    assert [each.successful for each in results] == [True, False]
    assert results[1].reason == "words: expected a value; it cannot be deleted"
    assert bench.node.values["words"] == ["left"]
    assert bench.node.has_parameter("words")


def test_parameters_set_together_are_all_refused_if_one_is_of_an_unknown_type(bench: Bench) -> None:
    request = SetParametersAtomically.Request(
        parameters=[_parameter("speed"), _parameter("speed", UNKNOWN_TYPE)]
    )
    result = bench.ask(SetParametersAtomically, "guarded/set_parameters_atomically", request).result
    assert not result.successful
    assert bench.node.values["speed"] == 1.0


def test_diagnostics_tell_what_was_skipped(bench: Bench) -> None:
    bench.node.counters.unreadable = 2
    bench.node.counters.errors = 1
    assert (
        bench.node.diagnostic().message
        == "no messages; 2 unreadable messages or requests; 1 unexpected error"
    )
    assert bench.node.diagnostic().message == "no messages"


def test_a_line_of_the_log_has_no_control_characters_and_an_end(bench: Bench) -> None:
    logged: list[str] = []
    bench.node.get_logger = lambda: type("Log", (), {"warning": staticmethod(logged.append)})  # type: ignore[method-assign]
    bench.node.report_once("name", "model a\nb \x1b[2J \udcff" + 5000 * "x")
    assert logged[0].startswith(r"model a b \x1b[2J \udcffxxx")
    assert len(logged[0]) < 1100


def test_a_request_for_more_parameters_than_any_node_has_is_refused(bench: Bench) -> None:
    request = SetParameters.Request(parameters=[_parameter("speed", value=3.0)] * 1001)
    results = bench.ask(SetParameters, "guarded/set_parameters", request).results
    assert (len(results), results[0].reason) == (
        1001,
        "expected at most 1000 parameters in a request; got 1001",
    )
    assert not any(result.successful for result in results)
    names = GetParameters.Request(names=["speed"] * 1001)
    assert list(bench.ask(GetParameters, "guarded/get_parameters", names).values) == []
    assert bench.node.values["speed"] == 1.0
