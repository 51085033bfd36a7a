"""Imports go one way: which parts of the suite each part may import (docs/architecture.md)."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DRIVER = ROOT / "edgetpu_driver" / "edgetpu_driver"
PERCEPTION = ROOT / "edgetpu_perception" / "edgetpu_perception"
MATRIX = ROOT / "edgetpu_matrix" / "edgetpu_matrix"
VISION = ROOT / "edgetpu_vision" / "edgetpu_vision"
CONTROL = ROOT / "edgetpu_control" / "edgetpu_control"
DASHBOARD = ROOT / "edgetpu_dashboard" / "edgetpu_dashboard"
PACKAGES = DRIVER, PERCEPTION, MATRIX, VISION, CONTROL, DASHBOARD
ACCURACY = ROOT / "accuracy"
TOOLS = tuple(ROOT / name for name in ("accuracy", "bench", "demo", "drive", "fuzz", "soak"))
SHARED = ROOT / "measured_figures", ROOT / "testdata"
"""What the tools share."""

ROS = (
    "rclpy",
    "geometry_msgs",
    "edgetpu_msgs",
    "sensor_msgs",
    "std_msgs",
    "diagnostic_msgs",
    "lifecycle_msgs",
    "std_srvs",
    "nav_msgs",
    "vision_msgs",
)

_MODEL = {"errors", "files", "tflite", "compiled_model", "weights"}

# Folder or module at the top level of the driver -> the others it may import, at any depth.
DRIVER_PARTS: dict[str, set[str]] = {
    "errors": set(),
    "files": {"errors"},
    "tflite": {"errors", "files"},
    "darwinn": {"errors", "files"},
    "usb": {"errors", "files"},
    "compiled_model": {"errors", "files", "tflite", "darwinn"},
    "weights": {"errors", "files", "tflite", "darwinn", "compiled_model"},
    "stick": {*_MODEL, "darwinn", "usb"},
    "toolchain": {*_MODEL, "darwinn"},
    "engines": {*_MODEL, "stick", "toolchain"},
    "matrix": {*_MODEL, "darwinn", "engines", "toolchain"},
    "virtual": {*_MODEL, "darwinn", "usb", "engines", "toolchain"},
    "backends": {*_MODEL, "usb", "stick", "engines", "toolchain", "virtual"},
    "host": {*_MODEL, "usb", "engines", "toolchain", "matrix", "backends"},
    "images": {"errors"},
    "node_kit": {*_MODEL, "images", "toolchain", "matrix", "host"},
    "nodes": {*_MODEL, "engines", "toolchain", "backends", "host", "node_kit"},
    "cli": {*_MODEL, "darwinn", "usb", "images", "stick", "engines", "toolchain", "backends"},
    "__init__": {*_MODEL, "stick", "engines", "toolchain", "matrix", "virtual"},
}

LARGEST_MODULE = 400
"""Lines."""
MOST_DRIVER_PARTS = 20
"""Folders and files at the top level of the driver."""

# part -> what no module of it may import, at any depth
FORBIDDEN = {
    PERCEPTION: (
        "edgetpu_driver.usb",
        "edgetpu_driver.darwinn",
        "edgetpu_driver.stick",
        "edgetpu_driver.virtual",
        "edgetpu_matrix",
        "edgetpu_vision",
        "edgetpu_control",
        "edgetpu_dashboard",
    ),
    MATRIX: (
        "edgetpu_driver.usb",
        "edgetpu_driver.darwinn",
        "edgetpu_driver.stick",
        "edgetpu_driver.virtual",
        "edgetpu_perception",
        "edgetpu_vision",
        "edgetpu_control",
        "edgetpu_dashboard",
    ),
    VISION: (
        "edgetpu_driver.usb",
        "edgetpu_driver.darwinn",
        "edgetpu_driver.stick",
        "edgetpu_driver.virtual",
        "edgetpu_perception",
        "edgetpu_matrix",
        "edgetpu_control",
        "edgetpu_dashboard",
    ),
    CONTROL: (
        "edgetpu_driver.usb",
        "edgetpu_driver.darwinn",
        "edgetpu_driver.stick",
        "edgetpu_driver.virtual",
        "edgetpu_dashboard",
    ),
    DASHBOARD: (
        "edgetpu_driver.usb",
        "edgetpu_driver.darwinn",
        "edgetpu_driver.stick",
        "edgetpu_driver.virtual",
        "edgetpu_control",
    ),
    DRIVER: (
        "edgetpu_perception",
        "edgetpu_matrix",
        "edgetpu_vision",
        "edgetpu_control",
        "edgetpu_dashboard",
    ),
    ACCURACY / "scenes": ("accuracy.areas", "accuracy.conditions"),
    ACCURACY / "conditions": ("accuracy.areas",),
}

ROS_PARTS = (DRIVER / "node_kit", *(package / "nodes" for package in PACKAGES))

# The one place that may reach for the virtual device, and only when it is asked for.
VIRTUAL_IMPORTERS = ("__init__.py", "backends/factory.py", "backends/virtual.py")


@cache
def imports(module: Path) -> set[str]:
    """Full names of everything a module imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def offences(part: Path, forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{module.relative_to(ROOT)} imports {name}"
        for module in sorted(part.rglob("*.py"))
        for name in sorted(imports(module))
        if any(name == other or name.startswith(other + ".") for other in forbidden)
    ]


@cache
def modules(package: Path) -> dict[str, Path]:
    """Every module of a package by its full name."""
    return {
        ".".join((package.name, *path.relative_to(package).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): path
        for path in package.rglob("*.py")
    }


@cache
def imported_modules(package: Path) -> dict[str, set[str]]:
    """For each module of a package, the modules of the same package that it imports itself, at any depth."""
    known = modules(package)
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        names = {name if name in known else name.rpartition(".")[0] for name in imports(path)}
        graph[module] = (names & known.keys()) - {module, package.name}
    return graph


def cycles(graph: dict[str, set[str]]) -> list[str]:
    """One cycle of imports for each module from which one can be reached, if any."""
    found: list[str] = []
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            for other in sorted(graph[module]):
                visit(other, [*path, module])
            done.add(module)

    for module in graph:
        visit(module, [])
    return found


def imported_folders(roots: tuple[Path, ...], depth: int) -> dict[str, set[str]]:
    """For each module, or folder of modules, `depth` names deep, the others that it imports."""
    known = {name: path for root in roots for name, path in modules(root).items()}
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        names = {name if name in known else name.rpartition(".")[0] for name in imports(path)}
        parts = {".".join(name.split(".")[:depth]) for name in names & known.keys()}
        graph.setdefault(".".join(module.split(".")[:depth]), set()).update(parts)
    return {part: others - {part, part.split(".")[0]} for part, others in graph.items()}


def part_of(module: Path) -> str:
    return module.relative_to(DRIVER).parts[0].removesuffix(".py")


def test_every_part_of_the_driver_has_its_imports_listed() -> None:
    assert {part_of(module) for module in modules(DRIVER).values()} == DRIVER_PARTS.keys()


@pytest.mark.parametrize("part", DRIVER_PARTS)
def test_a_part_of_the_driver_imports_only_the_parts_it_may(part: str) -> None:
    known = modules(DRIVER)
    imported = {
        f"{module} imports {other}"
        for module, others in imported_modules(DRIVER).items()
        for other in others
        if part_of(known[module]) == part and part_of(known[other]) not in {part, *DRIVER_PARTS[part]}
    }
    assert imported == set()


def test_an_engine_for_one_graph_knows_nothing_of_whole_models() -> None:
    above = "edgetpu_driver.engines.whole_model", "edgetpu_driver.engines.cpu_operators"
    found = {
        f"{module.name} imports {name}"
        for module in (DRIVER / "engines").glob("*.py")
        for name in imports(module)
        if name.startswith(above)
    }
    assert found == set()


def test_the_listed_directions_have_no_cycle() -> None:
    assert cycles(DRIVER_PARTS) == []


@pytest.mark.parametrize("package", [*PACKAGES, *TOOLS, *SHARED], ids=lambda package: package.name)
def test_no_modules_import_each_other_in_a_cycle(package: Path) -> None:
    assert cycles(imported_modules(package)) == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_folders_of_a_package_import_each_other_in_a_cycle(package: Path) -> None:
    assert cycles(imported_folders((package,), 2)) == []


def test_no_folders_for_developers_import_each_other_in_a_cycle() -> None:
    assert cycles(imported_folders((*TOOLS, *SHARED), 1)) == []


def test_a_cycle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert cycles(graph) == ["b -> c -> b"]


def test_the_top_level_of_the_driver_can_be_taken_in_at_a_glance() -> None:
    parts = [path.name for path in DRIVER.iterdir() if path.name != "__pycache__"]
    assert len(parts) <= MOST_DRIVER_PARTS


@pytest.mark.parametrize("package", [*PACKAGES, *TOOLS], ids=lambda package: package.name)
def test_no_module_is_too_long_to_be_read_in_one_go(package: Path) -> None:
    lengths = {
        name: len(path.read_text().splitlines())
        for name, path in modules(package).items()
        if "schema" not in path.parts  # generated
    }
    assert {name: length for name, length in lengths.items() if length > LARGEST_MODULE} == {}


def test_no_test_file_is_too_long_to_be_read_in_one_go() -> None:
    files = [*ROOT.glob("test/*.py"), *ROOT.glob("edgetpu_*/test/*.py"), *ROOT.glob("testdata/*.py")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert len(lengths) > 200
    assert {name: length for name, length in lengths.items() if length > LARGEST_MODULE} == {}


@pytest.mark.parametrize("part", FORBIDDEN, ids=lambda part: str(part.relative_to(ROOT)))
def test_a_part_imports_nothing_it_must_not_know(part: Path) -> None:
    assert offences(part, FORBIDDEN[part]) == []


def test_ros_is_imported_in_the_nodes_and_the_client_only() -> None:
    found = [
        line
        for package in PACKAGES
        for line in offences(package, ROS)
        if not any(str(part.relative_to(ROOT)) in line for part in ROS_PARTS)
    ]
    assert found == []


def test_the_virtual_device_is_handed_in() -> None:
    found = [
        line
        for line in offences(DRIVER, ("edgetpu_driver.virtual",))
        if "edgetpu_driver/virtual/" not in line
        and not any(line.startswith(f"edgetpu_driver/edgetpu_driver/{name}") for name in VIRTUAL_IMPORTERS)
    ]
    assert found == []
