"""The command line and the processes of the long run (`make soak`)."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from soak import __main__ as command_line
from soak.outcome_journal import Counted, Outcome
from soak.run_evaluation import NODES, Findings, Interval


@pytest.mark.parametrize(
    ("option", "value"), [("--minutes", "0"), ("--minutes", "nan"), ("--hours", "-1"), ("--sticks", "0")]
)
def test_a_run_without_a_length_or_a_stick_is_wrong_usage(option, value, capsys, monkeypatch):
    monkeypatch.setattr(command_line, "run", lambda _: pytest.fail("it has started"))
    with pytest.raises(SystemExit) as left:
        command_line.main([option, value])
    assert left.value.code == 2
    assert f"argument {option}: expected" in capsys.readouterr().err


def test_a_folder_of_other_files_is_not_replaced(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command_line, "run", lambda _: pytest.fail("it has started"))
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(SystemExit) as left:
        command_line.main(["--output", str(tmp_path)])
    assert left.value.code == 2
    assert f"{tmp_path} contains other files, and a run replaces it" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()


@pytest.fixture
def handlers():
    """The handlers of signals that a command sets, put back after the test."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_a_run(number, tmp_path, capsys, monkeypatch):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as of a command in the background of a script
    monkeypatch.setattr(command_line, "run", lambda _: signal.raise_signal(number))
    assert command_line.main(["--output", str(tmp_path)]) == command_line.EXIT_INTERRUPTED
    assert "[soak] interrupted" in capsys.readouterr().err


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(("is_interrupted", "status"), [(False, 0), (True, command_line.EXIT_INTERRUPTED)])
def test_only_a_run_to_its_end_is_a_success(is_interrupted, status, tmp_path, monkeypatch):
    right = [Counted(1.0, node, Outcome.RIGHT, 9) for node in NODES]
    found = Findings(Interval(0.0, 60.0), right, [], [], [], [], [], 0, 0, is_interrupted=is_interrupted)
    monkeypatch.setattr(command_line, "run", lambda _: found)
    monkeypatch.setattr("soak.report.write_report", lambda *_: None)
    assert command_line.main(["--output", str(tmp_path)]) == status


def test_the_processes_of_a_run_are_modules_that_exist(tmp_path: Path) -> None:
    pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
    from soak.run_setup import Stage

    stage = Stage(tmp_path, tmp_path, sticks=1, seed=0, images=0, start_ns=0, environment={})
    lines = [command.arguments for command in stage.commands(10.0)]
    modules = {line[2] for line in lines if line[1] == "-m"}
    modules |= {line[3] for line in lines if line[2] == "soak.node_settings"}
    assert len(modules) == 5
    assert [module for module in modules if find_spec(module) is None] == []


def test_settings_of_a_node_are_made_before_numpy_is_loaded() -> None:
    program = "import sys, soak.node_settings; print('numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"
