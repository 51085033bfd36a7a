"""Verdicts of the benchmarks: what does not work is not measured as good."""

from __future__ import annotations

import ast
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from bench.areas import dashboard, pipelines, sticks, weights
from bench.areas.five_nodes import rate_row
from bench.running_graph import Turn
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import DeviceError
from edgetpu_driver.host.models.inference_result import InferenceResult

AREAS = sorted(Path(dashboard.__file__).parent.glob("*.py"))
TIMES = {"s", "ms", "us"}


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.stem)
def test_a_time_has_a_baseline_since_it_depends_on_the_machine(area: Path) -> None:
    rows = [
        node
        for node in ast.walk(ast.parse(area.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Row"
    ]
    times = [row for row in rows if any(getattr(value, "value", None) in TIMES for value in row.args)]
    assert [ast.unparse(row) for row in times if len(row.args) < 8] == []


@pytest.mark.parametrize(
    ("suite", "plain", "reached"), [(120, 100, True), (110, 100, False), (30, 0, True), (0, 30, False)]
)
def test_a_rate_is_to_be_higher_than_the_plain_graph_s(suite: float, plain: float, reached: bool) -> None:
    assert rate_row("a case", suite, plain).reached is reached


def test_a_suite_that_holds_no_rate_is_no_better_than_a_graph_that_holds_none() -> None:
    assert not rate_row("a case", 0, 0).reached


def test_browsers_that_take_no_pictures_are_a_missed_figure() -> None:
    turn = Turn(published=180, lost=0, p99=0.01, cpu_seconds=1.0)
    assert [row.metric for row in dashboard.figures([(turn, turn)], 0.0) if not row.reached] == [
        "pictures taken"
    ]
    assert all(row.reached for row in dashboard.figures([(turn, turn)], 10.0))


class StickOfTwoSeconds:
    """One whose requests took two seconds of its clock."""

    def __init__(self) -> None:
        self.clock = SimpleNamespace(monotonic=iter((0.0, 2.0)).__next__)


def test_only_results_count_as_throughput_of_sticks(monkeypatch: pytest.MonkeyPatch) -> None:
    host = SimpleNamespace(close=lambda: None)
    answers = [InferenceResult(), DeviceError("unplugged"), InferenceResult()]
    monkeypatch.setattr(sticks, "_host", lambda *_: ([StickOfTwoSeconds()], host))
    monkeypatch.setattr(sticks, "_run", lambda *_: answers)
    assert sticks._throughput(1, "") == 1.0


def test_only_results_count_as_throughput_of_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = SimpleNamespace(inputs=(), uploads=4)
    host = SimpleNamespace(load=lambda _: loaded, close=lambda: None)
    monkeypatch.setattr(pipelines, "compile_pipeline", lambda *_: {})
    monkeypatch.setattr(pipelines, "_host", lambda *_: ([StickOfTwoSeconds()], [], host))
    monkeypatch.setattr(pipelines, "_run", lambda *_: pipelines._REQUESTS - 10)
    assert pipelines._throughput(b"", 1) == (5.0, 4)


def test_a_model_that_fails_during_swaps_fails_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    class Engine(StickEngine):
        def run(self, inputs: Mapping[str, Any]) -> Any:
            if threading.current_thread() is not threading.main_thread():
                failed.set()
                raise DeviceError("no answer")
            return super().run(inputs)

        def set_weights(self, request: Any) -> Any:
            assert failed.wait(60.0)
            return super().set_weights(request)

    monkeypatch.setattr(weights, "StickEngine", Engine)
    monkeypatch.setattr(weights, "_SWAPS", 2)
    with pytest.raises(DeviceError, match="no answer"):
        weights._swaps_in_a_row()
