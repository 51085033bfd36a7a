"""`edgetpu confirm` as a command: its report, what it continues, and its exit status."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any

import pytest

from edgetpu_driver.cli.command_options import parser
from edgetpu_driver.cli.confirm import command
from edgetpu_driver.cli.confirm.all_steps import STEPS
from edgetpu_driver.cli.main import main
from edgetpu_driver.errors import InputError
from edgetpu_driver.virtual import VirtualEdgeTpu
from testdata.devices.confirmed_sticks import NAMES, DoesNotComeBack, InterruptedInAStep

# The command.


def answer(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["confirm", "--backend", "virtual", "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_the_report_is_written_twice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, report = answer(capsys, "--only", "google_program", "--report", str(tmp_path / "mine"))
    assert code == 0
    written = json.loads((tmp_path / "mine.json").read_text())
    assert written == {name: value for name, value in report.items() if name != "files"}
    assert written["stick"] == {"bus_path": "2-1", "Mbit/s": 5000.0, "firmware": "1.00", "clock": "high"}
    assert written["outcomes"][0]["values"] == {
        "outputs": 2048, "off_by_one": 0, "largest_difference": 0,
    }  # fmt: skip
    assert re.search(r"^confirmed +google_program +a program", (tmp_path / "mine.txt").read_text(), re.M)


def test_a_report_is_continued(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "mine")
    answer(capsys, "--only", "temperature", "--report", path)
    _, report = answer(capsys, "--only", "registers", "--report", path)
    assert [each["step"] for each in report["outcomes"]] == ["registers", "temperature"]
    assert report["not_run"] == [name for name in NAMES if name not in ("registers", "temperature")]


def test_what_was_found_is_shown_if_the_report_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(command, "write_report", full)
    options = ["--backend", "virtual", "--only", "temperature", "--report", str(tmp_path / "mine")]
    assert main(["confirm", *options]) == 1
    captured = capsys.readouterr()
    assert "edgetpu: the report is not written: No space left on device\n" in captured.err
    assert re.search(r"^confirmed +temperature ", captured.out, re.M)
    assert captured.out.endswith("; a virtual stick confirms nothing. Written to no file\n")


@pytest.mark.parametrize(
    "content",
    [
        '{"a": 1}',
        '{"format": 1, "outcomes": [{"step": "temperature"}]}',
        '{"format": 1, "outcomes": [], "stick": 3}',
        "[" * 100_000,
    ],
    ids=lambda content: content[:60],
)
def test_another_file_is_not_continued(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str
) -> None:
    (tmp_path / "mine.json").write_text(content)
    code, report = answer(capsys, "--only", "registers", "--report", str(tmp_path / "mine"))
    assert code == 1
    assert "is not a report of this command" in report["error"]["message"]


def test_a_report_of_the_virtual_stick_is_not_continued_on_a_real_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(tmp_path / "mine")
    answer(capsys, "--only", "temperature", "--report", path)
    before = (tmp_path / "mine.json").read_text()
    monkeypatch.setattr(command, "usb_bus", lambda _: VirtualEdgeTpu())
    assert main(["confirm", "--only", "registers", "--report", path]) == 1
    assert capsys.readouterr().err == (
        f"edgetpu: expected a report of the backend usb; {path}.json is one of virtual: name another one "
        "with --report\n"
    )
    assert (tmp_path / "mine.json").read_text() == before


@pytest.mark.parametrize("name", ["", "/"])
def test_a_report_needs_a_name(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, report = answer(capsys, "--only", "registers", "--report", name)
    assert (code, report["error"]["message"]) == (
        1,
        f"expected --report with the name of a file; got {Path(name)}",
    )


def test_a_folder_of_models_that_is_not_there_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = "--models", str(tmp_path / "none"), "--report", str(tmp_path / "mine")
    code, report = answer(capsys, "--only", "registers", *options)
    assert (code, report["error"]["message"]) == (
        1,
        f"expected a directory with models; there is none at {tmp_path / 'none'}",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_refuted_step_and_a_replug_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "usb_bus", lambda _: DoesNotComeBack())
    report = str(tmp_path / "mine")
    assert main(["confirm", "--from", "leftovers", "--report", report, "--preset", "low"]) == 1
    text = capsys.readouterr().out
    again = "Unplug it, plug it in, then: edgetpu confirm --from times"
    assert f"{again} --report {report} --preset low\n" in text
    assert f"{again}\n" in (tmp_path / "mine.txt").read_text()
    assert "0 confirmed, 1 refuted, 0 skipped. Please send in" in text


def test_an_interrupt_keeps_what_was_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "usb_bus", lambda _: InterruptedInAStep())
    report = str(tmp_path / "mine")
    assert main(["confirm", "--from", "chunk_length", "--report", report]) == 130
    text = capsys.readouterr().out
    assert f"\nInterrupted. To continue: edgetpu confirm --from leftovers --report {report}\n" in text
    assert "0 confirmed, 0 refuted, 1 skipped. Please send in" in text
    written = json.loads((tmp_path / "mine.json").read_text())
    assert [each["step"] for each in written["outcomes"]] == ["chunk_length"]
    assert (written["resume_from"], written["interrupted"]) == ("leftovers", True)


def test_an_interrupt_before_the_first_outcome_leaves_the_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "usb_bus", lambda _: InterruptedInAStep())
    assert main(["confirm", "--from", "leftovers", "--report", str(tmp_path / "mine")]) == 130
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([], ""),
        (["--json", "--only", "registers", "--preset", "high"], ""),
        (
            ["--from", "times", "--port", "2-1.4", "--models", "my models", "--backend", "virtual"],
            " --models 'my models' --backend virtual --port 2-1.4",
        ),
        (["--serial", "A1", "--firmware", "fw.bin"], " --serial A1 --firmware fw.bin"),
    ],
)
def test_what_selects_stick_models_and_report_is_repeated(given: list[str], kept: str) -> None:
    assert command.repeated(parser().parse_args(["confirm", *given])) == kept


def test_without_a_stick_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stick = VirtualEdgeTpu()
    stick.unplug()
    monkeypatch.setattr(command, "usb_bus", lambda _: stick)
    assert main(["confirm", "--report", str(tmp_path / "mine")]) == 3
    assert "no Edge TPU is on the bus" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_steps_continue_from_one() -> None:
    assert [each.name for each in command.chosen_steps("draining", "")] == NAMES[NAMES.index("draining") :]
    with pytest.raises(InputError, match="expected a step, one of firmware, port"):
        command.chosen_steps("drain", "")


def test_the_steps_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["confirm", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(STEPS) + 1
