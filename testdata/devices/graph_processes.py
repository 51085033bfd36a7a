"""Processes of isolated graphs that hang, or end."""

from __future__ import annotations

import os
import select
import signal
from dataclasses import replace

from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.litert_process_restart import IsolatedGraph
from testdata.timeouts import PATIENCE

PATIENT = ProcessLimits(load_seconds=PATIENCE, run_seconds=PATIENCE)
"""Limits of a process that has to answer, on a busy machine, too."""


def hang(graph: IsolatedGraph) -> None:
    """Stop the process of a PATIENT graph, and limit its next run to 0.2 s; a process after it is patient."""
    process = graph._process
    assert process is not None
    assert process._limits == PATIENT
    process._limits = replace(PATIENT, run_seconds=0.2)
    os.kill(process.pid, signal.SIGSTOP)


def ends(pid: int) -> bool:
    """Whether a process ends within PATIENCE."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], PATIENCE)[0])
    finally:
        os.close(descriptor)
