"""A user's package and a clone in one workspace: its build order, and edgetpu_msgs from C++ and Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = Path(__file__).with_name("user_package")

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("colcon") is None, reason="colcon is not installed"),
]


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_package_that_depends_on_the_suite_is_built_after_it(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    (source / "edgetpu_ros").symlink_to(ROOT)
    shutil.copytree(PACKAGE, source / "camera_tensor")
    names = run("colcon", "list", "--topological-order", "--names-only", cwd=tmp_path).split()
    assert names == ["edgetpu_ros", "camera_tensor"]


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler: apt install g++")
def test_messages_are_usable_from_another_package(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "src" / "camera_tensor")
    python = f"-DPython3_EXECUTABLE={sys.executable}"
    run("colcon", "build", "--event-handlers", "console_direct+", "--cmake-args", python, cwd=tmp_path)
    installed = tmp_path / "install" / "camera_tensor"
    assert run(str(installed / "lib/camera_tensor/print_tensor"), cwd=tmp_path) == "4 bytes, typed\n"
    script = f". {tmp_path}/install/local_setup.sh && exec '{sys.executable}' -c \
        'import camera_tensor; print(camera_tensor.REQUEST.inputs[0].shape.tolist())'"
    assert run("sh", "-c", script, cwd=tmp_path) == "[1, 4]\n"
