"""`edgetpu models build`: graphs with their sidecars in a directory."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from edgetpu_driver.cli.main import main
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.toolchain.model_directories import ModelDirectories


def test_a_graph_is_written_with_its_sidecar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "build", "dense_64", "--output", str(tmp_path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["graphs"]
    data = (tmp_path / "dense_64.tflite").read_bytes()
    sidecar = json.loads((tmp_path / "dense_64.json").read_text())
    assert data == dense.build(64)
    assert sidecar["sha256"] == row["sha256"] == hashlib.sha256(data).hexdigest()
    assert (row["path"], row["written"]) == (str(tmp_path / "dense_64.tflite"), True)


def test_up_to_date_files_are_not_rewritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for expected in ("written", "up to date"):
        assert main(["models", "build", "dense_64", "--output", str(tmp_path)]) == 0
        assert capsys.readouterr().out.splitlines()[1].endswith(expected)


def test_the_driver_finds_it_where_it_looks_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    assert main(["models", "build", "dense_64"]) == 0
    assert "dense_64.tflite" in capsys.readouterr().out
    files = ModelDirectories([tmp_path / "edgetpu" / "models"], compiled=False, uncompiled=True)
    assert files.find("dense_64").read_bytes() == dense.build(64)


@pytest.mark.parametrize(
    "arguments", [("build", "dense_64"), ("compile", "--all"), ("import", "models")], ids=lambda each: each[0]
)
def test_no_directory_is_made_for_a_home_directory_that_is_unknown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
) -> None:
    """As without HOME, for a user who is not in /etc/passwd."""
    models = tmp_path / "models"
    models.mkdir()
    (models / "dense_64.tflite").write_bytes(dense.build(64))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROS_HOME", "~nobody.of.this.name/.ros")
    assert main(["models", *arguments]) == 1
    assert "set HOME or ROS_HOME, or give --output DIR" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [models]


def test_an_unknown_name_prevents_all_writing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "build", "dense_64", "wings_2", "--output", str(tmp_path)]) == 1
    assert "expected one of dense_<size>" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_a_name_it_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["models", "build"])
    assert left.value.code == 2
    assert "one of the arguments NAME --all --list is required" in capsys.readouterr().err


def test_all_builds_every_listed_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["models", "build", "--list", "--json"])
    listed = json.loads(capsys.readouterr().out)["families"]
    assert main(["models", "build", "--all", "--output", str(tmp_path)]) == 0
    names = sorted(name for family in listed for name in family["standard"])
    assert sorted(path.stem for path in tmp_path.glob("*.tflite")) == names
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == names


def test_a_directory_that_cannot_be_made_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["models", "build", "dense_64", "--output", str(tmp_path / "file" / "models")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[-1].startswith("edgetpu: ")
    assert "Traceback" not in "\n".join(errors)


def test_a_graph_is_not_written_next_to_a_model_of_another_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dense_64_edgetpu.tflite").write_bytes(b"compiled by somebody")
    (tmp_path / "dense_64.tflite").write_bytes(b"from this")
    assert main(["models", "build", "dense_64", "dense_128", "--output", str(tmp_path)]) == 1
    refused, written = capsys.readouterr().out.splitlines()[1:]
    assert "NOT WRITTEN: dense_64_edgetpu.tflite was compiled from another graph" in refused
    assert written.endswith("written")
    assert (tmp_path / "dense_64.tflite").read_bytes() == b"from this"
