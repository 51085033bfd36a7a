"""Every numeric constant of the package says what it is and where its value comes from."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import edgetpu_perception

PACKAGE = Path(edgetpu_perception.__path__[0])
SOURCE = re.compile(r"\b(Derived|Given|Rows|Uncritical|Index|[Ll]imits the time|taste)\b")
CALLS = re.compile(r"(np\.(array|float32|uint8|outer|arange)|math\.(radians|log)|precision_of|tuple|range)")


def is_numeric(value: ast.expr) -> bool:
    """Whether an expression is made of numbers, containers of numbers, and calls of CALLS on these."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    numbers = [node for node in ast.walk(value) if isinstance(node, ast.Constant)]
    return (
        bool(numbers)
        and "nan" not in ast.unparse(value)
        and all(type(number.value) in (int, float) for number in numbers)
        and all(CALLS.fullmatch(ast.unparse(call.func)) for call in calls)
    )


def constants(source: str) -> dict[str, str]:
    """Docstring, or comment on the line or on the line above, of each numeric constant of a module."""
    lines = source.splitlines()
    statements = ast.parse(source).body
    found = {}
    for statement, following in zip(statements, [*statements[1:], None], strict=True):
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            continue
        if not is_numeric(statement.value):
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = str(following.value.value)
        else:
            above = lines[statement.lineno - 2].strip()
            text = above if above.startswith("#") else lines[statement.lineno - 1].partition("#")[2]
        found[ast.unparse(target)] = text
    return found


MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("module", MODULES)
def test_constants_are_documented(module: str) -> None:
    found = constants((PACKAGE / module).read_text())
    assert [name for name, text in found.items() if not text] == []


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith("nodes/")])
def test_constants_of_algorithms_name_their_source(module: str) -> None:
    found = constants((PACKAGE / module).read_text())
    assert [name for name, text in found.items() if not SOURCE.search(text)] == []


def test_a_constant_without_text_is_noticed() -> None:
    source = '''
A = 1
"""Given by B."""
B = (1.0, -2)
C = np.array([1])  # text
# above
D = 3
E = "1"
F = len("ab")
'''
    assert constants(source) == {"A": "Given by B.", "B": "", "C": " text", "D": "# above"}
