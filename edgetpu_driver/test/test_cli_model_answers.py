"""What the commands that run models say about the file and about where it runs, and pictures as inputs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.cli.main import main
from edgetpu_driver.cli.tensor_files import read_inputs
from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.model_reader import Tensor
from edgetpu_driver.tflite.model_writer import OperatorRecord, write_model
from edgetpu_driver.tflite.tensor import TensorSpec
from testdata import ModelFolder

pytest.importorskip("ai_edge_litert", reason="LiteRT computes the results (pip install ai-edge-litert)")
pytestmark = pytest.mark.usefixtures("graphs_in_this_process")


@pytest.mark.parametrize(
    "arguments",
    [("info",), ("run", "--backend", "cpu", "--input", "x.npy"), ("benchmark", "--backend", "virtual")],
    ids=lambda arguments: arguments[0],
)
def test_a_file_that_is_no_model_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    path = tmp_path / "labels.tflite"
    path.write_bytes(b"cat\ndog\nmouse\n")
    assert main([*arguments, str(path)]) == 1
    assert f"{path}: model: expected the file identifier TFL3" in capsys.readouterr().err


def test_benchmark_tells_of_uploaded_parameters(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", str(graph), "--backend", "virtual", "--runs", "2"]) == 0
    assert " ms, parameters uploaded\n" in capsys.readouterr().out


def test_benchmark_says_if_the_stick_has_no_part_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, shape = tmp_path / "float.tflite", (1, 4)
    tensors = [Tensor(name, shape, np.dtype(np.float32)) for name in ("x", "y")]
    path.write_bytes(write_model("float", tensors, [OperatorRecord("ABS", 1, (0,), (1,))], [0], [1]))
    assert main(["benchmark", str(path), "--backend", "virtual", "--runs", "2"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("all of it runs on the CPU, nothing on the virtual stick: ")
    assert "uploaded" not in output


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_a_picture_has_the_axes_of_the_input(tmp_path: Path, dtype: type[np.integer]) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV reads images")
    rgb = np.random.default_rng(0).integers(0, 256, (8, 9, 3), np.uint8)
    path = tmp_path / "picture.png"
    cv2.imwrite(str(path), rgb[:, :, ::-1])
    image = TensorSpec("image", (1, 3, 8, 9), np.dtype(dtype), 0.0, 0)
    found = read_inputs([image], [str(path)])["image"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, rgb.transpose(2, 0, 1)[None])


def test_a_sequence_of_readings_is_no_picture(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="OpenCV reads images")
    readings = TensorSpec("readings", (1, 128, 6), np.dtype(np.float32), 0.0, 0)
    with pytest.raises(InputError, match=r"'readings' float32\[1, 128, 6\] is not an image"):
        read_inputs([readings], [str(tmp_path / "picture.png")])


@pytest.mark.parametrize(
    "arguments",
    [("info",), ("models", "compile"), ("benchmark", "--runs", "2", "--backend", "virtual")],
    ids=lambda arguments: arguments[0],
)
def test_the_name_of_a_file_need_not_be_utf_8(graph: Path, arguments: tuple[str, ...]) -> None:
    path = graph.rename(graph.with_name(os.fsdecode(b"caf\xe9.tflite")))
    assert main([*arguments, str(path)]) == 0


def test_a_file_whose_name_is_not_utf_8_is_imported(graph: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    name = os.fsdecode(b"caf\xe9.tflite")
    graph.rename(source / name)
    assert main(["models", "import", str(source), "--output", str(target)]) == 0
    assert [path.name for path in target.iterdir()] == [name]


@pytest.mark.parametrize(
    "arguments",
    [
        ("info",),
        ("run", "--backend", "virtual", "--input", "x.npy"),
        ("selftest", "--backend", "virtual", "--model"),
        ("models", "retarget", "new.tflite"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_damaged_graph_next_to_a_compiled_model_is_named(
    golden: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    compiled, graph = tmp_path / "looming_64x64_3x3_edgetpu.tflite", tmp_path / "looming_64x64_3x3.tflite"
    compiled.write_bytes(golden.model(compiled.name).read_bytes())
    graph.write_bytes(b"404: Not Found")
    files = [compiled]
    if "retarget" in arguments:
        arguments, files = arguments[:-1], [compiled, tmp_path / arguments[-1]]
        files[1].write_bytes(golden.model(graph.name).read_bytes())
    assert main([*arguments, *map(str, files)]) == 1
    assert f"edgetpu: {graph}: model: expected the file identifier TFL3" in capsys.readouterr().err
