"""Results are paired with their images, summed up, and compared with the truth."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

pytest.importorskip("rosbags", reason="needs rosbags")

from demo.bag.recorded_truth import Deviation, Judgement, Truth, load_truth
from demo.errors import BagError, UsageError
from demo.nodes import NODES, select
from demo.report.results import Collector, NodeResults, summary, write_json


def test_a_result_belongs_to_the_image_of_its_stamp() -> None:
    collector = Collector("spot_tracker", "/spot_tracker/servo_error")
    for image, stamp_ns in enumerate((1_000_000_000, 1_500_000_000)):
        assert collector.sent(stamp_ns, now=10.0 + image) == image
    assert collector.received(1_500_000_000, {"valid": True, "x": 0.5}, now=11.25)
    assert (collector.answered(0), collector.answered(1), collector.missing) == (False, True, 1)
    results = collector.results(malformed=1)
    assert results.rows == [{"stamp": 1.5, "stamp_ns": 1_500_000_000, "valid": True, "x": 0.5}]
    assert results.latencies == [0.25]
    assert (results.images, results.dropped, results.malformed, results.valid) == (2, 0, 1, 1)


def test_rows_are_in_the_order_of_the_images() -> None:
    collector = Collector("node", "/topic")
    for stamp in (1, 2, 3):
        collector.sent(stamp, now=0.0)
    for stamp in (3, 1, 2):
        collector.received(stamp, {"valid": True}, now=1.0)
    assert [row["stamp_ns"] for row in collector.results().rows] == [1, 2, 3]


def test_images_with_one_stamp_are_answered_oldest_first() -> None:
    collector = Collector("node", "/topic")
    collector.sent(5, now=0.0)
    collector.sent(5, now=1.0)
    assert collector.received(5, {"valid": True}, now=3.0)
    assert (collector.answered(0), collector.answered(1)) == (True, False)


def test_a_result_without_an_image_is_not_counted() -> None:
    collector = Collector("node", "/topic")
    assert not collector.received(5, {"valid": True}, now=0.0)
    collector.sent(5, now=0.0)
    assert collector.received(5, {"valid": True}, now=0.0)
    assert not collector.received(5, {"valid": True}, now=0.0)
    assert len(collector.results().rows) == 1


def test_the_summary_is_strict_json_of_the_promised_form(tmp_path: Path) -> None:
    row = {"stamp": 1.5, "stamp_ns": 1_500_000_000, "valid": False, "x": math.nan, "zones": [1.0, math.inf]}
    node = NodeResults("spot_tracker", "/spot_tracker/servo_error", 3, 1, [row, row], [0.001, 0.003])
    write_json(tmp_path / "summary.json", summary("cpu", Path("bag"), {"spot_tracker": node}))
    stored = {"stamp": 1.5, "stamp_ns": 1_500_000_000, "valid": False, "x": None, "zones": [1.0, None]}
    assert json.loads((tmp_path / "summary.json").read_text()) == {
        "backend": "cpu",
        "bag": "bag",
        "nodes": {
            "spot_tracker": {
                "topic": "/spot_tracker/servo_error",
                "images": 3,
                "results": 2,
                "dropped": 0,
                "malformed": 1,
                "latency_ms": {"p50": 2.0, "p99": 2.98},
                "rows": [stored, stored],
            }
        },
    }


def test_nodes_are_selected_by_name() -> None:
    assert select(" spot_tracker, spot_tracker ") == (NODES["spot_tracker"],)
    for names in ("spot_tracker,wheel", "", ","):
        with pytest.raises(UsageError, match=r"the demo knows .*spot_tracker"):
            select(names)


TRUTH = Truth({"stamp_ns": [1, 2, 3, 4], "valid": [True, True, False, True], "x": [0.0, 1.0, None, 2.0]})
ROWS = [
    {"stamp_ns": 1, "valid": True, "x": 0.3},
    {"stamp_ns": 2, "valid": True, "x": 0.6},
    {"stamp_ns": 3, "valid": False, "x": math.nan},
    {"stamp_ns": 4, "valid": False, "x": math.nan},
    {"stamp_ns": 9, "valid": True, "x": 0.0},
]


def test_deviation_counts_results_that_have_a_value_and_a_truth() -> None:
    assert TRUTH.deviation(ROWS, "x") == Deviation("x", pytest.approx(math.sqrt(0.125)), 0.4, 2)
    assert TRUTH.deviation(ROWS, "y") is None


def test_a_result_is_right_when_valid_as_it_should_be_and_within_tolerance() -> None:
    assert TRUTH.judge(ROWS[:1], {"x": 0.31}) == Judgement(right=1, compared=1)
    assert TRUTH.judge(ROWS[:1], {"x": 0.29}) == Judgement(right=0, compared=1)
    assert TRUTH.judge(ROWS[2:3], {"x": 0.1}) == Judgement(right=1, compared=1)
    assert TRUTH.judge(ROWS[3:4], {"x": 0.1}) == Judgement(right=0, compared=1)


def test_without_a_truth_results_are_not_compared() -> None:
    assert TRUTH.judge(ROWS[4:], {"x": 0.1}) == Judgement(right=0, compared=0)


def test_where_validity_is_not_known_only_valid_results_are_compared() -> None:
    truth = Truth({"stamp_ns": [1, 4], "valid": [None, None], "x": [0.3, 0.3]})
    assert truth.judge(ROWS, {"x": 0.1}) == Judgement(right=1, compared=1)


def test_a_truth_file_that_is_malformed_is_said_to_be(tmp_path: Path) -> None:
    assert load_truth(tmp_path) == {}
    (tmp_path / "truth.json").write_text('{"spot_tracker": {"x": [1]}}')
    with pytest.raises(BagError, match=r"truth\.json is malformed"):
        load_truth(tmp_path)
