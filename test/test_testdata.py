"""Files that are not in the repository are found by SHA-256; tests without theirs are skipped visibly."""

from __future__ import annotations

import csv
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testdata import DATA, GOLDEN, KnownFiles, MissingFileError, ModelFolder

ROOT = Path(__file__).parents[1]
VARIABLE = "EDGETPU_TEST_FILES"


@pytest.fixture
def files(tmp_path: Path) -> KnownFiles:
    """A table of models/one.tflite and models/one.json; `default` is searched."""
    rows = [
        f"models/one.{end},{hashlib.sha256(data).hexdigest()},{len(data)},,,"
        for end, data in (("tflite", b"graph"), ("json", b"{}"))
    ]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["name,sha256,bytes,repository,commit,path", *rows]))
    (tmp_path / "default").mkdir()
    return KnownFiles(table, VARIABLE, tmp_path / "default", "sample files")


def test_a_file_is_found_by_its_contents_whatever_its_name(files: KnownFiles, tmp_path: Path) -> None:
    path = tmp_path / "default" / "deep" / "other.bin"
    path.parent.mkdir()
    path.write_bytes(b"graph")
    assert files.path("models/one.tflite") == path
    assert files.find("models/one.json") is None


def test_a_file_of_the_same_name_and_size_is_not_mistaken_for_it(files: KnownFiles, tmp_path: Path) -> None:
    (tmp_path / "default" / "one.tflite").write_bytes(b"GRAPH")
    assert files.find("models/one.tflite") is None


def test_the_variable_names_several_folders(
    files: KnownFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, data in (("a", b"graph"), ("b", b"{}"), ("default", b"graph")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "file").write_bytes(data)
    monkeypatch.setenv(VARIABLE, f"{tmp_path / 'a'}:{tmp_path / 'b'}:{tmp_path / 'absent'}")
    assert files.path("models/one.tflite") == tmp_path / "a" / "file"
    assert files.path("models/one.json") == tmp_path / "b" / "file"


def test_a_missing_file_is_named_with_the_variable_to_set(files: KnownFiles) -> None:
    with pytest.raises(MissingFileError) as raised:
        files.path("models/one.tflite")
    assert str(raised.value) == (
        "no sample files (set EDGETPU_TEST_FILES, see README.md): models/one.tflite is missing"
    )


def test_a_model_folder_has_the_models_of_the_table_under_their_names(
    files: KnownFiles, tmp_path: Path
) -> None:
    for name, data in (("x", b"graph"), ("y", b"{}"), ("z.tflite", b"another model")):
        (tmp_path / "default" / name).write_bytes(data)
    folder = ModelFolder(files, tmp_path / "gathered")
    assert sorted(path.name for path in folder.path.iterdir()) == ["one.json", "one.tflite"]
    assert folder.models() == (folder.path / "one.tflite",)
    assert folder.model("one.tflite").read_bytes() == b"graph"


@pytest.mark.parametrize("table", [GOLDEN, DATA], ids=["golden", "data"])
def test_no_file_is_listed_twice(table: KnownFiles) -> None:
    digests = [table.sha256(name) for name in table.names()]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(
    ("table", "made_here"),
    [
        ("golden.csv", ("wire/",)),
        (
            "data.csv",
            ("bags/", "compass/max-heromode_orientation.csv", "compass/panoramas/", "static_camera/"),
        ),
    ],
)
def test_every_file_has_its_origin_unless_the_readme_says_that_it_was_made_here(
    table: str, made_here: tuple[str, ...]
) -> None:
    with (ROOT / "testdata" / table).open(newline="") as rows:
        for row in csv.DictReader(rows):
            filled = [bool(row[column]) for column in ("repository", "commit", "path")]
            assert filled == [not row["name"].startswith(made_here)] * 3, row["name"]


def test_tests_without_their_files_are_skipped_and_counted(tmp_path: Path) -> None:
    test = "edgetpu_driver/test/test_cpu_engine.py::test_a_real_product_is_that_of_its_weights"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test],
        cwd=ROOT,
        env=os.environ | {GOLDEN.variable: str(tmp_path), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "1 test skipped: no golden models (set EDGETPU_GOLDEN, see README.md)" in run.stdout
