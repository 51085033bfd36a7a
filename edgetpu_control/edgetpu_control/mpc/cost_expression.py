"""Costs as text: arithmetic on named quantities, parsed here and never evaluated as Python."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError

Array = NDArray[np.float64]
Values = Mapping[str, Array]
_Part = Callable[[Values], Any]

LONGEST = 1000
"""Largest number of characters of an expression."""
DEEPEST = 50
"""Largest number of nested operators and function calls."""

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "abs": (1, np.abs),
    "sin": (1, np.sin),
    "cos": (1, np.cos),
    "tan": (1, np.tan),
    "tanh": (1, np.tanh),
    "exp": (1, np.exp),
    "log": (1, np.log),
    "sqrt": (1, np.sqrt),
    "atan2": (2, np.arctan2),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "clip": (3, np.clip),
}
"""The functions by name, each with its number of arguments."""


class CostExpression:
    """A cost given by a formula such as "10 * (1 - cos(angle)) + 0.1 * speed ** 2 + (abs(x) > 2) * 100"."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        """names: of the quantities. InputError, with the faulty part, for anything but arithmetic on them."""
        if not text.strip() or len(text) > LONGEST:
            raise InputError(f"expected a cost of 1 to {LONGEST} characters; got {len(text)}")
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else "nested too deeply or not text"
            raise InputError(f"cost {text[:60]!r}: expected a formula; {reason}") from None
        self.text = text
        self._part = _Parser(text.strip(), frozenset(names)).part(tree.body, 0)

    @classmethod
    def of_rows(cls, text: str, names: Sequence[str]) -> Callable[[Array, Array], Array]:
        """Return the cost of rows of states and of actions, whose columns together have these names.

        InputError as for any formula, and for a name that occurs twice.
        """
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise InputError(f"expected different names of actions and states; got {', '.join(twice)} twice")
        formula = cls(text, names)

        def cost(states: Array, actions: Array) -> Array:
            return formula(dict(zip(names, np.concatenate([states, actions], axis=1).T, strict=True)))

        return cost

    def __call__(self, values: Values) -> Array:
        """Return the costs, float64 in the shape of the quantities; infinite where they are NaN."""
        with np.errstate(all="ignore"):
            costs = np.asarray(self._part(values), np.float64)
        shape = np.broadcast_shapes(*(np.shape(each) for each in values.values()))
        return np.broadcast_to(np.where(np.isnan(costs), np.inf, costs), shape)


class _Parser:
    def __init__(self, text: str, names: frozenset[str]) -> None:
        self._text = text
        self._names = names

    def part(self, node: ast.AST, depth: int) -> _Part:
        """Return the function that computes a node of the syntax tree."""
        if depth > DEEPEST:
            raise self._refusal(node, f"expected at most {DEEPEST} nested operations")
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return self._number(node)
        if isinstance(node, ast.Name):
            return self._quantity(node)
        if isinstance(node, ast.BinOp):
            return self._operation(node, node.op, [node.left, node.right], depth)
        if isinstance(node, ast.UnaryOp):
            return self._operation(node, node.op, [node.operand], depth)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._operation(node, node.ops[0], [node.left, *node.comparators], depth)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node, node.func.id, depth)
        raise self._refusal(node, "expected arithmetic")

    def _number(self, node: ast.Constant) -> _Part:
        try:
            number = np.float64(float(node.value))  # type: ignore[arg-type]
        except OverflowError:
            raise self._refusal(node, "expected a number of 64 bits") from None
        return lambda _values: number

    def _quantity(self, node: ast.Name) -> _Part:
        name = node.id
        if name not in self._names:
            raise self._refusal(node, f"expected a quantity of {', '.join(sorted(self._names))}")
        return lambda values: values[name]

    def _operation(self, node: ast.AST, kind: ast.AST, operands: Sequence[ast.AST], depth: int) -> _Part:
        operator = _OPERATORS.get(type(kind))
        if operator is None:
            raise self._refusal(node, "expected + - * / ** < <= > >=")
        return self._applied(operator, operands, depth)

    def _call(self, node: ast.Call, name: str, depth: int) -> _Part:
        if name not in FUNCTIONS:
            raise self._refusal(node, f"expected a function of {', '.join(FUNCTIONS)}")
        count, function = FUNCTIONS[name]
        if len(node.args) != count:
            raise self._refusal(node, f"expected {count} arguments of {name}")
        return self._applied(function, node.args, depth)

    def _applied(self, function: Callable[..., Any], operands: Sequence[ast.AST], depth: int) -> _Part:
        parts = [self.part(each, depth + 1) for each in operands]
        # As float64: comparisons give 0 and 1, and integers would refuse negative powers.
        return lambda values: function(*(np.asarray(part(values), np.float64) for part in parts))

    def _refusal(self, node: ast.AST, wanted: str) -> InputError:
        got = ast.get_source_segment(self._text, node) or self._text
        return InputError(f"cost {self._text[:60]!r}: {wanted}; got {got[:60]!r}")
