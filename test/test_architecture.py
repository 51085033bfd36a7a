"""Imports go one way: what each part of the suite may know of the others (docs/architecture.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DRIVER = ROOT / "edgetpu_driver" / "edgetpu_driver"
PERCEPTION = ROOT / "edgetpu_perception" / "edgetpu_perception"
MATRIX = ROOT / "edgetpu_matrix" / "edgetpu_matrix"

ROS = (
    "rclpy",
    "geometry_msgs",
    "edgetpu_msgs",
    "sensor_msgs",
    "std_msgs",
    "diagnostic_msgs",
    "lifecycle_msgs",
    "std_srvs",
)

# part -> what no module of it may import, at any depth
FORBIDDEN = {
    DRIVER / "tflite": (
        "edgetpu_driver.darwinn",
        "edgetpu_driver.usb",
        "edgetpu_driver.stick.edge_tpu",
        "edgetpu_driver.virtual",
    ),
    DRIVER / "darwinn": (
        "edgetpu_driver.tflite",
        "edgetpu_driver.usb",
        "edgetpu_driver.stick.edge_tpu",
        "edgetpu_driver.virtual",
    ),
    DRIVER / "usb": (
        "edgetpu_driver.tflite",
        "edgetpu_driver.darwinn",
        "edgetpu_driver.stick.edge_tpu",
        "edgetpu_driver.virtual",
    ),
    DRIVER / "engines": ("edgetpu_driver.nodes", "edgetpu_driver.virtual"),
    DRIVER / "virtual": ("edgetpu_driver.nodes",),
    PERCEPTION: (
        "edgetpu_driver.usb",
        "edgetpu_driver.darwinn",
        "edgetpu_driver.stick.edge_tpu",
        "edgetpu_driver.virtual",
    ),
    MATRIX: (
        "edgetpu_driver.usb",
        "edgetpu_driver.darwinn",
        "edgetpu_driver.stick.edge_tpu",
        "edgetpu_driver.virtual",
        "edgetpu_perception",
    ),
    DRIVER: ("edgetpu_perception", "edgetpu_matrix"),
}

ROS_PARTS = (DRIVER / "nodes", DRIVER / "node_kit", PERCEPTION / "nodes", MATRIX / "nodes")

# The one place that may reach for the virtual device, and only when it is asked for.
VIRTUAL_IMPORTERS = ("__init__.py", "backends/factory.py", "backends/virtual.py")


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


@pytest.mark.parametrize("part", FORBIDDEN, ids=lambda part: str(part.relative_to(ROOT)))
def test_a_part_imports_nothing_it_must_not_know(part: Path) -> None:
    assert offences(part, FORBIDDEN[part]) == []


def test_ros_is_imported_in_the_nodes_and_the_client_only() -> None:
    found = [
        line
        for package in (DRIVER, PERCEPTION, MATRIX)
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
