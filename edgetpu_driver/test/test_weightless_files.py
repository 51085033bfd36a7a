"""Files without weights keep everything but the weights."""

from __future__ import annotations

import io
import zipfile
import zlib

import numpy as np
import pytest

from edgetpu_driver.errors import InputError, ModelFormatError
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.weightless_files import weightless_files, without_weights
from edgetpu_driver.toolchain import dense_graph
from testdata import GOLDEN

TAIL = "models/ssd_mobilenet_v1_coco_quant_postprocess_segment_1_of_2_edgetpu.tflite"


def test_weights_are_zeros() -> None:
    graph = dense_graph.build(64)
    (file,) = weightless_files(without_weights([graph]))
    before, after = parse_model(graph).subgraphs[0], parse_model(file).subgraphs[0]
    assert (after.input_specs, after.output_specs) == (before.input_specs, before.output_specs)
    assert [each.name for each in after.operators] == [each.name for each in before.operators]
    assert max(len(tensor.data) for tensor in after.tensors) == 64 * 64
    assert not any(any(tensor.data) for tensor in after.tensors if len(tensor.data) == 64 * 64)


def test_anchors_are_kept_and_programs_are_not() -> None:
    data = GOLDEN.path(TAIL).read_bytes()
    sent = without_weights([data])
    assert len(sent) < 40_000
    before, after = parse_model(data).subgraphs[0], parse_model(weightless_files(sent)[0]).subgraphs[0]
    anchors = next(each for each in before.operators if each.custom_code.startswith("TFLite")).inputs[2]
    assert after.tensors[anchors].data == before.tensors[anchors].data
    program = next(each for each in after.operators if each.custom_code == "edgetpu-custom-op")
    assert not np.frombuffer(program.custom_options, np.uint8).any()


def test_an_archive_behind_the_model_is_kept() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("labels.txt", "cat\ndog\n")
    (file,) = weightless_files(without_weights([dense_graph.build(64) + archive.getvalue()]))
    with zipfile.ZipFile(io.BytesIO(file)) as reader:
        assert reader.read("labels.txt") == b"cat\ndog\n"


def test_several_files_come_back_in_their_order() -> None:
    sizes = [len(file) for file in weightless_files(without_weights(map(dense_graph.build, (64, 128))))]
    assert sizes == [len(dense_graph.build(64)), len(dense_graph.build(128))]


def test_no_files_are_nothing() -> None:
    assert weightless_files(without_weights([])) == ()


def test_a_file_that_is_no_model_is_an_error() -> None:
    with pytest.raises(ModelFormatError):
        without_weights([b"no model"])


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"no zlib", "compressed by zlib"), (without_weights([dense_graph.build(64)])[:-9], "complete files")],
)
def test_damaged_bytes_are_an_error(data: bytes, expected: str) -> None:
    with pytest.raises(InputError, match=f"expected .*{expected}"):
        weightless_files(data)


def test_files_together_are_no_larger_than_one_may_be() -> None:
    small = zlib.compress(bytes(1 << 20), 9)
    assert len(weightless_files(small * 2, largest=2 << 20)) == 2
    with pytest.raises(InputError, match="expected complete files of at most 2097152 bytes together"):
        weightless_files(small * 3, largest=2 << 20)
