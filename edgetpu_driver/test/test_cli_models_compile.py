"""`edgetpu models compile`, with a program that behaves as edgetpu_compiler 16 does, and without one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.backends.virtual import pack_for_virtual_stick
from edgetpu_driver.cli.main import main
from edgetpu_driver.compiled_model import VIRTUAL_COMPILER, CompiledModel
from edgetpu_driver.errors import CompilerError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.toolchain.edgetpu_compiler import compile_graphs, find_compiler, parse_report
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from testdata.compiled_graphs import compiled_graph

# Options, text and files as of the real compiler; it copies models from the folder `compiled` next to it.
FAKE = """#!{python}
import pathlib, subprocess, sys, time

here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
assert arguments[:2] == ["-s", "-o"], arguments
out, models = pathlib.Path(arguments[2]), [pathlib.Path(each) for each in arguments[3:]]
print("Edge TPU Compiler version 16.0.384591198")
print("Started a compilation timeout timer of 180 seconds.\\n")
sys.stdout.flush()
{mishap}
print("Model%s compiled successfully in 63 ms.\\n" % ("s" if len(models) > 1 else ""))
for model in models:
    table = "Operator                       Count      Status\\n\\n" + {rows!r}
    log = out / (model.stem + "_edgetpu.log")
    result = out / (model.stem + "_edgetpu.tflite")
    result.write_bytes((here / "compiled" / result.name).read_bytes())
    head = "Edge TPU Compiler version 16.0.384591198\\nInput: %s\\nOutput: %s\\n\\n" % (model, result)
    log.write_text(head + table)
    print("Input model: %s\\nInput size: 67.83KiB" % model)
    print("Output model: %s\\nOutput size: 100.63KiB" % result)
    print("On-chip memory used for caching model parameters: 66.00KiB")
    print("On-chip memory remaining for caching model parameters: 7.67MiB")
    print("Off-chip memory used for streaming uncached model parameters: 0.00B")
    print("Number of Edge TPU subgraphs: 1\\nTotal number of operations: 3\\nOperation log: %s\\n" % log)
    print(table)
print("Compilation child process completed within timeout period.\\nCompilation succeeded! ")
"""
MAPPED = "FULLY_CONNECTED                1          Mapped to Edge TPU\n"
MAPPED += "QUANTIZE                       2          Mapped to Edge TPU\n"
LIMITED = "Operation is otherwise supported, but not mapped due to some unspecified limitation"
PARTLY = "FULLY_CONNECTED                1          Mapped to Edge TPU\n"
PARTLY += f"QUANTIZE                       1          {LIMITED}\n"
PARTLY += "QUANTIZE                       1          Mapped to Edge TPU\n"
UNMAPPED = "FULLY_CONNECTED                1          Operation version not supported\n"
FAILURE = """
print("ERROR: :106 std::abs(input_product_scale - bias_scale) was not true.")
print("Compilation failed: Model failed in Tflite interpreter.")
print("Compilation child process completed within timeout period.\\nCompilation failed! ")
sys.exit(1)
"""
HANGING = """
child = subprocess.Popen(["sleep", "60"])
(here / "child").write_text(str(child.pid))
time.sleep(60)
"""

PATIENCE = 30.0
"""Seconds that a process may take on a busy machine, far below the 60 s for which HANGING ones sleep."""

MakeCompiler = Callable[..., Path]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A directory with dense_64.tflite and dense_128.tflite."""
    directory = tmp_path / "models"
    directory.mkdir()
    for size in (64, 128):
        (directory / f"dense_{size}.tflite").write_bytes(dense.build(size))
    return directory


@pytest.fixture
def make_compiler(tmp_path: Path) -> MakeCompiler:
    """A function that writes the program; its models share a caching token and name Google's compiler."""

    def make(rows: str = MAPPED, mishap: str = "", *, together: bool = True) -> Path:
        program = tmp_path / "bin" / "edgetpu_compiler"
        (program.parent / "compiled").mkdir(parents=True, exist_ok=True)
        graphs = {f"dense_{size}": dense.build(size) for size in (64, 128)}
        for name, packed in pack_for_virtual_stick(graphs, together=together).items():
            real = packed.replace(VIRTUAL_COMPILER.encode(), b"google".ljust(len(VIRTUAL_COMPILER)))
            (program.parent / "compiled" / f"{name}_edgetpu.tflite").write_bytes(real)
        program.write_text(FAKE.format(python=sys.executable, rows=rows, mishap=mishap))
        program.chmod(0o755)
        return program

    return make


@pytest.fixture(autouse=True)
def _no_compiler_in_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    code = main(["models", "compile", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def wait_for_child(path: Path) -> None:
    """Wait until a HANGING compiler has written the number of its child process."""
    deadline = time.monotonic() + PATIENCE
    while not (path.is_file() and path.read_text()):
        assert time.monotonic() < deadline, "the compiler did not start"
        time.sleep(0.02)


def assert_ends(process: int) -> None:
    """Assert that a process has been killed. The kernel takes a moment to end it."""
    deadline = time.monotonic() + PATIENCE
    while is_alive(process):
        assert time.monotonic() < deadline, f"process {process} still runs"
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_graph_is_compiled_beside_itself(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler = make_compiler()
    code, value = answer(capsys, models / "dense_64.tflite")
    (row,) = value["models"]
    assert (code, value["target"], value["compiler"]) == (0, "edgetpu", str(compiler))
    assert (row["version"], row["fully_mapped"]) == ("16.0.384591198", True)
    assert (row["cached_bytes"], row["streamed_bytes"], row["free_bytes"]) == (67584, 0, 8042578)
    made = compiler.parent / "compiled" / "dense_64_edgetpu.tflite"
    assert (models / "dense_64_edgetpu.tflite").read_bytes() == made.read_bytes()
    assert "Mapped to Edge TPU" in (models / "dense_64_edgetpu.log").read_text()


def test_a_graph_is_compiled_on_another_computer(
    models: Path,
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
    code, value = answer(capsys, "--on", "me@pc", "--co-compile", *sorted(models.glob("*.tflite")))
    assert (code, value["target"], value["compiler"]) == (0, "edgetpu", "edgetpu_compiler on me@pc")
    assert value["resident_together"]
    for name in ("dense_64", "dense_128"):
        made = compiler.parent / "compiled" / f"{name}_edgetpu.tflite"
        assert (models / made.name).read_bytes() == made.read_bytes()
        assert "Mapped to Edge TPU" in (models / f"{name}_edgetpu.log").read_text()


def test_the_driver_finds_compiled_models(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler()
    answer(capsys, models / "dense_64.tflite")
    path = ModelDirectories([models], compiled=True, uncompiled=False).find("dense_64")
    assert make_backend("usb").parse(path, path.read_bytes()).unsupported_reason == ""


def test_a_model_of_several_parts_is_installed(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_compiler(PARTLY).parent / "compiled" / "dense_64_edgetpu.tflite"
    made.write_bytes(compiled_graph(2))
    code, value = answer(capsys, models / "dense_64.tflite")
    (row,) = value["models"]
    assert (code, row["obstacle"], row["cpu_operators"]) == (0, None, ["QUANTIZE"] * 4)
    assert (models / "dense_64_edgetpu.tflite").read_bytes() == compiled_graph(2)


def test_unmapped_operators_are_named_with_the_reason(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(PARTLY)
    assert main(["models", "compile", str(models / "dense_64.tflite")]) == 0
    text = capsys.readouterr().out
    assert "2 of 3 operators mapped" in text
    assert f"1 QUANTIZE on the CPU: {LIMITED}" in text
    _, value = answer(capsys, models / "dense_64.tflite")
    assert value["models"][0]["fully_mapped"] is False


def test_a_report_without_operators_does_not_mean_that_none_was_mapped(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(rows="")
    assert main(["models", "compile", str(models / "dense_64.tflite")]) == 0
    assert "which operators are mapped it did not say" in capsys.readouterr().out


def test_a_graph_without_mapped_operators_is_a_failure(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(UNMAPPED)
    code, value = answer(capsys, models / "dense_64.tflite")
    assert code == 1
    assert "FULLY_CONNECTED: Operation version not supported" in value["models"][0]["error"]
    assert not (models / "dense_64_edgetpu.tflite").exists()


def test_models_compiled_together_stay_in_memory_together(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler()
    code, value = answer(capsys, "--co-compile", *sorted(models.glob("*.tflite")))
    assert (code, value["resident_together"]) == (0, True)
    assert len({row["caching_token"] for row in value["models"]}) == 1


def test_the_compiled_model_is_the_one_the_compiler_names(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    program = make_compiler()
    renamed = program.read_text().replace(
        'out / (model.stem + "_edgetpu.tflite")\n    result.write_bytes((here / "compiled" / result.name)',
        'out / (model.stem + "_1_edgetpu.tflite")\n    '
        'result.write_bytes((here / "compiled" / (model.stem + "_edgetpu.tflite"))',
    )
    assert renamed != program.read_text()
    program.write_text(renamed)
    code, _ = answer(capsys, "--co-compile", *sorted(models.glob("*.tflite")))
    assert code == 0
    for size in (64, 128):
        assert CompiledModel.load(models / f"dense_{size}_edgetpu.tflite").inputs[0].shape == (1, size)


def test_models_of_different_caching_tokens_do_not_stay(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(together=False)
    _, value = answer(capsys, "--co-compile", *sorted(models.glob("*.tflite")))
    assert value["resident_together"] is False


def test_a_failure_is_quoted_and_affects_only_its_own_model(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(mishap=f'if models[0].stem == "dense_64":{FAILURE.replace(chr(10), chr(10) + "    ")}')
    (models / "dense_64_edgetpu.tflite").write_bytes(b"older")
    code, value = answer(capsys, models / "dense_64.tflite", models / "dense_128.tflite")
    failed, fine = value["models"]
    assert code == 1
    assert failed["error"].startswith("edgetpu_compiler failed: ")
    assert "Model failed in Tflite interpreter" in failed["error"]
    assert fine["fully_mapped"] is True
    assert (models / "dense_64_edgetpu.tflite").read_bytes() == b"older"


def test_a_failed_graph_of_a_set_has_its_own_error(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    unmapped = (
        make_compiler()
        .read_text()
        .replace(repr(MAPPED), f'({UNMAPPED!r} if "64" in model.stem else {MAPPED!r})')
    )
    (models.parent / "bin" / "edgetpu_compiler").write_text(unmapped)
    code, value = answer(capsys, "--co-compile", *sorted(models.glob("*.tflite")))
    fine, failed = value["models"]
    assert (code, value["resident_together"]) == (1, False)
    assert fine["fully_mapped"] is True
    assert "mapped no operator of dense_64.tflite" in failed["error"]
    assert not (models / "dense_64_edgetpu.tflite").exists()


def test_a_failure_of_a_whole_set_is_reported_once(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(mishap=FAILURE)
    small, large = models / "dense_64.tflite", models / "dense_128.tflite"
    assert main(["models", "compile", "--co-compile", str(small), str(large)]) == 1
    text = capsys.readouterr().out
    assert text.count("Model failed in Tflite interpreter") == 1
    assert f"{small}, {large}: FAILED: edgetpu_compiler failed" in text
    _, value = answer(capsys, "--co-compile", small, large)
    assert all("Model failed in Tflite interpreter" in row["error"] for row in value["models"])


def test_a_failure_of_many_graphs_does_not_list_them_all(
    tmp_path: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(mishap=FAILURE)
    graphs = [tmp_path / f"dense_{size}.tflite" for size in (64, 65, 66, 67)]
    assert main(["models", "build", *(graph.stem for graph in graphs), "--output", str(tmp_path)]) == 0
    assert main(["models", "compile", "--co-compile", *map(str, graphs)]) == 1
    assert f"4 graphs from {graphs[0]} to {graphs[-1]}: FAILED: " in capsys.readouterr().out


def test_a_compiler_that_ends_well_without_a_model_is_a_failure(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(mishap='print("Internal compiler error. Aborting! "); sys.exit(0)')
    code, value = answer(capsys, models / "dense_64.tflite")
    assert code == 1
    assert "wrote no model for dense_64.tflite" in value["models"][0]["error"]
    assert "Internal compiler error" in value["models"][0]["error"]


def test_a_compiler_that_crashes_is_named_by_its_signal(models: Path, make_compiler: MakeCompiler) -> None:
    compiler = make_compiler(mishap="import os; os.abort()")
    with pytest.raises(CompilerError, match="was ended by SIGABRT"):
        compile_graphs(str(compiler), [models / "dense_64.tflite"], models, 20)


def test_a_compiler_that_hangs_is_stopped_with_its_children(
    models: Path,
    make_compiler: MakeCompiler,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = make_compiler(mishap=HANGING).parent / "child"

    class Impatient(subprocess.Popen[str]):
        """Its time is over once the compiler has a child."""

        def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:  # noqa: ARG002
            wait_for_child(child)
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)

    monkeypatch.setattr("edgetpu_driver.toolchain.edgetpu_compiler.subprocess.Popen", Impatient)
    code, value = answer(capsys, "--timeout", "1.5", models / "dense_64.tflite")
    assert code == 1
    assert "was not done after 1.5 s and was stopped" in value["models"][0]["error"]
    assert_ends(int(child.read_text()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_stops_the_compiler_too(
    models: Path, make_compiler: MakeCompiler, number: signal.Signals
) -> None:
    child = make_compiler(mishap=HANGING).parent / "child"
    command = [
        sys.executable,
        "-m",
        "edgetpu_driver.cli",
        "models",
        "compile",
        str(models / "dense_64.tflite"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_child(child)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "")
    assert_ends(int(child.read_text()))


def test_a_compiler_that_is_given_must_be_there(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, value = answer(capsys, "--compiler", models / "absent", models / "dense_64.tflite")
    assert (code, value["error"]["kind"]) == (1, "CompilerError")
    assert "is not an executable file" in value["error"]["message"]


def test_a_compiler_for_another_architecture_is_reported(models: Path, tmp_path: Path) -> None:
    program = tmp_path / "edgetpu_compiler"
    program.write_bytes(b"\x7fELF no program of this machine")
    program.chmod(0o755)
    with pytest.raises(CompilerError, match="exists for Linux on x86-64 only"):
        compile_graphs(str(program), [models / "dense_64.tflite"], models, 5)


def test_without_a_compiler_graphs_are_packed_and_it_is_said(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_compiler() is None
    graph = GraphBuilder("softmax")
    x = graph.input("x", (1, 64), np.int8, scale=1.0, zero_point=0)
    graph.output(graph.softmax(x))
    (models / "softmax.tflite").write_bytes(graph.build())
    assert main(["models", "compile", str(models / "softmax.tflite")]) == 0
    text = capsys.readouterr().out
    assert "no edgetpu_compiler in PATH, and no --on HOST: packed for the virtual stick only" in text
    assert "no program for a real stick was written: a program can be written here for one FULLY_" in text
    path = models / "softmax_edgetpu.tflite"
    assert CompiledModel.load(path).compiler == VIRTUAL_COMPILER
    assert make_backend("virtual").parse(path, path.read_bytes()).unsupported_reason == ""
    assert "a real one cannot run it" in make_backend("usb").parse(path, path.read_bytes()).unsupported_reason


def test_models_of_the_real_compiler_are_not_replaced(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler = make_compiler()
    answer(capsys, models / "dense_64.tflite")
    before = (models / "dense_64_edgetpu.tflite").read_bytes()
    compiler.unlink()
    code, value = answer(capsys, models / "dense_64.tflite")
    assert code == 1
    assert "was made by edgetpu_compiler and is not overwritten" in value["models"][0]["error"]
    assert (models / "dense_64_edgetpu.tflite").read_bytes() == before


def test_models_packed_together_are_in_the_virtual_sticks_memory_together(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    _, value = answer(capsys, "--co-compile", *sorted(models.glob("*.tflite")))
    assert value["resident_together"] is True
    backend = make_backend("virtual")
    backend.open()
    paths = [Path(row["compiled"]) for row in value["models"]]
    engines = [backend.attach(backend.parse(path, path.read_bytes())) for path in paths]
    for engine in engines * 3:
        engine.run({"x": np.full(engine.inputs[0].shape, 140, np.uint8)})
    assert backend.read().uploads == 2
    backend.close()


def test_a_graph_that_cannot_be_packed_does_not_keep_those_beside_it_from_it(
    models: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = GraphBuilder("pair")
    x = graph.input("x", (2, 4), np.uint8, scale=1.0, zero_point=0)
    graph.output(graph.quantize(x, np.int8, scale=1.0, zero_point=-128))
    (models / "pair.tflite").write_bytes(graph.build())
    compiler = make_compiler()
    answer(capsys, models / "dense_64.tflite")
    compiler.unlink()
    code, value = answer(capsys, "--co-compile", *sorted(models.glob("*[!u].tflite")))
    assert (code, value["resident_together"]) == (1, False)
    fine, kept, pair = value["models"]
    assert fine["written"]
    assert "was made by edgetpu_compiler and is not overwritten" in kept["error"]
    assert "expected a batch of 1" in pair["error"]


@pytest.mark.parametrize("files", [["dense_64_edgetpu.tflite"], ["absent.tflite"]])
def test_only_plain_graphs_are_taken(
    models: Path, capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    main(["models", "compile", str(models / "dense_64.tflite")])
    capsys.readouterr()
    code, value = answer(capsys, *(models / name for name in files))
    assert code == 1
    assert "error" in value


def test_output_gets_the_graph_as_well(models: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "place"
    assert main(["models", "compile", str(models / "dense_64.tflite"), "--output", str(output)]) == 0
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
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dense_64.tflite").write_bytes(dense.build(64))
    output = tmp_path / "out"
    code, value = answer(capsys, "--output", output, models / "dense_64.tflite", tmp_path / "dense_64.tflite")
    assert code == 1
    assert "several would become dense_64_edgetpu.tflite" in value["error"]["message"]


@pytest.mark.parametrize(
    ("printed", "expected"), [("0.00B", 0), ("1.5KiB", 1536), ("1.5KB", 1536), ("2MiB", 2**21), ("2. 1B", -1)]
)
def test_memory_is_read_in_any_unit(printed: str, expected: int) -> None:
    text = f"On-chip memory used for caching model parameters: {printed}\n"
    assert parse_report(text).cached_bytes == expected
