"""Models that a browser sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetpu_dashboard.live.model_file import save_model
from edgetpu_driver.errors import InputError

MODEL = b"\x1c\0\0\0TFL3 and the rest"


def test_a_model_is_written_into_the_folder(tmp_path: Path) -> None:
    path = save_model(MODEL, "people_edgetpu.tflite", tmp_path / "models")
    assert path == tmp_path / "models" / "people_edgetpu.tflite"
    assert path.read_bytes() == MODEL


def test_a_suffix_in_capitals_is_written_as_the_driver_looks_for_it(tmp_path: Path) -> None:
    assert save_model(MODEL, "People.v2.TFLITE", tmp_path) == tmp_path / "People.v2.tflite"
    assert [path.name for path in tmp_path.iterdir()] == ["People.v2.tflite"]


def test_a_model_replaces_another_one_of_its_name(tmp_path: Path) -> None:
    save_model(MODEL, "people.tflite", tmp_path)
    save_model(MODEL + b"!", "people.tflite", tmp_path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [MODEL + b"!"]


@pytest.mark.parametrize(
    "name", ["../a.tflite", "/a.tflite", ".tflite", ".a.tflite", "a.npy", "a b.tflite", ""]
)
def test_a_name_that_is_no_plain_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"expected a name such as model\.tflite"):
        save_model(MODEL, name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a TensorFlow Lite model; a\.tflite is not one"):
        save_model(b"PK\3\4", "a.tflite", tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        save_model(MODEL, "a.tflite", tmp_path / "file" / "models")
