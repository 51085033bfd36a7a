"""The output of the demo on the terminal: progress, and the table at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from demo.report.results import NodeResults


class Terminal:
    """Progress on standard error, the table on standard output."""

    def __init__(self) -> None:
        self._progress = Console(stderr=True, highlight=False)
        self._result = Console(highlight=False, width=None if sys.stdout.isatty() else 100)

    def say(self, text: str) -> None:
        """Print one line of progress."""
        self._progress.print(f"[demo] {text}", markup=False, soft_wrap=True)

    def result(self, text: str) -> None:
        """Print one line of the result."""
        self._result.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Callable[[], None]]:
        """Give a function that counts one per call, up to `total`: a bar on a terminal, else ten lines."""
        if not self._progress.is_terminal:
            yield self._line_counter(what, total)
            return
        columns = (
            TextColumn("[demo] {task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._progress) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)

    def table(self, nodes: Mapping[str, NodeResults]) -> None:
        """Print the results, a line for each node."""
        table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
        table.add_column("node", no_wrap=True)
        for heading in ("images", "results", "dropped", "malformed", "valid", "p50 ms", "p99 ms"):
            table.add_column(heading, justify="right")
        for node in nodes.values():
            counts = (node.images, len(node.rows), node.dropped, node.malformed, node.valid)
            latencies = [f"{node.latency_ms(p):.1f}" if node.rows else "-" for p in (50, 99)]
            table.add_row(node.name, *map(str, counts), *latencies)
        self._result.print(table)

    def _line_counter(self, what: str, total: int) -> Callable[[], None]:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if done * 10 // total > (done - 1) * 10 // total:
                self.say(f"{what}: {done} of {total}")

        return advance
