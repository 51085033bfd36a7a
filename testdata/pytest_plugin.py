"""Fixtures for the files of `testdata`. Tests whose files are missing are skipped, and the run says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testdata import DATA, GOLDEN, KnownFiles, MissingFileError, ModelFolder


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """Models that Google's compiler wrote, with their graphs and sidecars."""
    return ModelFolder(GOLDEN, tmp_path_factory.mktemp("golden"))


@pytest.fixture
def recorded_bag(tmp_path: Path) -> Callable[[str], Path]:
    """Give the folder of a bag of a real camera by its name."""

    def folder(name: str) -> Path:
        start = f"bags/{name}/"
        for file in DATA.names(start):
            DATA.path(file)
        return DATA.gather(start, tmp_path) / start

    return folder


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """See pytest; also catches what loggers say that were made after ROS's `launch` was imported.

    pytest imports it in each run where launch_pytest is installed. Loggers made since do not pass records on.
    """
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("edgetpu_") and isinstance(logger, logging.Logger):
            monkeypatch.setattr(logger, "propagate", True)
    return caplog


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """Make a skip of a test that a missing file ended, as pytest does with unittest.SkipTest."""
    if call.excinfo is not None and isinstance(call.excinfo.value, MissingFileError):
        reason = str(call.excinfo.value)
        with pytest.raises(pytest.skip.Exception) as skipped:
            pytest.skip(reason)
        call.excinfo = skipped


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests were skipped for want of files."""
    skipped = terminalreporter.stats.get("skipped", [])
    for files in (GOLDEN, DATA):
        count = sum(files.missing_reason in str(report.longrepr) for report in skipped)
        if count:
            terminalreporter.write_sep("!", _summary(count, files), yellow=True, bold=True)


def _summary(count: int, files: KnownFiles) -> str:
    return f"{count} test{'s' if count > 1 else ''} skipped: {files.missing_reason}"
