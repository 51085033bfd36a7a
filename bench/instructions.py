"""Counts instructions with Linux `perf`, where it is installed and the processor supports it.

Unlike times, these counts hardly depend on other load of the machine. Many virtual machines have no counter.
"""

from __future__ import annotations

import functools
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_EVENT = "instructions"
_EVENT_FIELD, _VALUE_FIELD = 2, 0
"""Columns of the output of `perf stat -x ,`."""


_ANSWER_TIMEOUT = 10.0  # s


class Counter:
    """The result of a count; `value` is None before the count has ended, or if nothing was counted."""

    value: float | None = None


@functools.cache
def is_counted() -> bool:
    """Whether `perf stat` counts instructions here."""
    try:
        result = subprocess.run(
            ["perf", "stat", "-x", ",", "-e", _EVENT, "true"], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    return result.returncode == 0 and read_count(result.stderr) is not None


@contextmanager
def counting(pids: Sequence[int]) -> Iterator[Counter]:
    """Count the instructions of all threads of some processes while the block runs."""
    counter = Counter()
    if not is_counted():
        yield counter
        return
    with tempfile.TemporaryDirectory() as folder, _Perf(_EVENT, pids, Path(folder)) as perf:
        perf.command("enable")
        yield counter
        perf.command("disable")
        counter.value = read_count(perf.end())


def instructions_of_call(work: Callable[[], object], calls: int) -> float | None:
    """Millions of instructions per call, the mean of `calls` calls; None where they cannot be counted."""
    with counting([os.getpid()]) as counter:
        for _ in range(calls if is_counted() else 0):
            work()
    return None if counter.value is None else 1e-6 * counter.value / calls


def read_count(output: str, event: str = _EVENT) -> float | None:
    """The count of an event in the output of `perf stat -x ,`; None if it was not counted."""
    for line in output.splitlines():
        fields = line.split(",")
        if len(fields) > _EVENT_FIELD and fields[_EVENT_FIELD].startswith(event):
            with suppress(ValueError):  # "<not supported>", "<not counted>"
                return float(fields[_VALUE_FIELD])
    return None


class _Perf:
    """A `perf stat` of running processes that starts and stops counting on command; a context manager."""

    def __init__(self, event: str, pids: Sequence[int], folder: Path) -> None:
        self._output = folder / "counts"
        control, answers = folder / "control", folder / "answers"
        os.mkfifo(control)
        os.mkfifo(answers)
        # Opened for reading and writing, so that opening does not wait for the other end of the pipe.
        self._control, self._answers = (os.open(path, os.O_RDWR) for path in (control, answers))
        processes = ",".join(map(str, pids))
        command = ["perf", "stat", "-x", ",", "-e", event, "-p", processes, "-o", str(self._output)]
        command += ["--delay", "-1", "--control", f"fifo:{control},{answers}"]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def __enter__(self) -> _Perf:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()
        os.close(self._control)
        os.close(self._answers)

    def command(self, command: str) -> None:
        """Send a command and wait until perf has carried it out; TimeoutError if it does not."""
        os.write(self._control, f"{command}\n".encode())
        if not select.select([self._answers], [], [], _ANSWER_TIMEOUT)[0]:
            raise TimeoutError(f"perf stat does not answer '{command}'")
        os.read(self._answers, 64)

    def end(self) -> str:
        """End perf and return its output."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        return self._output.read_text() if self._output.is_file() else ""
