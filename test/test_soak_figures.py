"""The figures of the long run (`make soak`): what is missed there, and the growth of its processes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from soak.outcome_journal import Counted, Note, Outcome
from soak.process_samples import Sample, growths
from soak.report_figures import rows
from soak.run_evaluation import NODES, Findings, Images, Interval

RIGHT = [Counted(1.0, what, Outcome.RIGHT, 9) for what in ("invoke", *NODES)]


def findings(**changes) -> Findings:
    values = {
        "time": Interval(0.0, 60.0),
        "counted": RIGHT,
        "notes": [],
        "samples": [],
        "unexplained": [],
        "silences": [],
        "ends": [],
        "actions": 0,
        "restarts": 0,
    }
    return Findings(**{**values, **changes})


def missed(found: Findings) -> list[str]:
    return [row.metric for row in rows(found, "a case") if not row.reached]


def test_a_run_in_which_everything_is_right_reaches_all_figures():
    assert missed(findings()) == []


def test_one_wrong_one_lost_or_one_silent_node_is_a_missed_figure():
    wrong = [*RIGHT, Counted(1.0, "invoke", Outcome.WRONG, 1)]
    lost = Note(10.0, 40.0, Outcome.LOST, "invoke: no answer")
    assert missed(findings(counted=wrong)) == ["wrong"]
    assert missed(findings(unexplained=[lost])) == ["lost"]
    assert missed(findings(silences=["looming at 60 s"])) == ["nodes silent after chaos"]


def test_a_node_that_is_hardly_ever_valid_is_a_missed_figure():
    """However many results the others have."""
    spectra = Counted(2.0, "spectrum", Outcome.NOT_VALID, 2)
    assert missed(findings(counted=[*RIGHT, spectra])) == ["results that are valid, of the worst node"]


def test_a_node_of_which_no_result_could_be_judged_is_a_missed_figure():
    others = [each for each in RIGHT if each.what != "reservoir"]
    predictions = Counted(2.0, "reservoir", Outcome.NOT_JUDGED, 50)
    assert missed(findings(counted=[*others, predictions])) == ["nodes without a right result"]


def test_simulated_time_that_was_not_reached_is_a_missed_figure():
    assert missed(findings(images=Images(86_400, 86_400))) == []
    assert missed(findings(images=Images(86_300, 86_400))) == ["simulated time"]


def test_memory_is_compared_with_that_a_minute_after_each_start():
    samples = [
        Sample(t, t, "looming", 5, 150.0, 100.0 if t < 105 else 106.0, 10.0 + t, 9, 20)
        for t in np.arange(0.0, 172.0, 2.0)
    ]
    assert [g.percent for g in growths(samples, lambda each: each.own)] == [pytest.approx(6.0)]
    assert missed(findings(samples=samples)) == ["looming: memory against a minute after its start"]
    assert growths(samples[:-1], lambda each: each.own) == []
