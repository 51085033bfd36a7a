"""`edgetpu info`: what it says of a graph, of a compiled model, and of several files."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.cli.main import main
from edgetpu_driver.tflite import model_reader
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import edgetpu_compiler
from edgetpu_driver.virtual.graph_packer import pack
from testdata import ModelFolder
from testdata.graphs.compiled_graphs import compiled_graph, source_graph
from testdata.graphs.pipelines import compile_pipeline


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """Exit code and value of a command with --json."""
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_info_of_a_plain_graph_lists_tensors_and_operators(
    capsys: pytest.CaptureFixture[str], graph: Path
) -> None:
    code, value = answer(capsys, "info", graph)
    assert code == 0
    assert value["compiled"] is False
    assert value["inputs"] == [
        {"name": "x", "dtype": "uint8", "shape": [1, 2], "scale": 0.5, "zero_point": 128}
    ]
    assert [each["name"] for each in value["operators"]] == ["QUANTIZE", "FULLY_CONNECTED", "QUANTIZE"]


def test_info_of_a_compiled_model_shows_its_executables(
    capsys: pytest.CaptureFixture[str], golden: ModelFolder
) -> None:
    path = golden.model("gabor_64x64_p4_edgetpu.tflite")
    _, value = answer(capsys, "info", path)
    caching, execution = value["executables"]
    assert value["caching_token"] == "0xfb47cac5b08990d8"
    assert (caching["type"], caching["parameter_bytes"]) == ("PARAMETER_CACHING", 3200)
    assert execution["hints"][1] == {
        "kind": "input", "direction": "INFEED", "name": "input", "offset": 0, "size": 4096,
    }  # fmt: skip
    assert execution["outputs"][0]["tile_rows"] == [4, 4, 4, 4]


def test_info_lists_the_layers_whose_weights_can_be_set(
    capsys: pytest.CaptureFixture[str], golden: ModelFolder
) -> None:
    _, value = answer(capsys, "info", golden.model("color_red_64x64_edgetpu.tflite"))
    assert [(each["tensor"], each["shape"], each["bias"]) for each in value["weights"]] == [
        ("tfl.pseudo_qconst3", [1, 1, 1, 3], False),
        ("tfl.pseudo_qconst1", [1, 4096], False),
        ("tfl.pseudo_qconst", [1, 4096], False),
    ]
    assert all(each["settable"] for each in value["weights"])


def test_info_lists_the_layers_of_all_parts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "parts.tflite").write_bytes(source_graph(2))
    (tmp_path / "parts_edgetpu.tflite").write_bytes(compiled_graph(2))
    _, value = answer(capsys, "info", tmp_path / "parts_edgetpu.tflite")
    assert [(each["tensor"], each["settable"]) for each in value["weights"]] == [
        ("b0/weights", True),
        ("b1/weights", True),
    ]


def test_info_says_why_no_weights_can_be_set(capsys: pytest.CaptureFixture[str], golden: ModelFolder) -> None:
    _, value = answer(capsys, "info", golden.model("keras_lstm_mnist_ptq_edgetpu.tflite"))
    assert value["weights"] == []
    assert "expected a Dense model, the graph it was compiled from" in value["weights_reason"]


def test_info_says_why_a_model_cannot_run_over_usb(
    capsys: pytest.CaptureFixture[str], golden: ModelFolder
) -> None:
    assert main(["info", str(golden.model("keras_lstm_mnist_ptq_edgetpu.tflite"))]) == 0
    assert "not fully deterministic" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("compiler", "elsewhere"), [("/usr/bin/edgetpu_compiler", ""), (None, " --on USER@COMPUTER")]
)
def test_info_says_of_a_packed_graph_that_no_stick_runs_it(
    capsys: pytest.CaptureFixture[str],
    graph: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compiler: str | None,
    elsewhere: str,
) -> None:
    monkeypatch.setattr(edgetpu_compiler, "find_compiler", lambda: compiler)
    packed = tmp_path / "packed_edgetpu.tflite"
    packed.write_bytes(pack(graph.read_bytes(), name="packed"))
    main(["info", str(packed)])
    output = capsys.readouterr().out
    assert (
        "on usb         no: 'packed' is packed for the virtual stick, a real one cannot run it; run "
        f"`edgetpu models compile packed.tflite{elsewhere}`\n"
    ) in output
    assert "on virtual     no: the virtual stick runs packed_edgetpu.tflite only with its graph" in output


def test_info_tells_what_runs_where_and_its_share_of_the_multiplications(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "parts_edgetpu.tflite"
    path.write_bytes(compiled_graph(2))
    _, first = answer(capsys, "info", path)
    assert [(step["runs_on"], step["multiplications"], step["share"]) for step in first["steps"][:2]] == [
        ("CPU, LiteRT", 0, 0.0),
        ("Edge TPU", None, None),
    ]
    assert "expected the graph it was compiled from, parts.tflite" in first["obstacles"]["cpu"]
    (tmp_path / "parts.tflite").write_bytes(source_graph(2))
    _, value = answer(capsys, "info", path)
    assert [(step["runs_on"], step["multiplications"], step["share"]) for step in value["steps"]] == [
        ("CPU, LiteRT", 0, 0.0),
        ("Edge TPU", 64, 0.5),
        ("CPU, LiteRT", 0, 0.0),
        ("Edge TPU", 64, 0.5),
        ("CPU, LiteRT", 0, 0.0),
    ]
    assert [tensor["name"] for tensor in value["outputs"]] == ["b0", "last"]
    assert [part["outputs"][0]["name"] for part in value["parts"]] == ["b0", "b1"]
    assert value["obstacles"]["virtual"] == ""
    assert value["obstacles"]["cpu"] == ""


@pytest.mark.parametrize(
    ("name", "share"),
    [("deeplabv3_mnv2_pascal_quant", 0.946), ("posenet_mobilenet_v1_075_353_481_16_quant_decoder", 1.0)],
)
def test_info_of_a_real_model_with_operators_on_the_cpu(
    capsys: pytest.CaptureFixture[str], golden: ModelFolder, name: str, share: float
) -> None:
    golden.model(f"{name}.tflite")
    _, value = answer(capsys, "info", golden.model(f"{name}_edgetpu.tflite"))
    assert value["steps"][0]["share"] == pytest.approx(share, abs=0.001)
    assert [value["obstacles"][backend] for backend in ("usb", "virtual")] == ["", ""]


@pytest.fixture
def segments(tmp_path: Path) -> list[Path]:
    """A graph of two matrices cut into two segments, with the graph next to them."""
    builder = GraphBuilder()
    x = builder.input("x", (1, 4), np.int8, scale=1, zero_point=0)
    middle = builder.fully_connected(x, np.eye(4, dtype=np.int8), 1, scale=1, zero_point=0, name="middle")
    builder.output(
        builder.fully_connected(middle, np.eye(4, dtype=np.int8), 1, scale=1, zero_point=0, name="y")
    )
    graph = builder.build()
    (tmp_path / "chain.tflite").write_bytes(graph)
    files = compile_pipeline(graph, 2, "chain")
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return [tmp_path / name for name in files]


def test_info_describes_a_pipeline_as_a_whole(
    capsys: pytest.CaptureFixture[str], segments: list[Path]
) -> None:
    code, value = answer(capsys, "info", *segments)
    pipeline = value["pipeline"]
    assert code == 0
    assert pipeline["name"] == "chain"
    assert [tensor["name"] for tensor in pipeline["inputs"] + pipeline["outputs"]] == ["x", "y"]
    assert [(step["file"], step["multiplications"]) for step in pipeline["steps"]] == [
        ("chain_segment_0_of_2_edgetpu.tflite", 16),
        ("chain_segment_1_of_2_edgetpu.tflite", 16),
    ]
    assert [pipeline["obstacles"][backend] for backend in ("virtual", "cpu")] == ["", ""]


def test_info_describes_each_segment_of_a_pipeline(
    capsys: pytest.CaptureFixture[str], segments: list[Path]
) -> None:
    _, alone = answer(capsys, "info", segments[1])
    _, value = answer(capsys, "info", *segments)
    assert value["files"][1] == alone
    assert [file["outputs"][0]["name"] for file in value["files"]] == ["middle", "y"]


def test_info_says_why_files_are_not_a_pipeline(
    capsys: pytest.CaptureFixture[str], segments: list[Path]
) -> None:
    _, value = answer(capsys, "info", *reversed(segments))
    assert value["pipeline"] is None
    assert "expected the segments of one model in their order" in value["no_pipeline_reason"]
    assert [file["name"] for file in value["files"]] == ["chain_segment_1_of_2", "chain_segment_0_of_2"]


def test_info_shows_the_pipeline_first_and_then_each_file(
    capsys: pytest.CaptureFixture[str], segments: list[Path]
) -> None:
    assert main(["info", *map(str, segments)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "name        chain, a pipeline of 2 files"
    assert [line for line in lines if line.startswith("---")] == [
        "--- file 1 of 2 ---",
        "--- file 2 of 2 ---",
    ]


def test_info_names_the_damaged_one_of_several_files(
    capsys: pytest.CaptureFixture[str], graph: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.tflite"
    damaged.write_bytes(b"no model")
    assert main(["info", str(graph), str(damaged)]) == 1
    assert capsys.readouterr().err.startswith(f"edgetpu: {damaged}: ")


@pytest.mark.parametrize("damaged", [False, True])
def test_names_in_a_model_cannot_control_the_terminal(
    damaged: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = GraphBuilder("names")
    x = graph.input("\x1b[2J\x9bx", (1, 8), np.int8, scale=0.1, zero_point=0)
    graph.output(graph.quantize(x, np.int8, scale=0.1, zero_point=0, name="y"))
    data = graph.build()
    path = tmp_path / "names.tflite"
    shape = np.array([2, 1, 8], "<i4").tobytes()
    path.write_bytes(data.replace(shape, np.array([2, 1, -8], "<i4").tobytes()) if damaged else data)
    assert main(["info", str(path)]) == damaged
    out, err = capsys.readouterr()
    assert r"\x1b[2J\x9bx" in (err if damaged else out)
    assert not {"\x1b", "\x9b"} & {*out, *err}


def test_no_file_is_parsed_twice_to_describe_a_model(
    capsys: pytest.CaptureFixture[str], graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = graph.with_name("g_edgetpu.tflite")
    graph = graph.rename(graph.with_name("g.tflite"))
    compiled.write_bytes(pack(graph.read_bytes(), name="g"))
    parsed: Counter[str] = Counter()
    parse = model_reader._parse

    def counted(data: bytes) -> Any:
        parsed[hashlib.sha256(data).hexdigest()] += 1
        return parse(data)

    monkeypatch.setattr(model_reader, "_parse", counted)
    assert answer(capsys, "info", compiled)[0] == 0
    files = [hashlib.sha256(each.read_bytes()).hexdigest() for each in (compiled, graph)]
    assert [parsed[each] for each in files] == [1, 1]
    assert max(parsed.values()) == 1
