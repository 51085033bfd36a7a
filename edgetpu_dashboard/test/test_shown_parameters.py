"""Parameters of every type, as any node may declare them."""

from __future__ import annotations

import array
import asyncio
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rcl_interfaces.msg import ParameterDescriptor, ParameterValue, SetParametersResult
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters

from edgetpu_dashboard.live.parameter_texts import text_of
from edgetpu_dashboard.nodes.graph_calls import GraphCalls, ShownParameter


class OneParameter(GraphCalls):
    """A node with one parameter, which takes any value."""

    def __init__(self, value: ParameterValue, constraints: str = "", name: str = "p") -> None:
        self._value, self._constraints, self._name = value, constraints, name

    async def ask(self, kind: Any, _node: str, _service: str, _seconds: float = 0.0, **fields: Any) -> Any:
        answer = kind.Response()
        if kind is ListParameters:
            answer.result.names = [self._name]
        elif kind is DescribeParameters:
            descriptor = ParameterDescriptor(name=self._name, additional_constraints=self._constraints)
            answer.descriptors = [descriptor]
        elif kind is GetParameters:
            answer.values = [self._value]
        elif kind is SetParameters:
            self._value = fields["parameters"][0].value
            answer.results = [SetParametersResult(successful=True)]
        return answer

    def shown(self) -> ShownParameter:
        (found,) = asyncio.run(self.parameters("own"))
        return found

    def type_in(self, text: str) -> ParameterValue:
        """Set the parameter as the page does."""
        shown = self.shown()
        assert shown.like is not None
        asyncio.run(self.set_parameter("own", shown.name, text, shown.like))
        return self._value


def test_a_list_of_bytes_is_shown_and_set() -> None:
    node = OneParameter(ParameterValue(type=5, byte_array_value=[b"\0", b"\xff"]))
    assert text_of(node.shown().value) == "[0, 255]"
    assert node.type_in("[1, 2, 3]") == ParameterValue(type=5, byte_array_value=[b"\1", b"\2", b"\3"])


@pytest.mark.parametrize(
    ("empty", "text", "expected"),
    [
        (ParameterValue(type=7), "[1, 2]", ParameterValue(type=7, integer_array_value=[1, 2])),
        (ParameterValue(type=8), "[1, 2]", ParameterValue(type=8, double_array_value=[1.0, 2.0])),
        (ParameterValue(type=9), '["a"]', ParameterValue(type=9, string_array_value=["a"])),
    ],
    ids=["integers", "numbers", "strings"],
)
def test_an_empty_list_keeps_its_type(empty: ParameterValue, text: str, expected: ParameterValue) -> None:
    assert OneParameter(empty).type_in(text) == expected


def test_choices_are_those_that_have_the_present_one_among_them() -> None:
    front = ParameterValue(type=4, string_value="front")
    assert OneParameter(front, "one of front, back").shown().choices == ("front", "back")
    assert OneParameter(front, "one of the topics").shown().choices == ()


def test_arrays_are_lists() -> None:
    value = ParameterValue(type=8, double_array_value=array.array("d", [0.5]))
    assert OneParameter(value).shown().value == [0.5]


def test_the_parameter_that_every_node_has_from_ros_is_described() -> None:
    off = ParameterValue(type=1)
    assert OneParameter(off, name="use_sim_time").shown().description == (
        "Take the time from /clock, for example that of a simulator or a bag."
    )
    assert OneParameter(off).shown().description == ""
