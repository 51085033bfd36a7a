"""Costs as text: what they compute, and everything that they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_control.mpc.cost_expression import DEEPEST, CostExpression
from edgetpu_driver.errors import InputError

VALUES = {"x": np.array([0.0, 2.0]), "angle": np.array([0.0, np.pi])}


@pytest.mark.parametrize(
    ("text", "costs"),
    [
        ("1 - cos(angle)", [0, 2]),
        ("x ** 2 + 3", [3, 7]),
        ("-x / 4", [0, -0.5]),
        ("100 * (abs(x) > 1)", [0, 100]),
        ("max(x, 1) + min(x, 1)", [1, 3]),
        ("clip(x, -1, 1)", [0, 1]),
        ("2", [2, 2]),
        ("2 ** -1", [0.5, 0.5]),
    ],
)
def test_computes_arithmetic(text: str, costs: list[float]) -> None:
    assert CostExpression(text, list(VALUES))(VALUES) == pytest.approx(costs)


@pytest.mark.parametrize("text", ["sqrt(-1 - x)", "0 / x", "log(x - 2)"])
def test_what_is_no_number_costs_infinitely_much(text: str) -> None:
    costs = CostExpression(text, list(VALUES))(VALUES)
    assert not np.any(np.isnan(costs))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "x.real",
        "x[0]",
        "[x for x in (1, 2)]",
        "lambda: 1",
        "'text'",
        "True",
        "1j",
        "x if x else 1",
        "x and 1",
        "x == 1",
        "1 < x < 2",
        "x // 2",
        "x @ x",
        "~x",
        "f'{x}'",
        "(y := 2)",
        "max(x)",
        "max(x, key=1)",
        "open(x)",
        "y",
        "max",
        "x +",
        "x; x",
        "",
        " ",
        "1e400 ** " * 200 + "1",
        "(" * 5000 + "x" + ")" * 5000,
        "9" * 900,
        "x\0",
    ],
)
def test_refuses_anything_else(text: str) -> None:
    with pytest.raises(InputError, match="cost"):
        CostExpression(text, list(VALUES))


def test_refuses_operations_nested_too_deeply() -> None:
    with pytest.raises(InputError, match=f"expected at most {DEEPEST} nested operations"):
        CostExpression("-" * (DEEPEST + 1) + "x", list(VALUES))


def test_says_which_quantities_there_are() -> None:
    with pytest.raises(InputError, match="expected a quantity of angle, x; got 'speed'"):
        CostExpression("speed ** 2", list(VALUES))


def test_the_columns_of_rows_are_the_quantities_in_order() -> None:
    cost = CostExpression.of_rows("x + 10 * speed + 100 * force", ["x", "speed", "force"])
    costs = cost(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0], [6.0]]))
    assert costs.tolist() == [521.0, 643.0]


def test_a_state_and_an_action_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="expected different names of actions and states; got turn twice"):
        CostExpression.of_rows("turn ** 2", ["x", "turn", "turn"])
