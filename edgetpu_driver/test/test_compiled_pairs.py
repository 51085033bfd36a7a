"""The CPU runs the graph next to a compiled file, and says if that file was compiled from another graph."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.backends.whole_model_parsing import parse_whole
from edgetpu_driver.cli.main import main
from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.host.models.model_parts import read_model
from edgetpu_driver.toolchain import dense_graph
from edgetpu_driver.toolchain.dense_compiler import compile_dense
from edgetpu_driver.virtual.graph_packer import pack
from testdata import ModelFolder
from testdata.graphs.compiled_graphs import compiled_graph, source_graph

pytest.importorskip("ai_edge_litert", reason="LiteRT runs the graph (pip install ai-edge-litert)")

OWN = "the CPU runs x.tflite, which x_edgetpu.tflite was compiled from"
OTHER = "the CPU runs x.tflite, but x_edgetpu.tflite is probably of another graph: it lacks "


def remark(folder: Path, compiled: bytes, graph: bytes) -> str:
    (folder / "x.tflite").write_bytes(graph)
    path = folder / "x_edgetpu.tflite"
    path.write_bytes(compiled)
    return parse_whole(make_backend("cpu"), [(path, compiled)]).remark


@pytest.mark.parametrize(
    "compiled_from",
    [lambda graph: pack(graph, name="x"), lambda graph: compile_dense(graph).file],
    ids=["packed", "generated"],
)
def test_weights_of_files_that_are_written_here_are_compared(
    tmp_path: Path, make_dense: Callable[[int], bytes], compiled_from: Callable[[bytes], bytes]
) -> None:
    compiled = compiled_from(make_dense(1))
    assert remark(tmp_path, compiled, make_dense(1)) == OWN
    assert remark(tmp_path, compiled, make_dense(2)) == OTHER + "the weights of the graph"


def test_all_parts_are_compared(tmp_path: Path) -> None:
    assert remark(tmp_path, compiled_graph(2), source_graph(2)) == OWN


def test_layers_that_edgetpu_compiler_wrote_are_compared(tmp_path: Path, golden: ModelFolder) -> None:
    paths = [golden.model(f"color_{name}_64x64_edgetpu.tflite") for name in ("red", "blue")]
    graphs = [path.with_name(path.name.replace("_edgetpu", "")).read_bytes() for path in paths]
    red = paths[0].read_bytes()
    assert remark(tmp_path, red, graphs[0]) == OWN
    expected = OTHER + "the weights of 1 of 3 layers, the first of them 'tfl.pseudo_qconst3'"
    assert remark(tmp_path, red, graphs[1]) == expected


def test_a_graph_with_other_inputs_is_refused(tmp_path: Path) -> None:
    expected = (
        r"x_edgetpu\.tflite: its graph has 'x' uint8\[1, 128\] where the compiled model has "
        r"'x' uint8\[1, 64\]: it was compiled from another graph"
    )
    with pytest.raises(ModelFormatError, match=expected):
        remark(tmp_path, pack(dense_graph.build(64), name="x"), dense_graph.build(128))


def test_a_damaged_compiled_file_is_not_compared(tmp_path: Path) -> None:
    found = remark(tmp_path, b"damaged", dense_graph.build(64))
    assert found.startswith("the CPU runs x.tflite, which cannot be compared with x_edgetpu.tflite: ")


def test_the_driver_logs_which_graph_the_cpu_runs(
    tmp_path: Path, make_dense: Callable[[int], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    compiled = pack(make_dense(1), name="x")
    (tmp_path / "x.tflite").write_bytes(make_dense(2))
    with caplog.at_level(logging.INFO):
        read_model(make_backend("cpu"), [(tmp_path / "x_edgetpu.tflite", compiled)])
    assert caplog.messages == [f"model 'x': {OTHER}the weights of the graph"]


def test_run_says_that_the_weights_differ(
    tmp_path: Path, make_dense: Callable[[int], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    remark(tmp_path, pack(make_dense(1), name="x"), make_dense(2))
    (tmp_path / "x.raw").write_bytes(bytes(16))
    arguments = ["run", tmp_path / "x_edgetpu.tflite", "--input", tmp_path / "x.raw", "--backend", "cpu"]
    assert main(list(map(str, arguments))) == 0
    assert capsys.readouterr().out.splitlines()[0] == OTHER + "the weights of the graph"
