"""Accuracy of every algorithm on a few scenes, compared with accuracy/recorded_figures.json.

After a change that is meant, `tools/run.sh python3 -m accuracy --quick --record` records the new figures.
"""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest

from accuracy.__main__ import AREAS
from accuracy.recorded_figures import read_record, regressions
from measured_figures.row import Row

RMSE = Row("spot", "discs", "rmse", 0.05, "px", 0.08, "lower")
SHARE = Row("spot", "discs", "valid", 97.0, "%", 95.0, "higher")
RECORD = {"discs, rmse": 0.05, "discs, valid": 97.0}


@pytest.mark.timeout(600)  # seconds of computing, which a busy machine makes minutes
@pytest.mark.parametrize("area", AREAS)
def test_no_figure_is_worse_than_on_record(area: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    pytest.importorskip("skimage", reason="needs scikit-image for photographs")
    rows = importlib.import_module(f"accuracy.{area}").measure("cpu", quick=True)
    assert regressions(rows, read_record()[area]) == []


def test_figures_within_the_margins_and_better_ones_pass() -> None:
    assert regressions([replace(RMSE, value=0.0549), replace(SHARE, value=94.1)], RECORD) == []
    assert regressions([replace(RMSE, value=0.01), replace(SHARE, value=100.0)], RECORD) == []


def test_figures_beyond_the_margins_are_named() -> None:
    assert regressions([replace(RMSE, value=0.056), replace(SHARE, value=93.9)], RECORD) == [
        "discs, rmse: 0.056 px, 0.05 on record",
        "discs, valid: 93.9 %, 97 on record",
    ]


def test_a_figure_near_zero_is_measured_by_what_is_asked() -> None:
    assert regressions([replace(RMSE, value=0.0049)], {"discs, rmse": 0.001}) == []


def test_figures_without_a_goal_do_not_count() -> None:
    assert regressions([replace(RMSE, value=9.0, reach=None)], {}) == []


def test_figures_on_one_side_only_are_named() -> None:
    assert regressions([RMSE, replace(SHARE, metric="lost")], RECORD) == [
        "discs, lost: not on record",
        "discs, valid: not measured any more",
    ]
