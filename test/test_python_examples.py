"""Every block of Python in the documentation runs as it stands, given the files and names it mentions."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="examples run models with LiteRT")

import cv2
from rclpy.node import Node

from edgetpu_driver import CompiledModel, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.cli.main import main
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocations
from edgetpu_perception.nodes import looming_node
from testdata import GOLDEN
from testdata.graphs.color_embedding_graph import color_embedding_graph, colored
from testdata.graphs.exported_graphs import Values, exported_graph
from testdata.graphs.yolo_graph import yolo_graph

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))),
)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = {
    f"{page} {number}": block
    for page in PAGES
    for number, block in enumerate(BLOCK.findall((ROOT / page).read_text()), 1)
}
PRINTED = re.compile(r"^print\(.*\)  # (-?\d[\d. -]*):", re.MULTILINE)
MOBILENET = "mobilenet_v1_0.25_128_quant"

Names = dict[str, Any]


def a_node(_: pytest.MonkeyPatch) -> Names:
    """A node of the reader's, which records what is asked of it, and an image."""
    return {"node": mock.create_autospec(Node, instance=True), "view": np.zeros((480, 640), np.uint8)}


def vision_models(_: pytest.MonkeyPatch) -> Names:
    """A detector of 80 classes and a classifier of 1001 under the names of published ones."""
    objects = [(0, 0.9, (0.5, 0.5, 0.2, 0.2))]
    Path("yolov8n_full_integer_quant.tflite").write_bytes(yolo_graph(objects, 80))
    scores = np.zeros((1, 1001))
    scores[0, 283] = 0.9
    graph = exported_graph(8, 8, {"scores": Values(scores, 1 / 256)})
    Path("mobilenet_v2_1.0_224_quant.tflite").write_bytes(graph)
    Path("imagenet_labels.txt").write_text("\n".join(f"label {number}" for number in range(1001)))
    return {}


def dense_model(_: pytest.MonkeyPatch) -> Names:
    """dense_256, made by the command that the text gives."""
    assert main(["models", "build", "dense_256", "--output", "."]) == 0
    assert main(["models", "compile", "dense_256.tflite"]) == 0
    return {}


def embedding_model(_: pytest.MonkeyPatch) -> Names:
    """An embedding model under the name of a published one, pictures of mugs, and an image of a door."""
    Path("mobilenet_v1_1.0_224_quant_embedding_extractor.tflite").write_bytes(color_embedding_graph())
    Path("pictures/mugs").mkdir(parents=True)
    cv2.imwrite("pictures/mugs/red.png", colored(0, 0, 255))
    return {"image": colored(0, 255, 0)}


def network(_: pytest.MonkeyPatch) -> Names:
    """A compiled network with its graph next to it."""
    Path("mobilenet.tflite").write_bytes(GOLDEN.path(f"vision/{MOBILENET}.tflite").read_bytes())
    compiled = GOLDEN.path(f"models/{MOBILENET}_edgetpu.tflite").read_bytes()
    Path("mobilenet_edgetpu.tflite").write_bytes(compiled)
    return {}


def network_on_a_stick(patch: pytest.MonkeyPatch) -> Names:
    """That network on the stick that `EdgeTpu.open()` finds, and new weights for its last layer."""
    network(patch)
    model, graph = CompiledModel.load("mobilenet_edgetpu.tflite"), Path("mobilenet.tflite").read_bytes()
    stick = VirtualEdgeTpu().register_model(model, model.source_part(graph))
    patch.setattr(EdgeTpu, "open", partial(EdgeTpu.open, usb_backend=stick))
    known = (place.tensor for place in WeightLocations(model, SidecarFiles(graph)).known)
    layer = next(tensor for tensor in known if "Logits" in tensor.name)
    return {"layer": layer.name, "weights": np.zeros(layer.shape), "bias": np.zeros(layer.scales.size)}


def dense_program(patch: pytest.MonkeyPatch) -> Names:
    """The program that multiplies by a matrix, and its input."""
    dense_model(patch)
    assert main(["program", "extract", "dense_256_edgetpu.tflite"]) == 0
    return {"program": Path("dense_256.execution.bin").read_bytes(), "data": bytes(256)}


def imports_of_looming(_: pytest.MonkeyPatch) -> Names:
    """What the module of the real node imports."""
    return vars(looming_node).copy()


GIVEN: dict[str, Callable[[pytest.MonkeyPatch], Names]] = {
    "README.md 1": a_node,
    "README.md 3": vision_models,
    "README.md 4": dense_model,
    "README.md 5": dense_model,
    "CONTRIBUTING.md 1": imports_of_looming,
    "docs/learning.md 1": embedding_model,
    "docs/weight_locations.md 1": network,
    "docs/programs.md 1": dense_program,
    "docs/supervision.md 1": a_node,
    "docs/weights.md 2": network_on_a_stick,
}


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_python_runs(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = GIVEN[block](monkeypatch) if block in GIVEN else {}
    capsys.readouterr()
    exec(compile(BLOCKS[block], block, "exec"), names)
    figures = [float(number) for text in PRINTED.findall(BLOCKS[block]) for number in text.split()]
    printed = [float(number) for number in capsys.readouterr().out.split()[: len(figures)]] if figures else []
    assert printed == pytest.approx(figures, abs=5e-4)


IMPORTS = sorted(
    {
        (statement.module, alias.name)
        for block in BLOCKS.values()
        for statement in ast.walk(ast.parse(block))
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }
)


@pytest.mark.filterwarnings("ignore:importing 'qos_event' is deprecated")
@pytest.mark.parametrize(("module", "name"), IMPORTS)
def test_what_a_block_imports_exists(module: str, name: str) -> None:
    """Also where a block imports it only in place of something else, for another version of ROS."""
    pytest.importorskip(module, reason=f"this version of ROS has no {module}")
    assert hasattr(importlib.import_module(module), name)


def test_every_page_with_python_is_read() -> None:
    assert len(BLOCKS) >= 13
    assert GIVEN.keys() <= BLOCKS.keys()
