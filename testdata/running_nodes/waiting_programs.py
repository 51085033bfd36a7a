"""Programs in separate processes that print a line when they reach the point for which a test waits."""

from __future__ import annotations

import subprocess
import sys


class WaitingPrograms:
    """Starts Python programs, and kills the remaining ones at the end."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, program: str, *arguments: str, first_line: str) -> subprocess.Popen[str]:
        """Start a program and wait for its first line of output."""
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == f"{first_line}\n"
        return process

    def close(self) -> None:
        """Kill all programs that are still running."""
        for process in self._processes:
            process.kill()
            process.communicate()
