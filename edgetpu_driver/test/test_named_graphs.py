"""Graphs without a file: made by the catalogue from their names, served by the compiled file of another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver import CpuEngine, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.backends.usb import StickBackend
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.errors import ModelNotFoundError
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.toolchain import graph_catalogue
from edgetpu_driver.toolchain.graph_catalogue import GRAPHS_KEPT, Catalogue, named_graph, read_graph
from edgetpu_driver.toolchain.graph_family import GraphFamily
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from edgetpu_driver.toolchain.retargeting import compiled_sources
from edgetpu_driver.toolchain.retargeting.compiled_sources import retarget_beside
from edgetpu_driver.toolchain.retargeting.graph_retargeting import retarget
from testdata import GOLDEN

RED, BLUE = "color_red_64x64", "color_blue_64x64"


def golden(stem: str) -> bytes:
    return GOLDEN.path(f"models/{stem}.tflite").read_bytes()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One compiled colour and nothing else; the catalogue has the golden colours by their names."""
    (tmp_path / f"{RED}_edgetpu.tflite").write_bytes(golden(f"{RED}_edgetpu"))
    pattern = re.compile("(color_(?:red|blue)_64x64)")
    family = GraphFamily("color_<name>_64x64", pattern, golden, "a spot of a colour", ())
    monkeypatch.setattr(graph_catalogue, "catalogue", lambda: Catalogue((family,), ()))
    caches = graph_catalogue.named_graph, compiled_sources._form_of_name
    for cached in caches:
        cached.cache_clear()
    yield tmp_path
    for cached in caches:
        cached.cache_clear()


def test_one_compiled_file_alone_serves_every_colour_that_has_a_name(folder: Path) -> None:
    directories = ModelDirectories([folder], compiled=True, uncompiled=False)
    found = directories.find(BLUE)
    assert (found, found.exists()) == (folder / f"{BLUE}.tflite", False)
    made = CompiledModel.parse(retarget_beside(found, read_graph(found)).model.file, "made")
    wanted = CompiledModel.parse(golden(f"{BLUE}_edgetpu"), "wanted")
    assert made.execution.bitstreams == wanted.execution.bitstreams
    assert made.parameters == wanted.parameters


def test_a_name_of_no_graph_is_not_found(folder: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="no color_green_64x64_edgetpu"):
        ModelDirectories([folder], compiled=True, uncompiled=False).find("color_green_64x64")


def test_without_a_compiled_file_of_its_form_a_name_is_not_found(folder: Path) -> None:
    (folder / f"{RED}_edgetpu.tflite").unlink()
    with pytest.raises(ModelNotFoundError, match="there are no models"):
        ModelDirectories([folder], compiled=True, uncompiled=False).find(BLUE)


def test_a_driver_runs_a_colour_of_which_there_is_no_file(folder: Path) -> None:
    virtual = VirtualEdgeTpu()
    made = retarget(golden(f"{RED}_edgetpu"), golden(RED), golden(BLUE), BLUE)
    virtual.register_model(CompiledModel.parse(made.file, BLUE), golden(BLUE))
    host = ModelHost([StickBackend(lambda _: EdgeTpu.open(virtual))], [folder])
    host.connect()
    pixels = np.random.default_rng(2).integers(0, 256, (1, 64, 64, 3), np.uint8)
    (source,) = host.load(BLUE).inputs
    outputs = host.invoke(BLUE, {source.name: pixels}).outputs
    host.close()
    for key, value in CpuEngine(golden(BLUE)).run({source.name: pixels}).items():
        np.testing.assert_array_equal(outputs[key], value)
    assert [path.name for path in folder.iterdir()] == [f"{RED}_edgetpu.tflite"]


def test_only_the_last_graphs_are_kept() -> None:
    names = [f"dense_{size}" for size in range(8, 8 + GRAPHS_KEPT + 1)]
    first, *_, last = [named_graph(name) for name in names]
    assert named_graph(names[-1]) is last
    assert named_graph(names[0]) == first
    assert named_graph(names[0]) is not first
