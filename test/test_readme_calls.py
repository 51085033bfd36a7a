"""The block of calls in README.md can be pasted whole: each call is made, in order, and succeeds."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="the virtual stick needs LiteRT")

import yaml
from rcl_interfaces.msg import Parameter
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import get_parameter_value

from edgetpu_msgs.msg import ErrorCode

README = (Path(__file__).parents[1] / "README.md").read_text()
NAMESPACE = "/calls"
NODES = (
    ("edgetpu_driver", "edgetpu_node"),
    ("edgetpu_perception", "spot_tracker"),
    ("edgetpu_matrix", "place_recognition"),
    ("edgetpu_matrix", "reservoir"),
)


def calls() -> list[str]:
    """The lines of the block under the heading."""
    section = README.partition("\n### Calls\n")[2].partition("\n## ")[0]
    block = re.search(r"```\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return block[1].splitlines()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("ros_home")
        patch.setenv("ROS_HOME", str(directory))
        yield directory


@pytest.fixture(scope="module")
def nodes(start_node: Callable[..., Any], home: Path) -> None:  # noqa: ARG001
    """The nodes that the text before the block starts."""
    for package, executable in NODES:
        backend = {"backend": "virtual"} if executable == "edgetpu_node" else {}
        start_node(package, executable, "-r", f"__ns:={NAMESPACE}", **backend)


def interface(name: str) -> Any:
    """Import a message or service by its name, such as std_srvs/srv/Trigger."""
    package, folder, kind = name.split("/")
    return getattr(importlib.import_module(f"{package}.{folder}"), kind)


def service_call(graph: Any, name: str, kind: str, values: str = "{}") -> Any:
    """Make the call, again while the device is not there yet: the block begins with the nodes running."""
    responses: list[Any] = []

    def answered() -> bool:
        responses.append(graph.call(interface(kind), NAMESPACE + name, **yaml.safe_load(values)))
        error = getattr(responses[-1], "error", None)
        return error is None or error.value != ErrorCode.UNAVAILABLE

    graph.spin_until(answered)
    return responses[-1]


def param_set(graph: Any, node: str, name: str, value: str) -> Any:
    parameter = Parameter(name=name, value=get_parameter_value(value))
    (result,) = graph.call(SetParameters, f"{NAMESPACE}{node}/set_parameters", parameters=[parameter]).results
    return result


def first_message(graph: Any, topic: str) -> Any:
    graph.spin_until(lambda: dict(graph.node.get_topic_names_and_types()).get(NAMESPACE + topic))
    (kind,) = dict(graph.node.get_topic_names_and_types())[NAMESPACE + topic]
    messages = graph.collect(interface(kind), NAMESPACE + topic)
    graph.spin_until(lambda: bool(messages))
    return messages[0]


def make(graph: Any, line: str) -> Any:
    """Make the call of a line; its response, None for a program that ended well."""
    words = shlex.split(line, comments=True)
    match words[1:]:
        case ["service", "call", name, kind, *values]:
            return service_call(graph, name, kind, *values)
        case ["param", "set", node, name, value]:
            return param_set(graph, node, name, value)
        case ["topic", "echo", "--once", topic]:
            return first_message(graph, topic)
        case ["run", package, executable, *arguments]:
            from demo.processes import find_executable

            command = [str(find_executable(package, executable)), *arguments]
            subprocess.run(command, check=True, env=dict(os.environ), timeout=30)
            return None
    raise AssertionError(f"the test does not know the call {line}")


@pytest.mark.usefixtures("nodes")
def test_each_call_succeeds_in_the_order_of_the_block(graph: Any) -> None:
    lines = calls()
    assert len(lines) >= 15
    failed = [
        f"{line}: {response}"
        for line in lines
        if (response := make(graph, line)) is not None
        and not getattr(response, "success", getattr(response, "successful", True))
    ]
    assert failed == []


@pytest.mark.usefixtures("nodes")
def test_the_outputs_stated_are_those_answered(graph: Any) -> None:
    lines = calls()
    (stated,) = [line for line in lines if "# outputs=" in line]
    before = lines[: lines.index(stated)]
    for line in before[-3:]:  # the model is made, loaded and given its weights again
        make(graph, line)
    expected = yaml.safe_load(stated.partition("# outputs=")[2])
    assert list(make(graph, stated).outputs) == pytest.approx(expected, abs=0.005)
