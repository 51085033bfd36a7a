"""How the driver ends when its device hangs or its log cannot be written: in time, with reason and status."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from soak.processes import children
from testdata.running_nodes.waiting_programs import WaitingPrograms
from testdata.timeouts import PATIENCE

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

PROGRAM = """
import glob, os, signal, sys, threading
import numpy as np
from rclpy.parameter import Parameter
from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.host.host_status import State
from edgetpu_driver.node_kit.process import process_end, spin
from edgetpu_driver.nodes.driver_node import DriverNode

PATIENCE = 60.0
spin.STOP_DEADLINE = 0.3
process_end.GRACE = PATIENCE  # a process that stands still meanwhile also says why it ends
where, directory = sys.argv[1:3]

def reach(place):
    if place == where:
        print("hangs", flush=True)
        if place != "child":
            threading.Event().wait()

def children():
    paths = glob.glob("/proc/self/task/*/children")
    return [int(child) for path in paths for child in open(path).read().split()]

class Hanging(CpuBackend):
    def parse(self, path, data):
        reach("parse")
        return super().parse(path, data)

    def attach(self, model):
        reach("attach")
        engine = super().attach(model)
        run = engine.run
        engine.run = lambda inputs: (reach("run"), run(inputs))[1]
        return engine

class Driver(DriverNode):
    def make_backends(self):
        return [Hanging()]

    def ask(self):
        host = self.active_host()
        if host.state is State.READY:
            stopped = children() if where == "child" else []
            for child in stopped:
                os.kill(child, signal.SIGSTOP)
            host.submit_invoke("sums", {"numbers": np.zeros((1, 4), np.int8)}, lambda _: None)
            if stopped:
                reach("child")

def make():
    values = {"backend": "cpu", "model_dirs": [directory], "models": ["sums"]}
    values["litert_run_timeout"] = PATIENCE  # the driver would replace a process that hangs for longer
    driver = Driver(parameter_overrides=[Parameter(name, value=value) for name, value in values.items()])
    driver.create_steady_timer(0.01, driver.ask)
    return [driver]

sys.exit(spin.run(make))
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def hanging(ros_domain: int, model_dir: Path) -> Iterator[Start]:  # noqa: ARG001
    """Start a driver whose device hangs at this place, and wait until it does."""
    programs = WaitingPrograms()
    yield lambda where: programs.start(PROGRAM, where, str(model_dir), first_line="hangs")
    programs.close()


def test_a_start_that_waits_for_a_model_is_given_up(hanging: Start) -> None:
    process = hanging("parse")
    process.terminate()
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, [line for line in errors.splitlines() if "INFO" not in line]) == (0, [])


@pytest.mark.parametrize("where", ["attach", "run"])
def test_a_hanging_load_or_inference_does_not_keep_it(hanging: Start, where: str) -> None:
    process = hanging(where)
    process.terminate()
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == "did not stop in time; ended without closing what was open"
    assert "Traceback" not in errors


def test_a_hanging_process_for_litert_ends_with_it(hanging: Start) -> None:
    process = hanging("child")
    (child,) = children(process.pid)
    ended = select.poll()
    ended.register(os.pidfd_open(child), select.POLLIN)
    process.terminate()
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == "did not stop in time; ended without closing what was open"
    assert ended.poll(1000 * PATIENCE)


def test_without_a_directory_for_its_log_it_ends_with_status_2(start_node: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ROS_LOG_DIR", raising=False)
        patch.setenv("ROS_HOME", str(tmp_path / "file"))
        process = start_node("edgetpu_driver", "edgetpu_node", backend="cpu")
    assert process.wait() == 2
    assert process.output.splitlines()[-1].startswith("edgetpu_node: failed to initialize logging: ")
    assert "Traceback" not in process.output
