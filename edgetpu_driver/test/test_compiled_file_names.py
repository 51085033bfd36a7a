"""Names of compiled files, and where their graph is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetpu_driver.files.compiled_file_names import common_name, source_graph
from edgetpu_driver.weights.sidecar_files import SidecarFiles

GRAPHS = {
    "x_edgetpu.tflite": "x.tflite",
    "x_edgetpu_decoder.tflite": "x_decoder.tflite",
    "x_segment_0_of_2_edgetpu.tflite": "x.tflite",
    "x_cocompiled_with_y_edgetpu.tflite": "x.tflite",
    "mobilenet_edgetpu_slim_edgetpu.tflite": "mobilenet_edgetpu_slim.tflite",
    "mobilenet_edgetpu_slim_segment_1_of_2_edgetpu.tflite": "mobilenet_edgetpu_slim.tflite",
}


@pytest.mark.parametrize(("compiled", "graph"), GRAPHS.items())
def test_the_graph_has_the_name_that_the_compiler_was_given(
    tmp_path: Path, compiled: str, graph: str
) -> None:
    (tmp_path / graph).write_bytes(b"graph")
    assert source_graph(tmp_path / compiled) == tmp_path / graph
    assert SidecarFiles.next_to(tmp_path / compiled).graph == b"graph"


def test_a_model_without_its_graph_has_none(tmp_path: Path) -> None:
    (tmp_path / "y.tflite").touch()
    assert source_graph(tmp_path / "x_edgetpu.tflite") is None


@pytest.mark.parametrize(
    ("names", "common"),
    [
        (["x"], "x"),
        (["x_segment_0_of_2", "x_segment_1_of_2"], "x"),
        (["x", "y"], "x + y"),
        (["x_segment_0_of_2", "y_segment_1_of_2"], "x_segment_0_of_2 + y_segment_1_of_2"),
    ],
)
def test_segments_of_a_pipeline_have_the_name_of_their_model(names: list[str], common: str) -> None:
    assert common_name(names) == common
