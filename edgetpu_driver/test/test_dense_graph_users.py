"""Drivers and commands run a Dense graph without a file of Google's compiler."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver import EdgeTpu, VirtualEdgeTpu, WeightRequest
from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.backends.usb import StickBackend
from edgetpu_driver.cli.main import main
from edgetpu_driver.compiled_model import DENSE_COMPILER
from edgetpu_driver.errors import ModelNotFoundError, ModelUnsupportedError
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.toolchain import dense_graph
from edgetpu_driver.toolchain.dense_compiler import dense_model
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from testdata.graphs.dense_graphs import two_layers


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "dense_256.tflite").write_bytes(dense_graph.build(256))
    (tmp_path / "two.tflite").write_bytes(two_layers())
    return tmp_path


def test_usb_needs_no_compiled_file_for_a_matrix(models: Path) -> None:
    files = ModelDirectories([models], compiled=True, uncompiled=False)
    path = files.find("dense_256")
    assert files.available() == [path] == [models / "dense_256.tflite"]
    parsed = make_backend("usb").parse(path, path.read_bytes())
    assert parsed.unsupported_reason == ""
    assert parsed.source.compiler == DENSE_COMPILER
    with pytest.raises(ModelUnsupportedError, match=r"run: edgetpu models compile .*/two\.tflite"):
        files.find("two")
    with pytest.raises(ModelNotFoundError, match=r"no dense_512_edgetpu\.tflite"):
        files.find("dense_512")


def test_usb_prefers_the_compiled_file(models: Path) -> None:
    compiled_path = models / "dense_256_edgetpu.tflite"
    compiled_path.write_bytes(dense_model(256).file)
    files = ModelDirectories([models], compiled=True, uncompiled=False)
    assert files.find("dense_256") == compiled_path
    assert files.available() == [compiled_path]


@pytest.mark.parametrize("shape", [(100, 50), (300, 400)])
def test_a_driver_on_usb_multiplies_without_a_compiled_file(models: Path, shape: tuple[int, int]) -> None:
    """The backend `usb` on a stick that behaves like one on the bus, without a registered graph."""
    host = ModelHost([StickBackend(lambda _: EdgeTpu.open(VirtualEdgeTpu()))], [models])
    host.connect()
    host.load("dense_256")
    matrix = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    vector = np.linspace(-1, 1, shape[1], dtype=np.float32)
    host.set_weights("dense_256", WeightRequest(matrix))
    result = host.multiply("dense_256", ProductRequest(vector))
    exact = matrix @ vector
    assert np.linalg.norm(result.outputs[: shape[0]] - exact) / np.linalg.norm(exact) < 0.03
    host.close()


def test_the_command_writes_the_program_and_says_so(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "compile", str(models / "dense_256.tflite")]) == 0
    text = capsys.readouterr().out
    assert "generated without edgetpu_compiler: the program equals Google's for this size" in text
    sidecar = json.loads((models / "dense_256_edgetpu.json").read_text())
    assert (sidecar["matrix_size"], sidecar["compiler"]) == (256, DENSE_COMPILER)
    assert main(["info", str(models / "dense_256_edgetpu.tflite")]) == 0
    assert "generated without edgetpu_compiler: the program equals Google's" in capsys.readouterr().out


def test_info_says_that_usb_runs_the_graph_itself(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(models / "dense_256.tflite")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "on usb yes: its program is generated without edgetpu_compiler: the program equals Google's" in text
    )


def test_compiling_again_replaces_what_was_written_here(models: Path) -> None:
    graph = str(models / "dense_256.tflite")
    assert main(["models", "compile", graph]) == 0
    before = (models / "dense_256_edgetpu.tflite").read_bytes()
    assert main(["models", "compile", graph]) == 0
    assert (models / "dense_256_edgetpu.tflite").read_bytes() == before
