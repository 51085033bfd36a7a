"""States and actions of an MPC problem as text."""

from __future__ import annotations

import pytest

from edgetpu_control.mpc.problem_description import States, parse_actions, parse_states
from edgetpu_driver.errors import InputError


def test_states_have_names_and_some_are_angles() -> None:
    assert parse_states("x; v; angle circular") == States(("x", "v", "angle"), (2,))


def test_actions_have_names_and_ranges() -> None:
    actions = parse_actions("force -10 10 5; turn -1 2 0.5")
    assert actions.names == ("force", "turn")
    assert actions.low.tolist() == [-10, -1]
    assert actions.high.tolist() == [10, 2]
    assert actions.deviation.tolist() == [5, 0.5]


@pytest.mark.parametrize("text", ["", "x;", "x y", "x circular y", "1x", "x; x", "sin", "é"])
def test_other_states_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="states: expected"):
        parse_states(text)


@pytest.mark.parametrize(
    "text", ["", "force", "force -1 1", "force a b c", "f -1 1 1; g", "f nan 1 1", "1 -1 1 1"]
)
def test_other_actions_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="actions: expected"):
        parse_actions(text)
