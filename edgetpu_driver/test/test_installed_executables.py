"""Executables of ROS packages are found in the sourced environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetpu_driver.node_kit.installed_nodes.installed_executables import installed_executable


def install(prefix: Path, mode: int = 0o755) -> Path:
    """The file of an executable `wheel` of the package `robot`."""
    path = prefix / "lib" / "robot" / "wheel"
    path.parent.mkdir(parents=True)
    path.touch(mode)
    return path


def test_the_first_prefix_that_has_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = install(tmp_path / "overlay"), install(tmp_path / "underlay")
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{tmp_path}/empty:{tmp_path}/overlay:{tmp_path}/underlay")
    assert installed_executable("robot", "wheel") == first


def test_a_file_that_cannot_be_executed_is_not_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, mode=0o644)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    assert installed_executable("robot", "wheel") is None


def test_nothing_is_installed_where_no_ros_is_sourced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    assert installed_executable("robot", "wheel") is None
