"""Worlds of batch MPC: when a task is done, its figures, and a few periods on the virtual stick."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from drive.scenario import Outcome
from drive.scenarios import samples_scenario
from drive.scenarios.samples_scenario import SwingUpSamples
from drive.scenarios.slalom_scenario import Slalom, line, missed
from drive.scenarios.swing_up_scenario import SwingUp


def outcome(**values: float) -> Outcome:
    hurried = {"done_hurried": 1.0, "cost_hurried": 120.0, "missing": 4.0, "cut": 20.0}
    return Outcome(0, {"late": 0.0, "device_ms": 10.0} | hurried | values, ((0.0, 0.5, 1.0),))


def test_success_and_cost_stand_beside_those_in_float64() -> None:
    outcomes = [
        outcome(done=1, done_float64=1, cost=100, cost_float64=90),
        outcome(done=0, done_float64=1, cost=200, cost_float64=210),
    ]
    rows = {row.metric: row for row in SwingUp().rows_of_comparison(outcomes)}
    done, cost = rows["done"], rows["cost"]
    assert (done.value, done.bound, done.reach, done.reached) == (50, 100, 95, False)
    assert (cost.value, cost.bound, cost.reached) == (150, 150, True)
    assert rows["decisions a second, simulated device"].value == pytest.approx(100)


def test_the_loss_by_a_deadline_stands_beside_float64() -> None:
    outcomes = [outcome(done=1, done_float64=1, cost=100, cost_float64=90)]
    rows = {row.metric: row for row in SwingUp.rows_of_deadline(outcomes, "in time")}
    assert (rows["done"].value, rows["done"].bound) == (100, 100)
    assert (rows["cost"].value, rows["cost"].bound) == (120, 90)
    assert rows["decisions missing"].value == 4
    assert rows["decisions with fewer iterations"].value == 20


def test_a_scale_for_each_row_costs_the_model_less_than_one_for_each_layer() -> None:
    pytest.importorskip(
        "mujoco", reason="needs MuJoCo on PYTHONPATH: tools/run.sh tools/install_extra.sh drive"
    )
    by_row, by_layer, copied = SwingUp().rows_of_model()
    assert (by_row.metric, by_layer.metric) == (
        "error, a scale for each row",
        "error, a scale for each layer",
    )
    assert 0 < copied.value < by_row.value < by_layer.value < 5


def test_each_plan_has_rows_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(
        "mujoco", reason="needs MuJoCo on PYTHONPATH: tools/run.sh tools/install_extra.sh drive"
    )
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    monkeypatch.setattr(SwingUp, "periods", 3)
    monkeypatch.setattr(samples_scenario, "SAMPLES", (8, 64))
    scenario = SwingUpSamples()
    rows = scenario.rows([scenario.run_alone(0)])
    deadline = "within a period of the device's time"
    paused = [row for row in rows if deadline not in row.case]
    plans = [
        f"cart-pole, {method} on the stick, {count} sequences of 25, 2 times, 1 worlds"
        for method in ("mppi", "cem")
        for count in (8, 64)
    ]
    assert list(dict.fromkeys(row.case for row in paused)) == plans
    costs = {row.case: row for row in rows if row.metric == "cost"}
    for plan in plans:
        # 14 ms of a period of 40 ms: the deadline changes nothing.
        assert costs[f"{plan}, {deadline}"].value == costs[plan].value
        assert costs[plan].bound is not None
        assert costs[plan].value == pytest.approx(costs[plan].bound, rel=0.05)


def poles(*angles: float) -> list[np.ndarray]:
    return [np.array([0.0, 0.0, angle, 0.0]) for angle in angles]


def test_a_pole_is_up_when_it_stays_so_for_a_second() -> None:
    assert SwingUp().succeeded(poles(math.pi, *[0.1] * 25))
    assert SwingUp().succeeded(poles(*[2 * math.pi] * 25))
    assert not SwingUp().succeeded(poles(*[0.1] * 24, 0.4))
    assert not SwingUp().succeeded(poles(math.pi, *[0.1] * 24))


def path(*places: tuple[float, float]) -> list[np.ndarray]:
    return [np.array([x, y, 0.0, 0.0, 0.0]) for x, y in places]


class TestASlalom:
    def test_is_done_when_each_pole_was_passed_on_its_side(self) -> None:
        assert Slalom().succeeded(path((1.5, 0.5), (3.0, -0.5), (4.5, 0.5), (6.0, 0.0)))

    def test_is_not_done_on_the_wrong_side(self) -> None:
        assert not Slalom().succeeded(path((1.5, 0.5), (3.0, 0.5), (4.5, 0.5), (6.0, 0.0)))

    def test_is_not_done_when_a_pole_was_touched(self) -> None:
        assert not Slalom().succeeded(path((1.5, 0.29), (3.0, -0.5), (4.5, 0.5), (6.0, 0.0)))

    def test_is_not_done_before_its_end(self) -> None:
        assert not Slalom().succeeded(path((1.5, 0.5), (3.0, -0.5), (4.5, 0.5), (5.9, 0.0)))

    def test_costs_what_is_missing_beside_a_pole(self) -> None:
        states = np.array(path((1.5, 0.1), (1.5, 0.4), (3.2, 0.0), (2.25, 0.0)))
        assert missed(states) == pytest.approx([0.3, 0.0, 0.2, 0.0])

    def test_has_a_line_past_each_pole_on_its_side(self) -> None:
        assert line(np.array([1.5, 3.0, 4.5])) == pytest.approx([0.6, -0.6, 0.6])


@pytest.mark.parametrize("scenario", [SwingUp, Slalom])
def test_the_stick_costs_what_float64_does(
    scenario: type[SwingUp] | type[Slalom], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(
        "mujoco", reason="needs MuJoCo on PYTHONPATH: tools/run.sh tools/install_extra.sh drive"
    )
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    monkeypatch.setattr(scenario, "periods", 10)
    figures = scenario().run_alone(0).values
    assert figures["cost"] == pytest.approx(figures["cost_float64"], rel=0.05)
    assert figures["late"] == 0
    assert 10 < figures["device_ms"] < 20


def test_a_decision_that_is_not_there_in_a_period_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(
        "mujoco", reason="needs MuJoCo on PYTHONPATH: tools/run.sh tools/install_extra.sh drive"
    )
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    monkeypatch.setattr(SwingUp, "periods", 5)
    monkeypatch.setattr(SwingUp, "period", 1e-9)
    scenario = SwingUp()
    figures = scenario.run_alone(0).values
    assert (figures["missing"], figures["cut"]) == (100, 100)
    system, idle = scenario.system(0), np.zeros(1)
    costs = [scenario.cost(system.act(idle)[np.newaxis], idle[np.newaxis])[0] for _ in range(5)]
    assert figures["cost_hurried"] == pytest.approx(sum(costs))
