"""The results of drives of which one fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from drive import __main__ as drive
from drive.scenario import Outcome, SystemScenario, share
from drive.suite_connection import DriveError
from measured_figures.row import Row


class Reached(SystemScenario):
    """Reach everything."""

    name = "reached"
    quantities = ("place, m",)

    def run_alone(self, seed: int) -> Outcome:
        return Outcome(seed, {"reached": 1.0}, ((0.0, 0.0), (1.0, 1.0)))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        return [Row("drive", self.name, "reached", share(outcomes, "reached"), "%", 100.0, "higher")]


class Failing(Reached):
    """Fail in the first world."""

    name = "failing"

    def run_alone(self, seed: int) -> Outcome:
        raise DriveError(f"no result in world {seed}")


class Interrupted(Reached):
    """Be interrupted in the first world."""

    name = "interrupted"

    def run_alone(self, seed: int) -> Outcome:
        del seed
        raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def scenarios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "SCENARIOS", {each.name: each for each in (Reached, Failing, Interrupted)})
    monkeypatch.setattr(drive, "renderer_problem", lambda: "")
    monkeypatch.setattr(drive, "isolate", dict)
    monkeypatch.setenv("ROS_HOME", "unused")


@pytest.mark.parametrize(
    ("last", "status"), [("failing", drive.EXIT_ERROR), ("interrupted", drive.EXIT_INTERRUPTED)]
)
def test_those_before_it_are_written(last: str, status: int, tmp_path: Path) -> None:
    assert drive.main(["reached", last, "--seeds", "2", "--output", str(tmp_path)]) == status
    (row,) = json.loads((tmp_path / "results.json").read_text())
    assert (row["case"], row["value"]) == ("reached", 100.0)
    assert "Reach everything." in (tmp_path / "report.html").read_text()


def test_those_of_an_earlier_run_stay_if_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("[]")
    assert drive.main(["failing", "--output", str(tmp_path)]) == drive.EXIT_ERROR
    assert (tmp_path / "results.json").read_text() == "[]"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--seeds=0", "argument --seeds: expected a positive whole number; got '0'"),
        ("--first-seed=-1", "argument --first-seed: expected a seed, a whole number below 2^63; got '-1'"),
    ],
)
def test_worlds_without_a_seed_are_refused(
    option: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        drive.main(["reached", option])
    assert expected in capsys.readouterr().err


def test_an_output_that_cannot_be_written_is_named_before_the_first_world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    assert drive.main(["failing", "--output", str(file)]) == drive.EXIT_ERROR
    assert capsys.readouterr() == ("", f"[drive] {file}: File exists\n")
