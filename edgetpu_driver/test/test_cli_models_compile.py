"""`edgetpu models compile`, with a program that behaves as edgetpu_compiler 16 does, and without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.cli.main import main
from edgetpu_driver.compiled_model import VIRTUAL_COMPILER, CompiledModel
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.toolchain.edgetpu_compiler import find_compiler, parse_report
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from testdata.devices.fake_compiler import LIMITED, PARTLY, UNMAPPED, MakeCompiler, answer
from testdata.graphs.compiled_graphs import compiled_graph

pytestmark = pytest.mark.usefixtures("no_other_compiler")


def test_the_compiled_file_is_written_next_to_the_graph(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler = make_compiler()
    code, value = answer(capsys, dense_graphs / "dense_64.tflite")
    (row,) = value["models"]
    assert (code, value["target"], value["compiler"]) == (0, "edgetpu", str(compiler))
    assert (row["version"], row["fully_mapped"]) == ("16.0.384591198", True)
    assert (row["cached_bytes"], row["streamed_bytes"], row["free_bytes"]) == (67584, 0, 8042578)
    made = compiler.parent / "compiled" / "dense_64_edgetpu.tflite"
    assert (dense_graphs / "dense_64_edgetpu.tflite").read_bytes() == made.read_bytes()
    assert "Mapped to Edge TPU" in (dense_graphs / "dense_64_edgetpu.log").read_text()


def test_a_graph_is_compiled_on_another_computer(
    dense_graphs: Path,
    make_compiler: MakeCompiler,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Its ssh runs commands here."""
    compiler = make_compiler()
    monkeypatch.setenv("HOME", str(tmp_path))
    ssh = compiler.with_name("ssh")
    ssh.write_text('#!/bin/sh\nwhile [ "$1" = -o ]; do shift 2; done\nexec sh -c "$2"\n')
    ssh.chmod(0o755)
    code, value = answer(capsys, "--on", "me@pc", "--co-compile", *sorted(dense_graphs.glob("*.tflite")))
    assert (code, value["target"], value["compiler"]) == (0, "edgetpu", "edgetpu_compiler on me@pc")
    assert value["resident_together"]
    for name in ("dense_64", "dense_128"):
        made = compiler.parent / "compiled" / f"{name}_edgetpu.tflite"
        assert (dense_graphs / made.name).read_bytes() == made.read_bytes()
        assert "Mapped to Edge TPU" in (dense_graphs / f"{name}_edgetpu.log").read_text()


def test_the_driver_finds_compiled_models(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler()
    answer(capsys, dense_graphs / "dense_64.tflite")
    path = ModelDirectories([dense_graphs], compiled=True, uncompiled=False).find("dense_64")
    assert make_backend("usb").parse(path, path.read_bytes()).unsupported_reason == ""


def test_a_model_of_several_parts_is_installed(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_compiler(PARTLY).parent / "compiled" / "dense_64_edgetpu.tflite"
    made.write_bytes(compiled_graph(2))
    code, value = answer(capsys, dense_graphs / "dense_64.tflite")
    (row,) = value["models"]
    assert (code, row["obstacle"], row["cpu_operators"]) == (0, None, ["QUANTIZE"] * 4)
    assert (dense_graphs / "dense_64_edgetpu.tflite").read_bytes() == compiled_graph(2)


def test_unmapped_operators_are_named_with_the_reason(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(PARTLY)
    assert main(["models", "compile", str(dense_graphs / "dense_64.tflite")]) == 0
    text = capsys.readouterr().out
    assert "2 of 3 operators mapped" in text
    assert f"1 QUANTIZE on the CPU: {LIMITED}" in text
    _, value = answer(capsys, dense_graphs / "dense_64.tflite")
    assert value["models"][0]["fully_mapped"] is False


def test_a_report_without_operators_does_not_mean_that_none_was_mapped(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(rows="")
    assert main(["models", "compile", str(dense_graphs / "dense_64.tflite")]) == 0
    assert "it did not report which operators are mapped" in capsys.readouterr().out


def test_a_graph_without_mapped_operators_is_a_failure(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(UNMAPPED)
    code, value = answer(capsys, dense_graphs / "dense_64.tflite")
    assert code == 1
    assert "FULLY_CONNECTED: Operation version not supported" in value["models"][0]["error"]
    assert not (dense_graphs / "dense_64_edgetpu.tflite").exists()


def test_models_compiled_together_stay_in_memory_together(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler()
    code, value = answer(capsys, "--co-compile", *sorted(dense_graphs.glob("*.tflite")))
    assert (code, value["resident_together"]) == (0, True)
    assert len({row["caching_token"] for row in value["models"]}) == 1


def test_the_compiled_model_is_the_one_the_compiler_names(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    program = make_compiler()
    renamed = program.read_text().replace(
        'out / (model.stem + "_edgetpu.tflite")\n    result.write_bytes((here / "compiled" / result.name)',
        'out / (model.stem + "_1_edgetpu.tflite")\n    '
        'result.write_bytes((here / "compiled" / (model.stem + "_edgetpu.tflite"))',
    )
    assert renamed != program.read_text()
    program.write_text(renamed)
    code, _ = answer(capsys, "--co-compile", *sorted(dense_graphs.glob("*.tflite")))
    assert code == 0
    for size in (64, 128):
        assert CompiledModel.load(dense_graphs / f"dense_{size}_edgetpu.tflite").inputs[0].shape == (1, size)


def test_models_of_different_caching_tokens_do_not_stay(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(together=False)
    _, value = answer(capsys, "--co-compile", *sorted(dense_graphs.glob("*.tflite")))
    assert value["resident_together"] is False


def softmax(directory: Path) -> Path:
    """A graph for which no program is generated."""
    graph = GraphBuilder("softmax")
    x = graph.input("x", (1, 64), np.int8, scale=1.0, zero_point=0)
    graph.output(graph.softmax(x))
    path = directory / "softmax.tflite"
    path.write_bytes(graph.build())
    return path


def test_without_a_compiler_graphs_are_packed_and_it_is_said(
    dense_graphs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_compiler() is None
    path = softmax(dense_graphs)
    assert main(["models", "compile", str(path)]) == 0
    text = capsys.readouterr().out
    assert "no edgetpu_compiler in PATH, and no --on HOST: packed for the virtual stick only" in text
    assert "was written: without edgetpu_compiler, expected one FULLY_CONNECTED" in text
    path = dense_graphs / "softmax_edgetpu.tflite"
    assert CompiledModel.load(path).compiler == VIRTUAL_COMPILER
    assert make_backend("virtual").parse(path, path.read_bytes()).unsupported_reason == ""
    assert "a real one cannot run it" in make_backend("usb").parse(path, path.read_bytes()).unsupported_reason


@pytest.mark.parametrize("with_compiler", [False, True])
def test_the_sidecar_of_an_earlier_program_is_removed(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str], with_compiler: bool
) -> None:
    graph, sidecar = dense_graphs / "dense_64.tflite", dense_graphs / "dense_64_edgetpu.json"
    assert answer(capsys, graph)[0] == 0
    assert sidecar.exists()
    if with_compiler:
        make_compiler()
    else:
        softmax(dense_graphs).replace(graph)
    assert answer(capsys, graph)[0] == 0
    assert not sidecar.exists()
    assert main(["models", "import", str(dense_graphs), "--output", str(dense_graphs / "new")]) == 0


def test_the_sidecar_of_somebody_else_is_kept(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler()
    sidecar = dense_graphs / "dense_64_edgetpu.json"
    sidecar.write_text('{"matrix_size": 64}')
    assert answer(capsys, dense_graphs / "dense_64.tflite")[0] == 0
    assert sidecar.exists()


def test_a_matrix_among_packed_graphs_is_not_said_to_be_packed(
    dense_graphs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "compile", str(softmax(dense_graphs)), str(dense_graphs / "dense_64.tflite")]) == 0
    text = capsys.readouterr().out
    assert "A real stick cannot run these files" not in text
    assert "no program for a real stick was written: without edgetpu_compiler" in text
    assert "generated without edgetpu_compiler" in text


def test_models_of_the_real_compiler_are_not_replaced(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler = make_compiler()
    answer(capsys, dense_graphs / "dense_64.tflite")
    before = (dense_graphs / "dense_64_edgetpu.tflite").read_bytes()
    compiler.unlink()
    code, value = answer(capsys, dense_graphs / "dense_64.tflite")
    assert code == 1
    assert "was made by edgetpu_compiler and is not overwritten" in value["models"][0]["error"]
    assert (dense_graphs / "dense_64_edgetpu.tflite").read_bytes() == before


def test_models_packed_together_are_in_the_virtual_sticks_memory_together(
    dense_graphs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    _, value = answer(capsys, "--co-compile", *sorted(dense_graphs.glob("*.tflite")))
    assert value["resident_together"] is True
    backend = make_backend("virtual")
    backend.open()
    paths = [Path(row["compiled"]) for row in value["models"]]
    engines = [backend.attach(backend.parse(path, path.read_bytes())) for path in paths]
    for engine in engines * 3:
        engine.run({"x": np.full(engine.inputs[0].shape, 140, np.uint8)})
    assert backend.read().uploads == 2
    backend.close()


def test_a_graph_that_cannot_be_packed_does_not_affect_the_others(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = GraphBuilder("pair")
    x = graph.input("x", (2, 4), np.uint8, scale=1.0, zero_point=0)
    graph.output(graph.quantize(x, np.int8, scale=1.0, zero_point=-128))
    (dense_graphs / "pair.tflite").write_bytes(graph.build())
    compiler = make_compiler()
    answer(capsys, dense_graphs / "dense_64.tflite")
    compiler.unlink()
    code, value = answer(capsys, "--co-compile", *sorted(dense_graphs.glob("*[!u].tflite")))
    assert (code, value["resident_together"]) == (1, False)
    fine, kept, pair = value["models"]
    assert fine["written"]
    assert "was made by edgetpu_compiler and is not overwritten" in kept["error"]
    assert "expected a batch of 1" in pair["error"]


@pytest.mark.parametrize("files", [["dense_64_edgetpu.tflite"], ["absent.tflite"]])
def test_only_plain_graphs_are_taken(
    dense_graphs: Path, capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    main(["models", "compile", str(dense_graphs / "dense_64.tflite")])
    capsys.readouterr()
    code, value = answer(capsys, *(dense_graphs / name for name in files))
    assert code == 1
    assert "error" in value


def test_compiled_files_next_to_graphs_are_skipped(
    dense_graphs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["models", "compile", str(dense_graphs / "dense_64.tflite")])
    capsys.readouterr()
    paths = sorted(dense_graphs.glob("*.tflite"))
    code, value = answer(capsys, *paths)
    assert code == 0
    assert value["skipped"] == [str(dense_graphs / "dense_64_edgetpu.tflite")]
    assert [row["graph"] for row in value["models"]] == [
        str(dense_graphs / name) for name in ("dense_128.tflite", "dense_64.tflite")
    ]
    assert main(["models", "compile", *map(str, paths)]) == 0
    assert f"skipped, compiled already: {value['skipped'][0]}\n" in capsys.readouterr().out


def test_output_gets_the_graph_as_well(dense_graphs: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "place"
    assert main(["models", "compile", str(dense_graphs / "dense_64.tflite"), "--output", str(output)]) == 0
    assert sorted(path.name for path in output.iterdir()) == [
        "dense_64.tflite",
        "dense_64_edgetpu.json",
        "dense_64_edgetpu.tflite",
    ]


def test_older_versions_call_the_memory_available() -> None:
    report = parse_report(
        "Edge TPU Compiler version 2.0.267685300\n"
        "On-chip memory available for caching model parameters: 1.73MiB\n"
        "On-chip memory used for caching model parameters: 10.00KiB\n"
    )
    assert (report.version, report.cached_bytes, report.free_bytes) == ("2.0.267685300", 10240, 1814036)
    assert (report.streamed_bytes, report.subgraphs, report.operators) == (-1, -1, ())
    assert report.fully_mapped is False


def test_columns_may_be_set_with_tabs() -> None:
    (operator,) = parse_report("CONV_2D\t2\tMapped to Edge TPU\r\n").operators
    assert (operator.name, operator.count, operator.mapped) == ("CONV_2D", 2, True)


def test_graphs_of_one_name_cannot_go_to_one_place(
    dense_graphs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dense_64.tflite").write_bytes(dense.build(64))
    output = tmp_path / "out"
    code, value = answer(
        capsys, "--output", output, dense_graphs / "dense_64.tflite", tmp_path / "dense_64.tflite"
    )
    assert code == 1
    assert "several would become dense_64_edgetpu.tflite" in value["error"]["message"]


def test_graphs_of_one_name_in_two_directories_are_not_compiled_together(
    dense_graphs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = dense_graphs / "dense_64.tflite", tmp_path / "dense_64.tflite"
    second.write_bytes(dense.build(32))
    code, value = answer(capsys, "--co-compile", first, second)
    assert (code, value["error"]["kind"]) == (1, "InputError")
    assert "several would become dense_64_edgetpu.tflite" in value["error"]["message"]
    assert (first.read_bytes(), second.read_bytes()) == (dense.build(64), dense.build(32))
    assert answer(capsys, first, second)[0] == 0
    for path, size in ((first, 64), (second, 32)):
        assert path.read_bytes() == dense.build(size)
        compiled = CompiledModel.load(path.with_name("dense_64_edgetpu.tflite"))
        assert compiled.inputs[0].shape == (1, size)


@pytest.mark.parametrize(
    ("printed", "expected"), [("0.00B", 0), ("1.5KiB", 1536), ("1.5KB", 1536), ("2MiB", 2**21), ("2. 1B", -1)]
)
def test_memory_is_read_in_any_unit(printed: str, expected: int) -> None:
    text = f"On-chip memory used for caching model parameters: {printed}\n"
    assert parse_report(text).cached_bytes == expected
