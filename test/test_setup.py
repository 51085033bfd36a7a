"""tools/setup.sh on a new computer, repeated after it was interrupted, and in a clone that was moved."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INPUTS = ("tools", "cmake", "launch", "config", "edgetpu_msgs", "CMakeLists.txt", "package.xml")
Setup = Callable[..., "subprocess.CompletedProcess[str]"]

FAKE_PYTHON = """\
#!/bin/bash
case "$*" in
  -V) echo Python 3.11.7 ;;
  "-m venv"*)
    [[ $* != *--clear* ]] || rm -rf .venv
    mkdir -p .venv/bin
    cp "$0" .venv/bin/python
    echo "$PWD" >.venv/place
    [ -z "${INTERRUPTED:-}" ] || exit 130
    printf '#!%s\\n' "$PWD/.venv/bin/python" >.venv/bin/pip
    printf '#!%s\\n' "$PWD/.venv/bin/python" >.venv/bin/colcon
    chmod +x .venv/bin/*
    ;;
  "-m pip install"*)
    [ -x .venv/bin/pip ] || { echo "No module named pip"; exit 1; }
    ;;
  */.venv/bin/pip\\ --version)
    echo "pip 23.2.1 from $(dirname "$1" | xargs dirname)/lib/python3.11/site-packages/pip (python 3.11)"
    ;;
  */.venv/bin/colcon\\ build*)
    mkdir -p install
    [ -z "${INTERRUPTED_BUILD:-}" ] || exit 130
    ;;
esac
"""
"""Makes an environment with pip and colcon, each a script that this program interprets."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with all that the build depends on."""
    return make_clone(tmp_path / "clone")


def make_clone(clone: Path) -> Path:
    clone.mkdir(parents=True)
    for name in INPUTS:
        if (ROOT / name).is_dir():
            # Other tests may write there at this time.
            shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, clone / name)
    for package in ROOT.glob("edgetpu_*"):
        (clone / package.name).mkdir(exist_ok=True)
        for name in ("package.xml", "CMakeLists.txt", "setup.cfg"):
            if (package / name).exists():
                shutil.copy(package / name, clone / package.name)
    (clone / "requirements.txt").write_text("colcon\n")
    return clone


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """Run setup.sh of a clone where no ROS 2 is sourced, with variables."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").write_text(FAKE_PYTHON)
    (programs / "c++").write_text("")
    (programs / "df").write_text("#!/bin/bash\nprintf 'head\\n- - - 9999\\n'")
    for program in programs.iterdir():
        program.chmod(0o755)

    def run(clone: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": os.environ["HOME"], **variables}
        command = ["bash", str(clone / "tools" / "setup.sh")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def test_it_is_set_up_once(clone: Path, setup: Setup) -> None:
    first, second = setup(clone), setup(clone)
    assert (first.returncode, first.stderr) == (0, "")
    assert "building the packages for ROS 2 jazzy" in first.stdout
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")


def test_an_environment_that_was_interrupted_is_made_anew(clone: Path, setup: Setup) -> None:
    assert setup(clone, INTERRUPTED="yes").returncode == 1
    again = setup(clone)
    assert (again.returncode, again.stderr) == (0, "")


def test_a_clone_that_was_moved_gets_an_environment_of_its_own(clone: Path, setup: Setup) -> None:
    setup(clone)
    moved = clone.rename(clone.with_name("moved"))
    again = setup(moved)
    assert (again.returncode, again.stderr) == (0, "")
    assert (moved / ".venv" / "place").read_text() == f"{moved}\n"


def test_a_build_that_was_interrupted_is_repeated_for_the_files_of_before(clone: Path, setup: Setup) -> None:
    setup(clone)
    package = clone / "package.xml"
    before = package.read_text()
    package.write_text(f"{before}\n")
    assert setup(clone, INTERRUPTED_BUILD="yes").returncode == 1
    package.write_text(before)
    assert "building the packages" in setup(clone).stdout


def test_a_path_with_a_space_is_refused_at_once(tmp_path: Path, setup: Setup) -> None:
    clone = make_clone(tmp_path / "my clone")
    refused = setup(clone)
    assert refused.returncode == 1
    assert f"a path without spaces is needed, this is '{clone}'" in refused.stderr
    assert not (clone / ".venv").exists()


def test_a_ros_that_is_installed_and_not_sourced_is_named(clone: Path, setup: Setup) -> None:
    refused = setup(clone, ROS_DISTRO="jazzy")
    assert refused.returncode == 1
    assert "ROS_DISTRO is jazzy, but no ROS 2 is sourced: source /opt/ros/jazzy/setup.bash" in refused.stderr
