"""Programs in separate processes, which print a line when they reach the point that a test waits for."""

from __future__ import annotations

import subprocess
import sys


class WaitingPrograms:
    """Starts Python programs, and kills those that are left."""

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
        """End all of them."""
        for process in self._processes:
            process.kill()
            process.communicate()
