"""A short run of the fuzzing (`make fuzz` runs the long one)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("hypothesis", reason="it draws the inputs (pip install hypothesis)")

from fuzz import __main__ as command_line
from fuzz.corpus import Sample
from fuzz.harness import FuzzError, Totals, check, fuzz
from fuzz.image_sequences import run_sequence
from fuzz.targets import Target, targets

INPUTS = 30


@pytest.fixture(scope="module")
def by_name() -> dict[str, Target]:
    return {target.name: target for target in targets()}


@pytest.mark.parametrize(
    "name",
    [
        "parse_model",
        "CompiledModel.parse",
        "parse_package",
        "flexbuffer.decode",
        "disassemble",
        "from_text",
        "operations from text",
        "compile_dense",
        "decode_parameters",
        "encode_parameters",
        "place files",
        "files of taught classes",
        "compressed images",
    ],
)
def test_a_parser_raises_nothing_but_format_errors(name: str, by_name: dict[str, Target]) -> None:
    totals = Totals()
    fuzz(by_name[name], INPUTS, 1, totals, lambda: None)
    assert totals.inputs >= INPUTS
    assert totals.refused > 0


def test_valid_inputs_are_accepted(by_name: dict[str, Target]) -> None:
    for name in (
        "parse_model",
        "parse_package",
        "flexbuffer.decode",
        "from_text",
        "operations from text",
        "compile_dense",
        "decode_parameters",
        "place files",
        "files of taught classes",
    ):
        for sample in by_name[name].samples:
            by_name[name].parse(sample.data)


def test_another_exception_is_a_finding() -> None:
    def parse(data: bytes) -> None:
        if data and data[0]:
            raise IndexError("out of range")

    target = Target("broken", [Sample("zeros", bytes(8))], parse, 1.0)
    with pytest.raises(IndexError):
        fuzz(target, 200, 1, Totals(), lambda: None)


def test_much_memory_is_a_finding() -> None:
    with pytest.raises(FuzzError, match="bytes of memory"):
        check(Target("greedy", [], lambda _: bytearray(64 << 20), 1.0), bytes(8), Totals())


def test_much_time_is_a_finding() -> None:
    slow = Target("slow", [], lambda _: sum(range(100_000)), 1.0, seconds=1e-3)
    with pytest.raises(FuzzError, match=r"slow took 0\.\d\d s for 8 bytes; expected at most 0\.001 s"):
        check(slow, bytes(8), Totals())


def test_graphs_that_pass_the_checks_run_in_a_process_of_their_own(by_name: dict[str, Target]) -> None:
    pytest.importorskip("ai_edge_litert", reason="the CPU engine needs ai-edge-litert")
    target = by_name["isolated graphs"]
    fuzz(target, INPUTS, 1, Totals(), lambda: None)
    assert target.outcomes["refused by the checks"] > 0
    assert target.outcomes["ran"] > 0


def test_the_perception_algorithms_take_any_image_at_any_time() -> None:
    pytest.importorskip("ai_edge_litert", reason="the CPU engine needs ai-edge-litert")
    assert run_sequence(1) > 100


def test_messages_have_values_at_the_edges_and_follow_from_the_seed() -> None:
    serialization = pytest.importorskip("rclpy.serialization", reason="needs ROS 2")
    from edgetpu_msgs.srv import Invoke
    from fuzz.message_values import MessageValues

    values, again = (MessageValues(1, ("dense_64",)) for _ in range(2))
    requests = [values.message(Invoke.Request) for _ in range(100)]
    assert {each.model for each in requests} > {"", "dense_64"}
    assert str([again.message(Invoke.Request) for _ in range(100)]) == str(requests)
    data = [bytes(serialization.serialize_message(each)) for each in requests]
    assert [values.damaged(each) for each in data] != data


def test_nodes_survive_damaged_messages(ros_domain: int) -> None:  # noqa: ARG001
    pytest.importorskip("rclpy", reason="needs ROS 2")
    from fuzz.ros_graph import GraphFuzzer

    with GraphFuzzer(1, ("spot_tracker",)) as fuzzer:
        fuzzer.run(120, lambda: None)
    assert fuzzer.report.findings == []
    assert fuzzer.report.watched == ["spot_tracker"]
    assert fuzzer.report.answers == fuzzer.report.requests > 0
    assert fuzzer.report.messages > 0


def test_messages_to_a_latched_topic_arrive(graph: Any) -> None:
    from std_msgs.msg import Float32

    from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_LATCHED
    from fuzz.ros_graph import QOS_MESSAGES

    publisher = graph.node.create_publisher(Float32, "latched", QOS_MESSAGES)
    received: list[Float32] = []
    subscription = graph.node.create_subscription(Float32, "latched", received.append, QOS_LATCHED)
    try:
        publisher.publish(Float32(data=2.0))
        graph.spin_until(lambda: received == [Float32(data=2.0)])
    finally:
        graph.node.destroy_subscription(subscription)
        graph.node.destroy_publisher(publisher)


def test_a_node_that_makes_no_results_is_silent(graph: Any) -> None:
    import rclpy
    from sensor_msgs.msg import Image
    from std_msgs.msg import Float32

    from fuzz.result_watch import ResultWatch

    nodes = {name: rclpy.create_node(name) for name in ("talking", "mute")}
    publishers = {name: node.create_publisher(Float32, "~/result", 10) for name, node in nodes.items()}
    for name, node in nodes.items():
        received: Callable[[Any], None] = publishers[name].publish if name == "talking" else str
        node.create_subscription(Image, "image", lambda _, call=received: call(Float32()), 10)
        graph.add_node(node)
    watch = ResultWatch(graph.node, lambda _, seconds: graph.spin_for(seconds))
    graph.spin_until(lambda: graph.node.count_subscribers("/image") == len(nodes))
    try:
        graph.spin_until(lambda: watch.silent(nodes, 1.0) == ["mute"])  # both are silent while nothing runs
    finally:
        for node in nodes.values():
            graph.remove_node(node)
            node.destroy_node()


@pytest.mark.parametrize("option", ["--inputs", "--messages", "--orders", "--sequences"])
def test_a_number_below_zero_is_wrong_usage(
    option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_line, "fuzz", lambda *_: None)
    with pytest.raises(SystemExit) as left:
        command_line.main([option, "-1", "--target", "split"])
    assert left.value.code == 2
    assert f"argument {option}: expected a whole number, 0 or more; got '-1'" in capsys.readouterr().err


@pytest.mark.parametrize(("inputs", "least"), [("3", {1}), ("0", set())])
def test_every_parser_gets_an_input_unless_there_are_none(
    monkeypatch: pytest.MonkeyPatch, inputs: str, least: set[int]
) -> None:
    given: list[int] = []
    monkeypatch.setattr(command_line, "fuzz", lambda _target, count, *_: given.append(count))
    for other in ("_run_sequences", "_run_threads", "_run_graph"):
        monkeypatch.setattr(command_line, other, lambda *_: pytest.fail("it was left out"))
    nothing_else = ("--sequences", "0", "--orders", "0", "--messages", "0")
    assert command_line.main(["--inputs", inputs, *nothing_else]) == 0
    assert set(given) == least
