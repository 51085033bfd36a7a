"""The state of the graph as it is sent to a browser."""

from __future__ import annotations

import json
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from edgetpu_dashboard.live.diagnostic_readings import Reading
from edgetpu_dashboard.live.message_numbers import Signal
from edgetpu_dashboard.live.result_curves import ResultCurves
from edgetpu_dashboard.live.snapshot import SentPoints, rate_of_results, snapshot

NOW = 1000.0
"""Time of the snapshots, s."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands still: on a busy machine the results of a test would be seconds old, or spread over time."""
    monkeypatch.setattr("edgetpu_dashboard.live.snapshot.time", SimpleNamespace(monotonic=lambda: NOW))


def view(values: dict[str, str], curves: ResultCurves | None = None, fields: tuple[Any, ...] = ()) -> Any:
    """The view of one node, `spot`, with one diagnostic."""
    diagnostic = SimpleNamespace(level="warning", message="no images", values=values)
    result = SimpleNamespace(values=fields)
    spot = SimpleNamespace(
        running=True,
        diagnostics={"spot": diagnostic},
        curves=curves,
        word="",
        result=result,
        takes=(),
        signals=(),
        readings={},
    )
    return SimpleNamespace(lock=threading.RLock(), nodes={"spot": spot}, pictured=lambda: {"spot": "spot"})


def curves_of(**row: float) -> ResultCurves:
    """Curves of one row, received now."""
    curves = ResultCurves()
    curves.add(NOW, row, 0.0)
    return curves


def read(key: str, text: str) -> Reading:
    """A value of a diagnostic, received now."""
    reading = Reading(key)
    reading.add(NOW, text)
    return reading


def shown(found: Any) -> dict[str, tuple[Any, ...]]:
    """Of each curve what it is, its last value and its unit, and whether it has a point."""
    return {
        each["id"]: (each["meaning"], each["value"], each["unit"], len(each["points"]))
        for each in found["curves"]
    }


def test_a_node_has_the_counts_of_its_diagnostics() -> None:
    found = snapshot(view({"dropped": "3", "failed": "1"}), "none")
    assert found["nodes"]["spot"] == {
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
    assert snapshot(view({"dropped": text}), "spot")["nodes"]["spot"]["dropped"] == 0


def test_a_result_says_in_words_what_was_found() -> None:
    found = view({}, curves_of(valid=True, confidence=0.5))
    found.nodes["spot"].word = "kitchen"
    assert snapshot(found, "none")["nodes"]["spot"]["word"] == "kitchen"


def test_what_json_cannot_hold_is_left_out() -> None:
    curves = ResultCurves({"x": ""})
    curves.add(0.0, {"x": float("inf"), "valid": True, "confidence": float("nan")}, 0.0)
    value = SimpleNamespace(field="x", meaning="place", unit="m", sigma="")
    found = snapshot(view({}, curves, (value,)), "spot")
    json.dumps(found, allow_nan=False)
    assert found["curves"][0]["value"] is None


def test_the_numbers_that_a_node_gives_and_takes_are_curves_with_their_topics() -> None:
    found = view({})
    found.nodes["spot"].signals = (
        Signal("cmd_vel_in", False, curves_of(**{"angular.z": 0.5})),
        Signal("spot/cmd_vel", True, curves_of(**{"linear.x": 0.25})),
        Signal("spot/command", True, curves_of(data=3.0)),
    )
    assert shown(snapshot(found, "spot")) == {
        "spot/cmd_vel linear.x": ("speed, published on spot/cmd_vel", 0.25, "m/s", 1),
        "spot/command data": ("published on spot/command", 3.0, "", 1),
        "cmd_vel_in angular.z": ("turn rate, left positive, received on cmd_vel_in", 0.5, "rad/s", 1),
    }


def test_points_are_sent_once() -> None:
    curves = curves_of(x=1.0)
    found = view({}, curves, (SimpleNamespace(field="x", meaning="place", unit="m", sigma=""),))
    sent = SentPoints()

    def message() -> tuple[bool, list[Any]]:
        (curve,) = snapshot(found, "spot", sent)["curves"]
        return curve["complete"], [[value, sigma] for _, _, value, sigma in curve["points"]]

    assert message() == (True, [[1.0, 0.0]])
    assert message() == (False, [])
    curves.add(NOW + 1.0, {"x": 2.0}, 0.0)
    assert message() == (False, [[2.0, 0.0]])
    found.nodes["spot"].curves = curves_of(x=3.0)
    assert message() == (True, [[3.0, 0.0]])


def test_a_node_that_takes_its_own_results_has_all_points_of_both_curves() -> None:
    found = view({}, curves_of(x=2.0), (SimpleNamespace(field="x", meaning="place", unit="m", sigma=""),))
    found.nodes["spot"].result.topic = "error"
    found.nodes["spot"].takes = ("spot",)
    assert [each["points"][0][2] for each in snapshot(found, "spot")["curves"]] == [2.0, 2.0]


def test_a_node_without_results_has_the_rate_of_what_it_publishes() -> None:
    found = view({})
    curves = ResultCurves()
    for step in range(3):
        curves.add(NOW + 0.1 * step, {}, float("nan"))
    found.nodes["spot"].signals = (Signal("spot/cmd_vel", True, curves),)
    summary = snapshot(found, "none")["nodes"]["spot"]
    assert (summary["rate"], summary["latency"]) == (10.0, None)
    assert "valid" not in summary


@pytest.mark.parametrize(
    ("counts", "rate"),
    [
        (("30", "60", "92"), 31.0),
        (("0", "0", "0", "30", "60", "90", "120", "150"), 30.0),
        (("90", "0"), 0.0),
        (("30",), None),
    ],
)
def test_a_node_without_messages_has_the_rate_of_its_counter(
    counts: tuple[str, ...], rate: float | None
) -> None:
    reading = Reading("results")
    for second, count in enumerate(counts, 1):
        reading.add(float(second), count)
    assert rate_of_results({"spot: pictures": {"results": reading}}, len(counts)) == rate


def test_the_results_that_a_node_takes_are_curves_of_it_too() -> None:
    found = view({}, curves_of(x=2.0), (SimpleNamespace(field="x", meaning="place", unit="m", sigma=""),))
    found.nodes["spot"].result.topic = "error"
    found.nodes["servo"] = SimpleNamespace(**vars(found.nodes["spot"]) | {"curves": None, "takes": ("spot",)})
    assert shown(snapshot(found, "servo")) == {"spot/error x": ("place, received on spot/error", 2.0, "m", 1)}


def test_values_of_diagnostics_are_facts_and_curves_but_for_the_counters() -> None:
    found = view({})
    counters = {"images": "7", "dropped": "0", "valid": "5", "limited": "1", "lost": "2"}
    pairs = {**counters, "state": "FREE", "distance, m": "0.5 +- 0.1"}
    found.nodes["spot"].readings = {"spot: images": {key: read(key, text) for key, text in pairs.items()}}
    answer = snapshot(found, "spot")
    assert answer["facts"] == {"spot: images": {**counters, "state": "FREE", "distance": "0.5 +- 0.1 m"}}
    state, distance = answer["curves"]
    assert (state["field"], state["words"], state["value"]) == ("state", ["FREE"], 0.0)
    assert (distance["field"], distance["value"], distance["sigma"], distance["unit"]) == (
        "distance",
        0.5,
        0.1,
        "m",
    )


def test_a_fact_that_is_not_known_says_so() -> None:
    found = view({})
    pairs = {"temperature (degC)": "nan", "latency p50 (ms)": "NaN"}
    found.nodes["spot"].readings = {"spot": {key: read(key, text) for key, text in pairs.items()}}
    facts = snapshot(found, "spot")["facts"]["spot"]
    assert facts == {"temperature": "unknown", "latency p50": "unknown"}


def test_any_number_of_a_diagnostic_can_be_sent_as_json() -> None:
    found = view({})
    texts = {"a": "nan", "b": "1e999", "c": f"{sys.float_info.max!r} +- {sys.float_info.max!r}"}
    found.nodes["spot"].readings = {"spot": {key: read(key, text) for key, text in texts.items()}}
    json.dumps(snapshot(found, "spot"), allow_nan=False)


@pytest.mark.parametrize(
    ("received", "rate"),
    [
        ([(10.0, "5"), (12.0, "9")], 2.0),
        ([(10.1999, "5"), (10.2001, "6")], None),  # two that a busy dashboard got at once
        ([(10.19, "5"), (10.23, "8")], None),
        ([(10.19, "5"), (10.23, "8"), (12.19, "9")], 2.0),
        ([(10.0, "-1e308"), (12.0, "1e308")], None),
    ],
)
def test_a_counter_gives_a_rate_over_some_time(received: list[tuple[float, str]], rate: float | None) -> None:
    results = Reading("results")
    for now, text in received:
        results.add(now, text)
    assert rate_of_results({"spot": {"results": results}}, 12.5) == rate
