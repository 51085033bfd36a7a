"""Formats results of subcommands as JSON and tables, and shows progress of long work."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
"""Escapes of control characters, by their code."""
_SECONDS_BETWEEN_LINES = 1.0
"""Seconds between two lines of progress, so that they do not flood a log."""


@dataclass(frozen=True)
class Answer:
    """The outcome of a subcommand in both forms."""

    value: Any
    """For --json: mappings, sequences, numbers, text, enumerations (by name), paths and arrays."""
    text: str
    exit_code: int = 0


def printable(text: str) -> str:
    """Escape control characters, with which names in a model could manipulate the terminal."""
    return text.translate(_ESCAPES)


def say(line: str) -> None:
    """Write a line to standard error; errors in writing are ignored."""
    with suppress(OSError):
        print(f"edgetpu: {line}", file=sys.stderr, flush=True)


def to_json(value: Any, *, ascii_only: bool = False) -> str:
    """Strict JSON: NaN and infinities become null; with `ascii_only`, other characters are escaped."""
    return json.dumps(_plain(value), indent=2, allow_nan=False, ensure_ascii=ascii_only)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy, which is not loaded for this
        return _plain(value.tolist())
    return [_plain(item) for item in value]


def table(rows: Sequence[Sequence[object]], headings: Sequence[str]) -> str:
    """Format a table: columns of minimum width, numbers right-aligned."""
    cells = [list(headings), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [all(isinstance(cell, int | float) for cell in column) for column in zip(*rows, strict=True)]
    numeric = numeric or [False] * len(widths)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    )


def pairs(values: Mapping[str, object], indent: int = 0) -> str:
    """One line for each name and value, the values aligned."""
    width = max(map(len, values))
    return "\n".join(f"{' ' * indent}{name.ljust(width)}  {value}" for name, value in values.items())


class Progress:
    """Progress of long work on standard error; silent for short work."""

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Callable[[], None]]:
        """Count to total, one per call: a bar on a terminal if rich is installed, otherwise lines."""
        bar = _rich_bar() if sys.stderr.isatty() else None
        if bar is None:
            yield _line_counter(what, total)
            return
        with bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)


def _rich_bar() -> Any:
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    return Bar(console=Console(stderr=True), transient=True)


def _line_counter(what: str, total: int) -> Callable[[], None]:
    done = 0
    last_line = time.monotonic()

    def advance() -> None:
        nonlocal done, last_line
        done += 1
        now = time.monotonic()
        if now - last_line >= _SECONDS_BETWEEN_LINES:
            last_line = now
            say(f"{what}: {done} of {total}")

    return advance
