"""`edgetpu models import`: compiled models are recognised, or refused with the reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from edgetpu_driver.backends.virtual import pack_for_virtual_stick
from edgetpu_driver.cli.main import main
from edgetpu_driver.cli.models import model_folder
from edgetpu_driver.compiled_model import VIRTUAL_COMPILER
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.toolchain.graph_catalogue import Catalogue
from edgetpu_driver.toolchain.graph_family import GraphFamily
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from testdata import ModelFolder

DENSE_64: dict[str, Any] = {
    "matrix_size": 64,
    "input_scale": 1 / 127,
    "input_zero_point": 128,
    "output_scale": dense.output_scale(64),
    "output_zero_point": 128,
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory with a compiled dense_64, as from Google's compiler, its graph and its sidecar."""
    directory = tmp_path / "source"
    directory.mkdir()
    graph = dense.build(64)
    packed = pack_for_virtual_stick({"dense_64": graph}, together=False)["dense_64"]
    real = packed.replace(VIRTUAL_COMPILER.encode(), b"google".ljust(len(VIRTUAL_COMPILER)))
    (directory / "dense_64.tflite").write_bytes(graph)
    (directory / "dense_64_edgetpu.tflite").write_bytes(real)
    (directory / "dense_64_edgetpu.json").write_text(json.dumps(DENSE_64))
    return directory


def take_over(
    capsys: pytest.CaptureFixture[str], source: Path, output: Path, *options: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code and the result of each model."""
    code = main(["models", "import", str(source), "--output", str(output), "--json", *options])
    return code, {row["name"]: row for row in json.loads(capsys.readouterr().out)["models"]}


def test_a_model_is_copied_with_its_graph_and_sidecar(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, models = take_over(capsys, source, tmp_path / "models")
    assert (code, models["dense_64"]["kind"]) == (0, "dense")
    assert models["dense_64"]["backends"] == ["usb", "virtual", "cpu"]
    copied = sorted(path.name for path in (tmp_path / "models").iterdir())
    assert copied == ["dense_64.tflite", "dense_64_edgetpu.json", "dense_64_edgetpu.tflite"]
    files = ModelDirectories([tmp_path / "models"], compiled=True, uncompiled=False)
    assert files.find("dense_64").read_bytes() == (source / "dense_64_edgetpu.tflite").read_bytes()


@pytest.mark.parametrize(
    "absent", ["dense_64_edgetpu.json", "dense_64.tflite"], ids=["by its graph", "by its sidecar"]
)
def test_a_model_is_recognised_by_what_there_is(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], absent: str
) -> None:
    (source / absent).unlink()
    _, models = take_over(capsys, source, tmp_path / "models")
    assert models["dense_64"]["kind"] == "dense"


def test_a_matrix_alone_is_recognised_by_its_tensors_and_parameters(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source / "dense_64_edgetpu.json").unlink()
    (source / "dense_64.tflite").unlink()
    _, models = take_over(capsys, source, tmp_path / "models")
    assert (models["dense_64"]["kind"], models["dense_64"]["backends"]) == ("dense", ["usb"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"matrix_size": 128}, r"its sidecar states an input \[128\], the model has \[64\]"),
        ({"input_scale": 0.008}, "its sidecar states input scale 0.008"),
        ({"output_zero_point": "128"}, "its sidecar states output scale .* zero point 128, the model"),
        ({"output_scale": None}, "its sidecar states output scale None"),
        ({"output_scale": 10**400}, "its sidecar states output scale 1000"),
    ],
)
def test_a_sidecar_that_contradicts_its_model_is_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], reason: str
) -> None:
    (source / "dense_64_edgetpu.json").write_text(json.dumps(DENSE_64 | change))
    code, models = take_over(capsys, source, tmp_path / "models")
    assert code == 1
    assert re.match(reason, models["dense_64"]["refused"])
    assert not (tmp_path / "models").exists()


def test_a_graph_of_an_installed_package_is_recognised_by_its_name_and_bytes(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("wings_1", "wings_2", "nose"):
        (source / f"{name}.tflite").write_bytes(graph.read_bytes())
    built = {"1": graph.read_bytes(), "2": b"another graph"}
    family = GraphFamily("wings_<n>", re.compile(r"wings_(\d)"), built.__getitem__, "flying", ())
    monkeypatch.setattr(model_folder, "catalogue", lambda: Catalogue((family,), ()))
    _, models = take_over(capsys, source, tmp_path / "models")
    assert (models["wings_1"]["kind"], models["wings_1"]["use"]) == ("own", "flying")
    assert (models["wings_2"]["kind"], models["nose"]["kind"]) == ("other", "other")
    assert models["nose"]["use"] == "a vision node, if one suits its outputs; ~/invoke; edgetpu run"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("dense_64_edgetpu.json", b"{", "its sidecar is not JSON"),
        ("dense_64_edgetpu.json", b"[1]", "expected a JSON object in its sidecar; got list"),
        ("dense_64_edgetpu.tflite", b"nonsense", "model"),
        ("dense_64_edgetpu.tflite", dense.build(64), "is not compiled for the Edge TPU"),
        ("dense_64.tflite", dense.build(128), "it was compiled from another graph"),
    ],
)
def test_damaged_files_are_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, reason: str
) -> None:
    (source / name).write_bytes(content)
    code, models = take_over(capsys, source, tmp_path / "models")
    assert code == 1
    assert reason in models["dense_64"]["refused"]


def test_a_name_behind_which_is_no_file_is_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source / "gone.tflite").symlink_to(tmp_path / "nowhere")
    (source / "folder_edgetpu.tflite").mkdir()
    code, models = take_over(capsys, source, tmp_path / "models")
    assert code == 1
    assert all("expected a file" in models[name]["refused"] for name in ("gone", "folder"))


def test_other_files_of_that_name_are_kept_by_default(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "models"
    output.mkdir()
    (output / "dense_64.tflite").write_bytes(b"mine")
    code, models = take_over(capsys, source, output)
    assert code == 1
    assert "exists with other content" in models["dense_64"]["refused"]
    assert (output / "dense_64.tflite").read_bytes() == b"mine"
    assert take_over(capsys, source, output, "--overwrite")[0] == 0
    assert (output / "dense_64.tflite").read_bytes() == dense.build(64)


def test_a_model_that_cannot_be_written_does_not_keep_the_others(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source / "dense_32.tflite").write_bytes(dense.build(32))
    obstacle = tmp_path / "models" / "dense_32.tflite"
    obstacle.mkdir(parents=True)
    code, models = take_over(capsys, source, tmp_path / "models")
    assert (code, models["dense_32"]["refused"]) == (1, f"{obstacle}: Is a directory")
    assert len(models["dense_64"]["written"]) == 3


def test_a_directory_without_models_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "import", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"edgetpu: expected .tflite files in {tmp_path}; there are none\n"


def test_the_templates_of_another_library(
    golden: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(golden.models()) == set(golden.path.glob("*.tflite"))
    code, models = take_over(capsys, golden.path, tmp_path / "models")
    assert code == 1
    kinds = {name: row.get("kind", "refused") for name, row in models.items()}
    assert {name: kind for name, kind in kinds.items() if kind != "other"} == {
        "bright_64x64": "spot",
        "color_blue_64x64": "spot_color",
        "color_red_64x64": "spot_color",
        "dense_256": "dense",
        "gabor_64x64_7k_4o_2s": "gabor",
        "gabor_64x64_p4": "gabor",
        "keras_lstm_mnist_ptq": "refused",
        "looming_64x64_3x3": "looming",
        "pattern_64x64_16x16_1ch": "pattern",
        "pattern_64x64_8x8_1ch": "pattern",
    }
    assert "not fully deterministic" in models["keras_lstm_mnist_ptq"]["refused"]
    assert models["pattern_64x64_8x8_1ch"]["backends"] == ["virtual", "cpu"]
    for name in ("deeplabv3_mnv2_pascal_quant", "posenet_mobilenet_v1_075_353_481_16_quant_decoder"):
        assert models[name]["backends"] == ["usb", "virtual", "cpu"]
    (poses,) = models["posenet_mobilenet_v1_075_353_481_16_quant_decoder"]["cpu_operators"]
    assert poses == "PosenetDecoderOp"


@pytest.mark.parametrize("name", ["bright_64x64", "color_red_64x64", "dense_256", "looming_64x64_3x3"])
def test_templates_without_sidecars_are_recognised_by_their_graphs(
    golden: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for suffix in (".tflite", "_edgetpu.tflite"):
        (tmp_path / f"{name}{suffix}").write_bytes(golden.model(f"{name}{suffix}").read_bytes())
    _, models = take_over(capsys, tmp_path, tmp_path / "models")
    expected = {"bright_64x64": "spot", "color_red_64x64": "spot_color"}
    assert models[name]["kind"] == expected.get(name, name.split("_")[0])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"conv_weight_offsets": [0, 16]}, "does not give 64 different weight offsets"),
        ({"conv_weight_offsets": [0] * 64}, "does not give 64 different weight offsets"),
        ({"kernel_height": None}, "expected a kernel size in its sidecar; got [None,"),
        ({"search_width": 128}, "its sidecar states an input"),
    ],
)
def test_a_pattern_whose_weights_have_no_offset_is_refused(
    golden: ModelFolder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    reason: str,
) -> None:
    name = "pattern_64x64_8x8_1ch"
    stated = json.loads(golden.model(f"{name}_edgetpu.json").read_text())
    (tmp_path / f"{name}_edgetpu.json").write_text(json.dumps(stated | change))
    (tmp_path / f"{name}.tflite").write_bytes(golden.model(f"{name}.tflite").read_bytes())
    _, models = take_over(capsys, tmp_path, tmp_path / "models")
    assert reason in models[name]["refused"]
