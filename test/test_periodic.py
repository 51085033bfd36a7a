"""Actions that a process repeats."""

from __future__ import annotations

import pytest

from edgetpu_driver.node_kit.process import periodic


def test_an_action_is_run_each_time_its_period_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, runs = [100.0], []
    monkeypatch.setattr(periodic.time, "monotonic", lambda: clock[-1])
    action = periodic.Periodic(10.0, lambda: runs.append(clock[-1]))
    for time in (109.9, 110.0, 119.9, 125.0, 134.9, 135.0):
        clock.append(time)
        action.run_when_due()
    assert runs == [110.0, 125.0, 135.0]
