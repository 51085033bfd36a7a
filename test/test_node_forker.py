"""The process that forks the nodes of tests, and the end of who has started it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from testdata.timeouts import PATIENCE

PROGRAM = """
import os, sys
from testdata.running_nodes.node_forker import NodeForker

forker = NodeForker("signal")
process = forker.start(["-m", "waits_for_ever"], sys.stderr)
print(process.pid, flush=True)
sys.stdin.readline()
{ending}
"""


@pytest.mark.parametrize("ending", ["forker.close()", "os._exit(1)"])
def test_its_forks_end_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    (tmp_path / "waits_for_ever.py").write_text("import signal\nsignal.pause()\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    command = [sys.executable, "-c", PROGRAM.format(ending=ending)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        fork = os.pidfd_open(int(starter.stdout.readline()))
        try:
            assert select.select([fork], [], [], 0)[0] == []
            starter.communicate("end\n")
            assert select.select([fork], [], [], PATIENCE)[0] == [fork]
        finally:
            os.close(fork)
