"""Fixtures for the files of `testdata`. Tests whose files are missing are skipped, and the run says so.

A test that hangs in the middleware ends the run.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from testdata import DATA, GOLDEN, KnownFiles, MissingFileError, ModelFolder

_HANGS = 700.0
"""Time after which a test counts as hanging, s; pytest-timeout ends tests earlier, unless the GIL is held."""
_stderr: list[int] = []  # a descriptor of standard error, which is captured during tests


def _name_test_modules() -> None:
    """Make test modules known by name, which dataclasses need; pytest 6, as in Ubuntu 22.04, does not."""
    load = AssertionRewritingHook.exec_module

    def exec_module(hook: AssertionRewritingHook, module: ModuleType) -> None:
        sys.modules.setdefault(module.__name__, module)
        load(hook, module)

    AssertionRewritingHook.exec_module = exec_module  # type: ignore[method-assign, assignment]


if pytest.__version__.startswith("6."):
    _name_test_modules()


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
        _stderr[:] = [os.dup(2)]


@pytest.hookimpl(hookwrapper=True)  # `wrapper` needs a later pytest than that of Ubuntu 22.04
def pytest_runtest_protocol() -> Generator[None, None, None]:
    """End the process, with the stacks of its threads, if a test hangs and holds the interpreter's lock.

    If a discovery begins while a participant is deleted, Fast DDS may wait for ever, at full processor load
    (Fast-DDS issue 6513). rclpy holds the lock meanwhile, so no other thread runs.
    """
    faulthandler.dump_traceback_later(_HANGS, exit=True, file=_stderr[0])
    yield
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
