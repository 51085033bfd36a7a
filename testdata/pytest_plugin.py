"""Fixtures for the files of `testdata`. Tests whose files are missing are skipped, and the run says so.

A test that hangs in the middleware ends the run.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from testdata import DATA, GOLDEN, KnownFiles, MissingFileError, ModelFolder

_HANGS = 700.0
"""Time after which a test counts as hanging, s; pytest-timeout ends tests earlier, unless the GIL is held."""
_STDERR = pytest.StashKey[int]()
"""Key of the descriptor of standard error, which is captured during tests."""


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """Models that Google's compiler wrote, with their graphs and sidecars."""
    return ModelFolder(GOLDEN, tmp_path_factory.mktemp("golden"))


@pytest.fixture
def recorded_bag(tmp_path: Path) -> Callable[[str], Path]:
    """A function that returns the folder of a bag of a real camera by its name."""

    def folder(name: str) -> Path:
        start = f"bags/{name}/"
        for file in DATA.names(start):
            DATA.path(file)
        return DATA.gather(start, tmp_path) / start

    return folder


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """See pytest; also catches records of loggers that were made after ROS's `launch` was imported.

    If launch_pytest is installed, pytest always imports `launch`, and later loggers do not propagate records.
    """
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("edgetpu_") and isinstance(logger, logging.Logger):
            monkeypatch.setattr(logger, "propagate", True)
    return caplog


def pytest_configure(config: pytest.Config) -> None:
    """Keep standard error open for the stacks of a test that hangs."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        config.stash[_STDERR] = os.dup(2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process, with the stacks of its threads, if a test hangs and holds the interpreter's lock.

    If a discovery begins while a participant is deleted, Fast DDS may wait for ever, at full processor load
    (Fast-DDS issue 6513). rclpy holds the lock meanwhile, so no other thread runs.
    """
    faulthandler.dump_traceback_later(_HANGS, exit=True, file=item.config.stash[_STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """Count a test that a missing file ended as skipped, as pytest does with unittest.SkipTest."""
    if call.excinfo is not None and isinstance(call.excinfo.value, MissingFileError):
        reason = str(call.excinfo.value)
        with pytest.raises(pytest.skip.Exception) as skipped:
            pytest.skip(reason)
        call.excinfo = skipped


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests were skipped because files are missing."""
    skipped = terminalreporter.stats.get("skipped", [])
    for files in (GOLDEN, DATA):
        count = sum(files.missing_reason in str(report.longrepr) for report in skipped)
        if count:
            terminalreporter.write_sep("!", _summary(count, files), yellow=True, bold=True)


def _summary(count: int, files: KnownFiles) -> str:
    return f"{count} test{'s' if count > 1 else ''} skipped: {files.missing_reason}"
