"""How figures of a few scenes are compared with those on record, as `make regressions` does."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from accuracy import __main__ as command
from accuracy.recorded_figures import read_record, regressions
from measured_figures.row import Row

RMSE = Row("spot", "discs", "rmse", 0.05, "px", 0.08, "lower")
SHARE = Row("spot", "discs", "valid", 97.0, "%", 95.0, "higher")
RECORD = {"discs, rmse": 0.05, "discs, valid": 97.0}


class Spot:
    """An area with one figure, worse than on record."""

    def measure(self, engine: str, quick: bool) -> list[Row]:
        assert (engine, quick) == ("cpu", True)
        return [replace(RMSE, value=0.07)]

    def plots(self, _engine: str) -> dict[str, object]:
        return {}


def test_a_comparison_names_what_is_worse_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "accuracy.areas.spot", Spot())
    monkeypatch.setattr(command, "read_record", lambda: {"spot": {"discs, rmse": 0.05}})
    assert command.main(["spot", "--quick", "--compare", "--output", str(tmp_path)]) == 1
    assert "worse: spot: discs, rmse: 0.07 px, 0.05 on record" in capsys.readouterr().err
    monkeypatch.setattr(command, "read_record", lambda: {"spot": {"discs, rmse": 0.068}})
    assert command.main(["spot", "--quick", "--compare", "--output", str(tmp_path)]) == 0


@pytest.mark.parametrize("area", command.AREAS)
def test_every_area_has_figures_on_record(area: str) -> None:
    assert read_record()[area]


def test_figures_within_the_margins_and_better_ones_pass() -> None:
    assert regressions([replace(RMSE, value=0.0549), replace(SHARE, value=94.1)], RECORD) == []
    assert regressions([replace(RMSE, value=0.01), replace(SHARE, value=100.0)], RECORD) == []


def test_figures_beyond_the_margins_are_named() -> None:
    assert regressions([replace(RMSE, value=0.056), replace(SHARE, value=93.9)], RECORD) == [
        "discs, rmse: 0.056 px, 0.05 on record",
        "discs, valid: 93.9 %, 97 on record",
    ]


def test_a_figure_near_zero_is_compared_with_the_requirement() -> None:
    assert regressions([replace(RMSE, value=0.0049)], {"discs, rmse": 0.001}) == []


def test_figures_without_a_goal_do_not_count() -> None:
    assert regressions([replace(RMSE, value=9.0, reach=None)], {}) == []


def test_figures_on_one_side_only_are_named() -> None:
    assert regressions([RMSE, replace(SHARE, metric="lost")], RECORD) == [
        "discs, lost: not on record",
        "discs, valid: not measured any more",
    ]
