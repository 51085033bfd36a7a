"""The command line of the long run (`make soak`)."""

from __future__ import annotations

import signal

import pytest

from soak import __main__ as command_line


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
    assert f"{tmp_path} has files of something else" in capsys.readouterr().err
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
