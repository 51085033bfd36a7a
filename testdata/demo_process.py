"""The demo in a separate process, forked from a process that has imported it."""

from __future__ import annotations

import tempfile
from types import TracebackType
from typing import IO

from testdata.running_nodes.node_forker import NodeForker, content

LONGEST_RUN = 400.0
"""Time limit of a run, s; some hundred images take a tenth of it on an idle machine."""


class DemoProcess:
    """`python -m demo` with these arguments; a context manager that ends it."""

    def __init__(self, forker: NodeForker, *arguments: str) -> None:
        self._output, self._errors = _file(), _file()
        self._process = forker.start(["-m", "demo", *arguments], self._output, self._errors)

    def __enter__(self) -> DemoProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()

    @property
    def output(self) -> str:
        """What the demo has printed on standard output."""
        return content(self._output)

    @property
    def errors(self) -> str:
        """What the demo has printed on standard error."""
        return content(self._errors)

    @property
    def running(self) -> bool:
        """Whether the process is still running."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Wait until the process ends; return its exit status."""
        return self._process.wait(LONGEST_RUN)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)


def _file() -> IO[str]:
    return tempfile.TemporaryFile("w+")
