"""`edgetpu doctor` tells an OpenCV that works from one that cannot be imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetpu_driver.cli.doctor import opencv as module
from edgetpu_driver.cli.doctor.finding import State
from edgetpu_driver.cli.doctor.opencv import opencv

BUILT_FOR_NUMPY_1 = """\
import sys
print("AttributeError: _ARRAY_API not found", file=sys.stderr)
raise ImportError("numpy.core.multiarray failed to import")
"""
"""The module cv2 of Ubuntu 22.04 and 24.04 beside NumPy 2, as Python sees it."""
CURE = "pip install 'numpy<2'"
FAILS = "cannot be imported, so no node with images starts: "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where Python looks for modules first, and pip knows of nothing."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(module, "installed_version", lambda _: "")
    return tmp_path


def numpy_of(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pip know this version of NumPy, and no other package."""
    monkeypatch.setattr(module, "installed_version", {"numpy": version}.get)


def test_an_opencv_that_can_be_imported_is_fine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cv2.py").write_text("__version__ = '4.6.0'")
    assert (opencv().state, opencv().found) == (State.FINE, "of the system")
    monkeypatch.setattr(module, "installed_version", {"opencv-python": "4.13.0.92"}.get)
    assert (opencv().state, opencv().found) == (State.FINE, "4.13.0.92")


def test_an_opencv_that_is_not_there_is_needed_by_some(folder: Path) -> None:
    (folder / "cv2.py").write_text("import nothing_of_this_name")
    assert opencv().state is State.MISSING
    (folder / "cv2.py").write_text("raise ModuleNotFoundError(\"No module named 'cv2'\")")
    assert opencv().state is State.NOTE
    assert opencv().error_text == (
        "not installed; nodes with images need it: sudo apt install python3-opencv"
    )


def test_numpy_2_beside_an_opencv_for_numpy_1_is_named_with_its_cure(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "cv2.py").write_text(BUILT_FOR_NUMPY_1)
    numpy_of("2.2.6", monkeypatch)
    assert opencv().state is State.MISSING
    assert opencv().found == f"{FAILS}it was built for NumPy 1, not 2.2.6"
    assert opencv().remedy.startswith(f"{CURE} (")


def test_an_older_numpy_is_no_cure_where_numpy_1_is_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "cv2.py").write_text(BUILT_FOR_NUMPY_1)
    numpy_of("1.21.5", monkeypatch)
    assert opencv().state is State.MISSING
    assert opencv().found == f"{FAILS}ImportError: numpy.core.multiarray failed to import"
    assert CURE not in opencv().remedy


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("raise ImportError('libGL.so.1: cannot open')", "ImportError: libGL.so.1: cannot open"),
        ("import os; os.abort()", "Python ended with status -6"),
        ("raise SystemExit(3)", "Python ended with status 3"),
        ("", "AttributeError: module 'cv2' has no attribute '__version__'"),
    ],
)
def test_any_other_reason_is_quoted(folder: Path, content: str, reason: str) -> None:
    (folder / "cv2.py").write_text(content)
    assert opencv().state is State.MISSING
    assert opencv().found == FAILS + reason
