"""The packages as a ROS developer finds them: what they declare, and what a build installs."""

from __future__ import annotations

import shutil
import subprocess
from importlib import import_module
from importlib.metadata import distribution, entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MANIFESTS = sorted(path for path in ROOT.glob("edgetpu_*/package.xml"))
NAMES = [path.parent.name for path in MANIFESTS]
PYTHON_PACKAGES = [name for name in NAMES if name != "edgetpu_msgs"]

catkin_pkg = pytest.importorskip("catkin_pkg.package", reason="needs catkin_pkg, which comes with ROS 2")
index = pytest.importorskip("ament_index_python.packages", reason="needs ROS 2")

DEPENDENCIES = ("build_depends", "buildtool_depends", "exec_depends", "test_depends")


@pytest.fixture(scope="module")
def root():
    return catkin_pkg.parse_package(str(ROOT / "package.xml"))


def names(package, kind: str) -> set[str]:
    return {dependency.name for dependency in getattr(package, kind)}


@pytest.mark.parametrize("name", PYTHON_PACKAGES)
def test_every_public_name_can_be_imported(name: str) -> None:
    package = import_module(name)
    for public in getattr(package, "__all__", ()):
        assert getattr(package, public) is not None, public


@pytest.mark.parametrize("manifest", MANIFESTS, ids=NAMES)
def test_the_root_declares_what_every_package_needs(root, manifest: Path) -> None:
    package = catkin_pkg.parse_package(str(manifest))
    for kind in DEPENDENCIES:
        assert names(package, kind) - set(NAMES) <= names(root, kind), kind
    assert {group.name for group in package.member_of_groups} <= {
        group.name for group in root.member_of_groups
    }


def test_bloom_and_rosdep_find_the_root_alone() -> None:
    packages = pytest.importorskip("catkin_pkg.packages").find_packages(str(ROOT))
    assert {path: package.name for path, package in packages.items()} == {".": "edgetpu_ros"}


def test_the_root_names_none_of_its_own_packages(root) -> None:
    for kind in DEPENDENCIES:
        assert not names(root, kind) & set(NAMES), "rosdep has no key of that name"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=NAMES)
def test_packages_are_released_together(root, manifest: Path) -> None:
    package = catkin_pkg.parse_package(str(manifest))
    assert package.version == root.version
    assert package.maintainers[0].email == root.maintainers[0].email
    assert package.licenses == root.licenses


@pytest.mark.parametrize("name", NAMES)
def test_each_package_has_the_licence(name: str) -> None:
    assert (ROOT / name / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_changelog_has_the_present_version(root) -> None:
    changelog = pytest.importorskip("catkin_pkg.changelog", reason="needs docutils")
    versions = changelog.get_changelog_from_path(str(ROOT / "CHANGELOG.rst")).foreach_version()
    assert root.version in [version for version, _, _ in versions]


@pytest.mark.parametrize("name", ["edgetpu_ros", *NAMES])
def test_packages_are_installed_under_their_own_names(name: str) -> None:
    assert (Path(index.get_package_share_directory(name)) / "package.xml").is_file()


@pytest.mark.parametrize("name", PYTHON_PACKAGES)
def test_every_python_module_is_installed(name: str) -> None:
    source = ROOT / name / name
    installed = Path(str(distribution(name).locate_file(name)))
    modules = {
        path.relative_to(source) for path in source.rglob("*") if path.suffix in (".py", ".fbs", ".typed")
    }
    assert {path for path in modules if not (installed / path).is_file()} == set()


@pytest.mark.parametrize("name", PYTHON_PACKAGES)
def test_console_scripts_are_where_ros2_run_looks(name: str) -> None:
    scripts = {point.name for point in distribution(name).entry_points.select(group="console_scripts")}
    installed = Path(index.get_package_prefix(name)) / "lib" / name
    assert {path.name for path in installed.glob("*")} == scripts


def test_graph_families_are_found_by_their_entry_point() -> None:
    assert {point.name for point in entry_points(group="edgetpu.graphs")} >= {"edgetpu_perception"}


def test_nodes_are_found_by_their_entry_points() -> None:
    points = entry_points(group="edgetpu.nodes")
    assert {point.name for point in points} >= {"edgetpu", "spot_tracker", "reservoir"}


def test_the_command_is_on_the_path() -> None:
    command = shutil.which("edgetpu")
    assert command is not None
    subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL)
