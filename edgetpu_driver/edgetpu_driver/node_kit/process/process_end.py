"""Ends a process of nodes in time, and reports its error first, even if the middleware hangs meanwhile.

Fast DDS can deadlock while a node is destroyed and other participants join or leave the graph (Fast-DDS
issues 6193 and 6513). rclpy holds the interpreter's lock during that, so no thread of Python could end the
process; the thread of faulthandler needs no lock.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

EXIT_FAILURE = 1
"""Exit status of a process that could not end by itself."""

GRACE = 0.5
"""Seconds after a limit in which Python can still end the process, with a line that says why."""

INTERPRETER_EXIT = 10.0
"""Seconds for Python to exit after the nodes are destroyed, on a busy machine; it usually takes 0.2."""

STARTER_VARIABLE = "EDGETPU_ENDS_WITH"
"""Environment variable with the number of the process with whose end this one is to stop, its starter."""

_PR_SET_PDEATHSIG = 1
"""Option of prctl(2) in linux/prctl.h."""

_nowhere = open(os.devnull, "w")  # noqa: SIM115 - faulthandler needs it as long as the process lives
_giving_up = threading.Lock()
_report_failed_start: Callable[[Exception], None] | None = None


def end_within(seconds: float) -> None:
    """End the process with status 1 if it still runs after this time."""
    timer = threading.Timer(seconds, _give_up)
    timer.daemon = True
    timer.start()
    _end_silently(seconds + GRACE)


def starter_environment() -> dict[str, str]:
    """The environment for a process that is to stop when this one ends, see `stop_with_starter`."""
    return os.environ | {STARTER_VARIABLE: str(os.getpid())}


def stop_with_starter() -> None:
    """Get SIGINT when the process that STARTER_VARIABLE names ends, for whatever reason.

    More exactly: when the thread that has started this process ends.
    """
    starter = os.environ.pop(STARTER_VARIABLE, "")
    if not starter or sys.platform != "linux":
        return
    import ctypes  # takes a while, and few processes need it

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    if str(os.getppid()) != starter:  # the starter has ended already
        os.kill(os.getpid(), signal.SIGINT)


def exit_in_time() -> None:
    """Replace the limit of `end_within` by INTERPRETER_EXIT, once the nodes are destroyed."""
    _end_silently(INTERPRETER_EXIT)


def _end_silently(seconds: float) -> None:
    """End the process after this time unless this is called again before then."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=_nowhere)


@contextlib.contextmanager
def reporting_failed_starts(report: Callable[[Exception], None]) -> Iterator[None]:
    """Inside the block, pass the error of a node that fails to start to `report`, before it is destroyed."""
    global _report_failed_start
    _report_failed_start = report
    try:
        yield
    finally:
        _report_failed_start = None


def report_failed_start(error: BaseException) -> None:
    """Notify the process, if it asked for that, that a node failed to start and is about to be destroyed."""
    if _report_failed_start is not None and isinstance(error, Exception):
        _report_failed_start(error)


def say(line: str) -> None:
    """Write a line to standard error; does nothing if it is closed or its disk is full."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _give_up() -> None:
    _giving_up.acquire()  # two limits may pass at once: one of them reports it and ends the process
    say("did not stop in time; ended without closing what was open")
    os._exit(EXIT_FAILURE)
