"""The state of the graph as it is sent to a browser."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from edgetpu_dashboard.live.curves import ResultLog
from edgetpu_dashboard.live.snapshot import snapshot


def view(values: dict[str, str], log: ResultLog | None = None, fields: tuple[Any, ...] = ()) -> Any:
    """The view of one node, `eye`, with one diagnostic."""
    diagnostic = SimpleNamespace(level="warning", message="no images", values=values)
    result = SimpleNamespace(values=fields)
    eye = SimpleNamespace(running=True, diagnostics={"eye": diagnostic}, log=log, result=result)
    return SimpleNamespace(lock=threading.RLock(), nodes={"eye": eye}, pictured=lambda: {"eye": "eye"})


def test_a_node_has_the_counts_of_its_diagnostics() -> None:
    found = snapshot(view({"dropped": "3", "failed": "1"}), "none")
    assert found["nodes"]["eye"] == {
        "pictured": True,
        "running": True,
        "level": "warning",
        "problem": "no images",
        "dropped": 3,
        "failed": 1,
    }
    assert found["curves"] == []


@pytest.mark.parametrize("text", ["", "many", "-1", "1e9", "9" * 5000, "\u00b2"])
def test_a_count_that_is_no_number_is_0(text: str) -> None:
    assert snapshot(view({"dropped": text}), "eye")["nodes"]["eye"]["dropped"] == 0


def test_what_json_cannot_hold_is_left_out() -> None:
    log = ResultLog({"x": ""})
    log.add(0.0, {"x": float("inf"), "valid": True, "confidence": float("nan")}, 0.0)
    value = SimpleNamespace(field="x", meaning="place", unit="m", sigma="")
    found = snapshot(view({}, log, (value,)), "eye")
    json.dumps(found, allow_nan=False)
    assert found["curves"][0]["value"] is None
