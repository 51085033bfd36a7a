"""Decides when a launch file stops restarting the process of a node."""

from __future__ import annotations

EXIT_USAGE = 2
"""Exit status, as of argparse, of a process whose arguments or parameter file cannot be read."""

QUICK = 30.0
"""A process that ends sooner after its start, s, has not worked; a start takes a few seconds."""

MOST_QUICK_FAILURES = 5
"""Starts in a row that may fail quickly before restarting stops. Chosen: the log stays readable."""


class RespawnLimit:
    """Decides for one process of a launch file whether to restart it.

    A process that crashed, was killed or was stopped is restarted. One that itself reports a failure (a
    positive exit status) MOST_QUICK_FAILURES times in a row within QUICK seconds of its start is not
    restarted, nor is one that cannot read its arguments, because the same would happen again.
    """

    def __init__(self) -> None:
        self._quick_failures = 0

    def refusal(self, status: int, duration: float) -> str:
        """Return why the process is not restarted, or an empty string.

        status: the exit status, negative for a signal. duration: from its start to its end, s.
        """
        failed_quickly = status > 0 and duration < QUICK
        self._quick_failures = self._quick_failures + 1 if failed_quickly else 0
        if status == EXIT_USAGE:
            return "its arguments are wrong"
        if self._quick_failures >= MOST_QUICK_FAILURES:
            return f"it failed {MOST_QUICK_FAILURES} times in a row within {QUICK:g} s of its start"
        return ""
