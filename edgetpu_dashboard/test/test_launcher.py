"""Processes of nodes that are started and stopped from the dashboard."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from edgetpu_dashboard.live.launcher import STOP_SECONDS, Launcher, LaunchError
from testdata.timeouts import PATIENCE

PROGRAM = """#!/usr/bin/env python3
import json, signal, sys, pathlib
pathlib.Path({path!r}).write_text(json.dumps(sys.argv[1:]))
{handler}
signal.pause()
"""


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    made = Launcher(["-r", "image:=/front"])
    yield made
    made.stop_all(0.0)


def install(prefix: Path, monkeypatch: pytest.MonkeyPatch, handler: str = "") -> Path:
    """A program of the package `robot`; returns the file to which it writes its arguments."""
    told = prefix / "arguments.json"
    program = prefix / "lib" / "robot" / "wheel"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.format(path=str(told), handler=handler))
    program.chmod(0o755)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(prefix))
    return told


def test_a_node_gets_the_arguments_of_the_graph_and_its_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: Launcher
) -> None:
    told = install(tmp_path, monkeypatch, handler="sys.exit()")
    launcher.start("wheel", "robot", "wheel", {"model": "'a.tflite'"})
    launcher._processes["wheel"].wait(PATIENCE)
    arguments = ["--ros-args", "-r", "image:=/front", "-p", "wheel:model:='a.tflite'"]
    assert json.loads(told.read_text()) == arguments
    assert not launcher.started("wheel")


def test_a_node_that_ends_with_an_error_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: Launcher
) -> None:
    install(tmp_path, monkeypatch, handler="sys.exit(3)")
    launcher.check("wheel")
    launcher.start("wheel", "robot", "wheel")
    launcher._processes["wheel"].wait(PATIENCE)
    with pytest.raises(LaunchError, match="wheel has ended with status 3: the log of the dashboard says why"):
        launcher.check("wheel")


def test_a_node_that_was_stopped_has_not_ended_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: Launcher
) -> None:
    told = install(tmp_path, monkeypatch, handler="signal.signal(signal.SIGINT, lambda *_: sys.exit(3))")
    launcher.start("wheel", "robot", "wheel")
    end = time.monotonic() + PATIENCE
    while not told.exists():
        assert time.monotonic() < end
    launcher.check("wheel")
    launcher.stop("wheel")
    launcher.check("wheel")


def test_a_node_is_started_once_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: Launcher
) -> None:
    install(tmp_path, monkeypatch)
    launcher.start("wheel", "robot", "wheel")
    with pytest.raises(LaunchError, match="wheel is already running"):
        launcher.start("wheel", "robot", "wheel")
    launcher.stop("wheel")
    assert not launcher.started("wheel")


class InterruptedLauncher(Launcher):
    """Another thread gets its turn once: before a process is stopped, or as soon as it has ended."""

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def _stop(self, processes: Sequence[subprocess.Popen[bytes]], seconds: float = STOP_SECONDS) -> None:
        before, after = self.before, self.after
        self.before = self.after = None
        if before is not None:
            before()
        super()._stop(processes, seconds)
        if after is not None:
            after()


@pytest.fixture
def interrupted() -> Iterator[InterruptedLauncher]:
    made = InterruptedLauncher()
    yield made
    made.stop_all(0.0)


def test_a_node_that_is_started_while_it_is_stopped_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: InterruptedLauncher
) -> None:
    install(tmp_path, monkeypatch)
    interrupted.start("wheel", "robot", "wheel")
    interrupted.after = lambda: interrupted.start("wheel", "robot", "wheel")
    interrupted.stop("wheel")
    assert interrupted.started("wheel")
    interrupted.stop("wheel")
    assert not interrupted.started("wheel")


def test_a_node_that_two_browsers_stop_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: InterruptedLauncher
) -> None:
    install(tmp_path, monkeypatch)
    interrupted.start("wheel", "robot", "wheel")

    interrupted.before = lambda: interrupted.stop("wheel")
    interrupted.stop("wheel")
    assert not interrupted.started("wheel")


def test_what_was_started_elsewhere_is_left_alone(launcher: Launcher) -> None:
    with pytest.raises(LaunchError, match="wheel was not started from here: stop it where it was started"):
        launcher.stop("wheel")


def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: Launcher
) -> None:
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="robot/wheel is not installed"):
        launcher.start("wheel", "robot", "wheel")


def test_a_node_that_does_not_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: Launcher
) -> None:
    told = install(tmp_path, monkeypatch, handler="signal.signal(signal.SIGINT, signal.SIG_IGN)")
    launcher.start("wheel", "robot", "wheel")
    while not told.exists():
        assert launcher.started("wheel")
    launcher.stop_all(0.05)
    assert not launcher.started("wheel")


def test_a_parameter_that_no_command_line_can_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: Launcher
) -> None:
    install(tmp_path, monkeypatch)
    with pytest.raises(LaunchError, match="wheel: embedded null byte"):
        launcher.start("wheel", "robot", "wheel", {"model": "'\0'"})
