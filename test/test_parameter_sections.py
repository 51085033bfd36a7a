"""The values that a parameter file gives to a node: those that the node gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.node import Node

from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.parameter_sections import values_in_file

SECTIONS = """
/**/*: {ros__parameters: {a: 1, b: 1, c: 1}}
/**/guard: {ros__parameters: {b: 2, c: 2, d: true}}
/robot/guard: {ros__parameters: {c: 3}}
robot: {guard: {ros__parameters: {e: 4}}}
/*/guard: {ros__parameters: {f: 5}}
/*: {ros__parameters: {g: 6}}
/**: {ros__parameters: {h: 7}}
guard: {ros__parameters: {i: 8}}
/robot/guards: {ros__parameters: {j: 9}}
/**/other: {ros__parameters: {a: 10}}
"""


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("/robot", {"a": 1, "b": 2, "c": 3, "d": True, "e": 4, "f": 5, "h": 7}),
        ("/", {"a": 1, "b": 2, "c": 2, "d": True, "g": 6, "h": 7, "i": 8}),
        ("/left/robot", {"a": 1, "b": 2, "c": 2, "d": True, "h": 7}),
    ],
)
def test_the_values_are_those_that_the_node_gets(
    graph: Any,  # noqa: ARG001 - rclpy runs
    tmp_path: Path,
    namespace: str,
    expected: dict[str, Any],
) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text(SECTIONS)
    assert values_in_file(file, f"{namespace.rstrip('/')}/guard") == expected
    node = Node("guard", namespace=namespace, cli_args=["--ros-args", "--params-file", str(file)])
    got = {name: each.value for name, each in node._parameter_overrides.items()}
    node.destroy_node()
    assert got == expected


def test_the_last_section_counts(tmp_path: Path) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text("/guard: {ros__parameters: {a: 1}}\n/**: {ros__parameters: {a: 2}}")
    assert values_in_file(file, "/guard") == {"a": 2}


@pytest.mark.parametrize("text", ["", "[1, 2]", "/guard: 3", "/guard: {ros__parameters: 3}"])
def test_a_file_without_sections_has_no_values(tmp_path: Path, text: str) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text(text)
    assert values_in_file(file, "/guard") == {}


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"cannot read {tmp_path}/none.yaml: No such file or directory"):
        values_in_file(tmp_path / "none.yaml", "/guard")
    (tmp_path / "bad.yaml").write_text("{")
    with pytest.raises(InputError, match=r"bad\.yaml: expected YAML of plain values"):
        values_in_file(tmp_path / "bad.yaml", "/guard")
