"""tools/install_extra.sh: optional packages, installed once for each Python and list of requirements."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
Install = Callable[..., "subprocess.CompletedProcess[str]"]

FAKE_PYTHON = """\
#!/bin/bash
if [ "$*" = -V ]; then echo "Python ${VERSION:-3.11.7}"; exit; fi
[ -z "${OFFLINE:-}" ] || exit 1
while [ "$1" != --target ]; do shift; done
mkdir -p "$2"
echo "${VERSION:-3.11.7}" >"$2/package"
"""
"""Installs a package that says for which Python it is."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "install_extra.sh", tmp_path / "tools")
    (tmp_path / "requirements-live.txt").write_text("nicegui\n")
    return tmp_path


@pytest.fixture
def install(clone: Path) -> Install:
    """Install what `make live` needs, with variables."""
    python = clone / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{python.parent}:{os.environ['PATH']}", **variables}
        command = ["bash", str(clone / "tools" / "install_extra.sh"), "live"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def test_the_folder_is_printed_and_filled_once(clone: Path, install: Install) -> None:
    first, second = install(), install(OFFLINE="yes")
    assert (first.stdout, second.stdout, second.stderr) == (f"{clone}/build/live_tools\n",) * 2 + ("",)


def test_without_a_network_what_was_installed_before_stays(clone: Path, install: Install) -> None:
    install()
    (clone / "requirements-live.txt").write_text("nicegui\nanother\n")
    failed = install(OFFLINE="yes")
    assert failed.returncode == 2
    assert "is the Python package index within reach?" in failed.stderr
    assert (clone / "build" / "live_tools" / "package").read_text() == "3.11.7\n"


def test_another_python_gets_packages_of_its_own(clone: Path, install: Install) -> None:
    install()
    install(VERSION="3.12.3")
    assert (clone / "build" / "live_tools" / "package").read_text() == "3.12.3\n"
