"""Which compiled files `edgetpu models retarget` and, without a compiler, `models compile` replace."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from edgetpu_driver.cli.main import main
from testdata import GOLDEN


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with one compiled colour and its graph, and the graph of another colour."""
    for stem in ("color_red_64x64", "color_red_64x64_edgetpu", "color_blue_64x64"):
        (tmp_path / f"{stem}.tflite").write_bytes(golden(stem))
    return tmp_path


def golden(stem: str) -> bytes:
    return GOLDEN.path(f"models/{stem}.tflite").read_bytes()


def retarget(folder: Path) -> int:
    files = [folder / f"{stem}.tflite" for stem in ("color_red_64x64_edgetpu", "color_blue_64x64")]
    return main(["models", "retarget", *map(str, files)])


@pytest.mark.usefixtures("no_other_compiler")
def test_a_file_that_was_packed_is_replaced(folder: Path) -> None:
    made = folder / "color_blue_64x64_edgetpu.tflite"
    assert main(["models", "compile", str(folder / "color_blue_64x64.tflite")]) == 0
    packed = made.read_bytes()
    assert retarget(folder) == 0
    assert made.read_bytes() != packed


def test_a_file_that_was_compiled_after_a_retargeted_one_is_kept(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, compiled = folder / "color_blue_64x64_edgetpu.tflite", golden("color_blue_64x64_edgetpu")
    assert retarget(folder) == 0
    made.write_bytes(compiled)  # its sidecar remains
    assert retarget(folder) == 1
    assert "was made by edgetpu_compiler and is not overwritten" in capsys.readouterr().err
    assert made.read_bytes() == compiled


def test_a_file_that_was_retargeted_is_replaced(folder: Path) -> None:
    assert retarget(folder) == 0
    made = folder / "color_blue_64x64_edgetpu.tflite"
    before = made.read_bytes()
    (folder / "color_blue_64x64.tflite").write_bytes(golden("color_red_64x64"))
    assert retarget(folder) == 0
    assert made.read_bytes() != before


@pytest.mark.usefixtures("no_other_compiler")
def test_a_file_that_was_retargeted_is_not_replaced_by_one_for_the_virtual_stick(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert retarget(folder) == 0
    made = folder / "color_blue_64x64_edgetpu.tflite"
    retargeted = made.read_bytes()
    assert main(["models", "compile", str(folder / "color_blue_64x64.tflite")]) == 1
    assert f"{made} was made by `edgetpu models retarget`" in capsys.readouterr().out
    assert made.read_bytes() == retargeted


@pytest.mark.usefixtures("no_other_compiler")
@pytest.mark.parametrize("sidecar", ["no JSON", "[]", '{"retargeted_from": "other"}', "of its content"])
def test_only_the_sidecar_of_a_retargeted_file_lets_it_be_replaced(
    folder: Path, capsys: pytest.CaptureFixture[str], sidecar: str
) -> None:
    made, compiled = folder / "color_blue_64x64_edgetpu.tflite", golden("color_blue_64x64_edgetpu")
    made.write_bytes(compiled)
    if sidecar == "of its content":  # of a user
        sidecar = json.dumps({"sha256": hashlib.sha256(compiled).hexdigest()})
    made.with_suffix(".json").write_text(sidecar)
    kept = f"{made} was made by edgetpu_compiler and is not overwritten"
    assert retarget(folder) == 1
    assert kept in capsys.readouterr().err
    assert main(["models", "compile", str(folder / "color_blue_64x64.tflite")]) == 1
    assert kept in capsys.readouterr().out
    assert made.read_bytes() == compiled
    assert made.with_suffix(".json").read_text() == sidecar


def test_a_damaged_file_is_kept_and_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = folder / "color_blue_64x64_edgetpu.tflite"
    made.write_bytes(b"damaged")
    assert retarget(folder) == 1
    assert f"{made}: " in capsys.readouterr().err
    assert made.read_bytes() == b"damaged"
