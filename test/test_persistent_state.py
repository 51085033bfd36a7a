"""What a node keeps over a restart, and what it does with a file that it did not write."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_driver.files import npz_archive as archive
from edgetpu_perception.graphs import families
from edgetpu_perception.nodes import spot_tracker_node
from edgetpu_perception.nodes.persistent_state import PersistentState, StateError
from edgetpu_perception.nodes.template_json import template_from_state, template_state
from edgetpu_perception.pattern_tracker.fine_patch import FinePatch
from edgetpu_perception.pattern_tracker.template import Template
from edgetpu_vision.nodes.persistent_classes import PersistentClasses


class FakeNode:
    """What PersistentState needs of a node; `log` has its warnings and news."""

    full_name = "robot/spot_tracker"

    def __init__(self, **values: Any) -> None:
        self.values = {"keep_state": True, "color": "", **values}
        self.log: list[str] = []

    def get_logger(self) -> FakeNode:
        return self

    def info(self, line: str) -> None:
        self.log.append(f"INFO {line}")

    def warning(self, line: str) -> None:
        self.log.append(f"WARN {line}")

    def report_once(self, _kind: str, line: str) -> None:
        self.log.append(f"WARN {line}")


def kept(**values: Any) -> tuple[PersistentState, FakeNode]:
    node = FakeNode(**values)
    return PersistentState(node, "color"), node  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    return tmp_path


def test_what_was_saved_is_loaded_after_a_restart(home: Path) -> None:
    kept()[0].save({"color": "blue"})
    assert kept()[0].load() == {"color": "blue"}
    assert kept()[0].path == home / "edgetpu/state/robot/spot_tracker.json"


def test_nothing_is_known_before_the_first_time() -> None:
    state, node = kept()
    assert (state.load(), node.log) == ({}, [])


def test_a_changed_parameter_counts_more() -> None:
    kept(color="red")[0].save({"color": "blue"})
    state, node = kept(color=[0.0, 1.0, 0.0])
    assert state.load() == {}
    assert node.log == [f"INFO {state.path} is not used: it is for other values of color"]


def test_only_the_parameters_that_have_changed_are_named() -> None:
    names = ("color", "model", "hue")
    node = FakeNode(color="red", model="spot", hue=1.0)
    PersistentState(node, *names).save({"color": "blue"})  # type: ignore[arg-type]
    node = FakeNode(color="red", model="bright", hue=2.0)
    state = PersistentState(node, *names)  # type: ignore[arg-type]
    assert state.load() == {}
    assert node.log == [f"INFO {state.path} is not used: it is for other values of model, hue"]


def test_nothing_is_kept_when_it_is_turned_off() -> None:
    kept()[0].save({"color": "blue"})
    state, node = kept(keep_state=False)
    state.save({"color": "red"})
    assert (state.load(), node.log) == ({}, [])
    assert kept()[0].load() == {"color": "blue"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "expected JSON: "),
        (b"\xff\x00", "expected JSON: "),
        (b'{"format": 1, "parameters": {"color": ""}, "val', "expected JSON: "),
        (b"[" * 100_000, "expected JSON: "),
        (b"[1]", "expected a state of format 1; got a list"),
        (b'{"format": 2}', "expected a state of format 1; got format 2"),
        (b"{}", "expected a state of format 1; got format None"),
        (
            b'{"format": 1, "parameters": {}, "values": 3}',
            "expected parameters and values by name; got dict and int",
        ),
        (b" " * 1_000_001, "expected at most 1000000 bytes"),
    ],
)
def test_a_damaged_file_costs_one_warning(content: bytes, reason: str) -> None:
    state, node = kept()
    state.path.parent.mkdir(parents=True)
    state.path.write_bytes(content)
    assert state.load() == {}
    assert len(node.log) == 1
    assert node.log[0].startswith(f"WARN {state.path} is not used, the parameters apply instead: {reason}")


def test_the_warning_of_a_text_that_is_not_utf_8_can_be_logged() -> None:
    state, node = kept()
    state.ignore(StateError("expected a colour; got '\ud800'"))
    assert node.log == [
        f"WARN {state.path} is not used, the parameters apply instead: expected a colour; got '\\ud800'"
    ]


def test_the_warning_of_examples_of_a_kind_that_is_not_utf_8_can_be_logged() -> None:
    node = FakeNode(classes="", capacity=10)
    classes = PersistentClasses(node)  # type: ignore[arg-type]
    archive.save(classes.path, "\ud800", {})
    assert classes.load() is None
    assert [line.isprintable() for line in node.log] == [True]


def test_a_directory_instead_of_the_file_costs_one_warning() -> None:
    state, node = kept()
    state.path.mkdir(parents=True)
    assert state.load() == {}
    assert node.log == [f"WARN {state.path} is not used, the parameters apply instead: Is a directory"]


def test_a_home_that_cannot_be_written_costs_a_warning(home: Path) -> None:
    (home / "edgetpu").write_text("a file where the directory should be")
    state, node = kept()
    state.save({"color": "blue"})
    assert len(node.log) == 1
    assert node.log[0].startswith(f"WARN a restart will forget what was set: cannot write {state.path}: ")
    assert state.problem.startswith(f"not saved, a restart will undo this: cannot write {state.path}: ")


def test_a_home_that_can_be_written_again_ends_the_problem(home: Path) -> None:
    blocking = home / "edgetpu"
    blocking.write_text("a file where the directory should be")
    state, _ = kept()
    state.save({"color": "blue"})
    blocking.unlink()
    state.save({"color": "blue"})
    assert (state.problem, state.load()) == ("", {"color": "blue"})


TEMPLATE = Template(
    values=np.arange(12, dtype=np.float32).reshape(3, 4),
    mask=np.arange(12).reshape(3, 4) > 2,
    size=(3, 4),
    offset=(0.25, -1.5),
    clipped=0.125,
    fine=FinePatch(
        values=np.arange(80, dtype=np.float32).reshape(8, 10),
        mask=np.arange(80).reshape(8, 10) > 7,
        x_scale=2.0,
        y_scale=2.5,
        offset=(0.5, 0.0),
        smooth=True,
        finer=FinePatch(
            values=np.arange(320, dtype=np.float32).reshape(8, 40) * 0.5,
            mask=np.arange(320).reshape(8, 40) > 7,
            x_scale=4.0,
            y_scale=5.0,
            offset=(0.25, 0.0),
            smooth=True,
        ),
    ),
    region_scale=0.5,
    px_aspect=0.75,
)


def test_a_template_survives_json_exactly() -> None:
    again = template_from_state(json.loads(json.dumps(template_state(TEMPLATE))))
    assert (again.values.dtype, again.mask.dtype) == (np.float32, np.bool_)
    assert template_state(again) == template_state(TEMPLATE)


def test_a_template_of_a_state_without_finer_squares_has_plain_averages() -> None:
    state = template_state(TEMPLATE)
    for field in ("smooth", "finer"):
        del state["fine"][field]
    fine = template_from_state(state).fine
    assert fine is not None
    assert (fine.smooth, fine.finer) == (False, None)


@pytest.mark.parametrize(
    "change",
    [
        {"values": None},
        {"values": [["a"]]},
        {"values": [1.0, 2.0]},
        {"values": [[float("nan")] * 4] * 3},
        {"values": [[256.0] * 4] * 3},
        {"values": [[1.0], [2.0, 3.0]]},
        {"mask": [[0] * 4] * 3},
        {"mask": [[2] * 4] * 3},
        {"mask": [[1]]},
        {"size": [4, 4]},
        {"size": [3]},
        {"offset": [float("inf"), 0.0]},
        {"clipped": float("nan")},
        {"fine": {}},
        {"region_scale": float("nan")},
        {"region_scale": 0.0},
        {"region_scale": "a"},
        {"px_aspect": float("nan")},
        {"px_aspect": 0.0},
        {"fine": template_state(TEMPLATE)["fine"] | {"smooth": 1}},
        {"fine": template_state(TEMPLATE)["fine"] | {"finer": {}}},
        {"fine": {"values": [[1.0]], "mask": [[1]], "scale": [1.0, 1.0], "offset": [0.0, 0.0]}},
    ],
)
def test_other_values_are_no_template(change: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="expected "):
        template_from_state(template_state(TEMPLATE) | change)


def test_a_template_of_a_state_without_the_shape_of_a_px_has_none() -> None:
    state = template_state(TEMPLATE)
    del state["px_aspect"]
    assert template_from_state(state).px_aspect is None


@pytest.mark.parametrize(
    "field", sorted({field.name for field in dataclasses.fields(Template)} - {"px_aspect"})
)
def test_a_template_with_a_field_missing_is_ignored(field: str) -> None:
    state = template_state(TEMPLATE)
    del state[field]
    with pytest.raises(StateError, match=f"expected a template: '{field}'"):
        template_from_state(state)


def test_a_kept_color_whose_model_cannot_be_written_costs_one_warning(
    graph: Any,  # noqa: ARG001 - its context
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = home / "edgetpu/state/spot_tracker.json"
    state.parent.mkdir(parents=True)
    values = {"color": "blue"}
    state.write_text(json.dumps({"format": 1, "parameters": {"color": "", "model": ""}, "values": values}))
    write, warnings = families.write_model, []

    def full(name: str, *arguments: Any) -> Path:
        if name.startswith("spot_color"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(name, *arguments)

    monkeypatch.setattr(families, "write_model", full)
    monkeypatch.setattr(PersistentState, "ignore", lambda _, error: warnings.append(str(error)))
    node = spot_tracker_node.SpotTrackerNode()
    color = node.algorithm.color
    node.destroy_node()
    name = spot_tracker_node.graph.name("blue")
    assert color is None
    assert warnings == [
        f"cannot write the model {name} to {home / 'edgetpu/models'}: No space left on device"
    ]
