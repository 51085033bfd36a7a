"""Requests whose lengths exceed them are refused before the middleware reads them."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rcl_interfaces.msg import Parameter, ParameterValue  # noqa: E402
from rcl_interfaces.srv import ListParameters, SetParameters  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402
from rclpy.utilities import get_rmw_implementation_identifier  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from edgetpu_driver.node_kit.base_node import BaseNode  # noqa: E402
from edgetpu_driver.node_kit.middleware import damaged_requests  # noqa: E402
from edgetpu_driver.node_kit.middleware.damaged_requests import refuse_damaged_requests  # noqa: E402
from edgetpu_driver.node_kit.middleware.serialized_lengths import SerializedLengths  # noqa: E402
from edgetpu_msgs.msg import Tensor  # noqa: E402
from edgetpu_msgs.srv import Invoke, MatMul, SetWeights  # noqa: E402
from fuzz.raw_answers import RawAnswers  # noqa: E402
from fuzz.raw_requests import RawRequests  # noqa: E402
from testdata.running_nodes.peak_memory import peak_memory  # noqa: E402
from testdata.running_nodes.spinning_node import spin_until  # noqa: E402

HUGE = 0x30000000
"""A length that the middleware would have the memory for: 768 MiB."""

INVOKE = Invoke.Request(
    model="m",
    inputs=[Tensor(name=name, dtype=Tensor.UINT8, shape=[1, 7], data=bytes(9)) for name in ("a", "bcd")],
    client="c",
    deadline=0.5,
)
REQUESTS = [
    INVOKE,
    SetWeights.Request(model="m", shape=[2, 2], weights=[1.0] * 4),
    MatMul.Request(model="m", batch=1, inputs=[1.0, 2.0, 3.0]),
    SetParameters.Request(
        parameters=[Parameter(name="speed", value=ParameterValue(type=4, string_value="x"))] * 2
    ),
    ListParameters.Request(prefixes=["a", "bc"]),
    Trigger.Request(),
    Trigger.Response(message="done"),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_serialised_request_fits(request_: Any) -> None:
    assert SerializedLengths(type(request_)).fit(memoryview(serialize_message(request_)))


def test_both_byte_orders_are_read() -> None:
    big_endian = b"\x00\x00\x00\x00" + struct.pack(">II", 1, 2) + b"a\x00"
    lengths = SerializedLengths(ListParameters.Request)
    assert not lengths.fit(memoryview(big_endian))  # the field `depth` is missing
    assert lengths.fit(memoryview(big_endian + bytes(2 + 4 + 8)))


@pytest.mark.parametrize("begin", [b"", b"\x00", b"\x00\x01", b"\x00\x07\x00\x00", b"\x01\x01\x00\x00"])
def test_what_is_no_plain_cdr_does_not_fit(begin: bytes) -> None:
    assert not SerializedLengths(Trigger.Request).fit(memoryview(begin + bytes(4 if len(begin) == 4 else 0)))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_the_middleware_reads_whatever_fits(request_: Any) -> None:
    chance, whole = random.Random(5), serialize_message(request_)
    lengths, fitting = SerializedLengths(type(request_)), 0
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 2, 4])):
            data[chance.randrange(4, len(data))] = chance.choice([0, 1, 2, 255, chance.randrange(256)])
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        if lengths.fit(memoryview(data)):
            fitting += 1
            deserialize_message(bytes(data), type(request_))  # raises where it does not fit
    assert fitting > 50


class Served:
    """A node with a service, and a peer of the suite that sends bytes to it and calls it."""

    def __init__(self) -> None:
        self.context = rclpy.context.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("node", context=self.context)
        self.peer = BaseNode("peer", context=self.context)
        self.got: list[str] = []
        self.node.create_service(Invoke, "/served/invoke", self._answer)
        self.executor = SingleThreadedExecutor(context=self.context)
        for node in (self.node, self.peer):
            self.executor.add_node(node)
        self.raw = RawRequests(self.peer, Invoke, "/served/invoke")
        self.spin_until(self.raw.matched)

    def _answer(self, request: Any, response: Any) -> Any:
        self.got.append(request.model)
        response.message = request.model
        return response

    def spin_until(self, condition: Any) -> None:
        spin_until(condition, lambda: self.executor.spin_once(0.01))

    def close(self) -> None:
        self.executor.shutdown()
        for node in (self.node, self.peer):
            node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture
def served(ros_domain: int) -> Iterator[Served]:  # noqa: ARG001
    served = Served()
    yield served
    served.close()


@pytest.fixture
def answers() -> Iterator[RawAnswers]:
    answers = RawAnswers(Invoke)
    yield answers
    answers.close()


needs_fast_dds = pytest.mark.skipif(
    get_rmw_implementation_identifier() != "rmw_fastrtps_cpp", reason="other middlewares check lengths"
)


@needs_fast_dds
def test_a_damaged_request_takes_no_memory_and_the_next_one_is_answered(served: Served) -> None:
    refuse_damaged_requests([served.node])
    whole = serialize_message(INVOKE)
    at = whole.index(struct.pack("<I", 9))  # the length of the first tensor's data
    damaged = whole[:at] + struct.pack("<I", HUGE) + whole[at + 4 :]
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of the resident memory
    before = peak_memory(os.getpid())
    assert served.raw.send(damaged)
    assert served.raw.send(whole)
    served.spin_until(lambda: served.got)
    assert served.got == ["m"]
    assert peak_memory(os.getpid()) - before < 100


@needs_fast_dds
def test_a_damaged_answer_takes_no_memory_and_the_next_one_is_read(
    served: Served, answers: RawAnswers
) -> None:
    client = served.peer.create_client(Invoke, "/served/invoke")
    served.spin_until(client.service_is_ready)
    whole = serialize_message(Invoke.Response(message="m", outputs=INVOKE.inputs))
    at = whole.index(struct.pack("<I", 9))  # the length of the first tensor's data
    answers.begin = whole[:at] + struct.pack("<I", HUGE) + whole[at + 4 :]
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of the resident memory
    before = peak_memory(os.getpid())
    damaged = client.call_async(Invoke.Request(model="m" * len(whole)))
    served.spin_until(lambda: served.got)
    answers.begin = b""
    good = client.call_async(Invoke.Request(model="good"))
    served.spin_until(good.done)
    assert (damaged.done(), good.result().message) == (False, "good")
    assert peak_memory(os.getpid()) - before < 100


def test_the_log_says_once_that_lengths_are_left_to_another_middleware(
    served: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(damaged_requests, "_checked", {})
    monkeypatch.setattr(damaged_requests, "get_rmw_implementation_identifier", lambda: "rmw_other_cpp")
    refuse_damaged_requests([served.node])
    refuse_damaged_requests([served.peer])
    log = capfd.readouterr().err
    assert log.count("the lengths in requests and answers, such as ") == 1
    assert log.count("are checked by rmw_other_cpp only") == 1
