"""`edgetpu models compile` where the compiler fails, hangs or is absent."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgetpu_driver.cli.main import main
from edgetpu_driver.errors import CompilerError
from edgetpu_driver.files.file_access import write_file
from edgetpu_driver.toolchain.edgetpu_compiler import compile_graphs
from testdata.devices.fake_compiler import MAPPED, UNMAPPED, MakeCompiler, answer

pytestmark = pytest.mark.usefixtures("no_other_compiler")
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

READ = 'print(" " * 1_000_000, flush=True)'
"""Lasts until somebody reads what the compiler prints, more than a pipe takes."""

PATIENCE = 30.0
"""Seconds that a process may take on a busy machine, far below the 60 s for which HANGING ones sleep."""


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


def test_a_failure_is_quoted_and_affects_only_its_own_model(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(mishap=f'if models[0].stem == "dense_64":{FAILURE.replace(chr(10), chr(10) + "    ")}')
    (dense_graphs / "dense_64_edgetpu.tflite").write_bytes(b"older")
    code, value = answer(capsys, dense_graphs / "dense_64.tflite", dense_graphs / "dense_128.tflite")
    failed, fine = value["models"]
    assert code == 1
    assert failed["error"].startswith("edgetpu_compiler failed: ")
    assert "Model failed in Tflite interpreter" in failed["error"]
    assert fine["fully_mapped"] is True
    assert (dense_graphs / "dense_64_edgetpu.tflite").read_bytes() == b"older"


def test_a_damaged_graph_affects_only_itself(dense_graphs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dense_graphs / "bad.tflite").write_bytes(b"no model")
    code, value = answer(capsys, dense_graphs / "bad.tflite", dense_graphs / "dense_64.tflite")
    failed, fine = value["models"]
    assert code == 1
    assert (failed["graph"], failed["error"]) == (
        str(dense_graphs / "bad.tflite"),
        "model: expected the file identifier TFL3 at byte 4, got b'odel'",
    )
    assert "error" not in fine


@pytest.mark.parametrize("with_compiler", [False, True])
def test_a_file_that_cannot_be_written_affects_only_its_own_model(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str], with_compiler: bool
) -> None:
    if with_compiler:
        make_compiler()
    obstacle = dense_graphs / "dense_64_edgetpu.tflite"
    obstacle.mkdir()
    code, value = answer(capsys, dense_graphs / "dense_64.tflite", dense_graphs / "dense_128.tflite")
    failed, fine = value["models"]
    assert (code, failed["error"]) == (1, f"{obstacle}: Is a directory")
    assert fine["written"]


@pytest.mark.parametrize("with_compiler", [False, True])
def test_a_file_that_cannot_be_replaced_keeps_its_sidecar(
    dense_graphs: Path,
    make_compiler: MakeCompiler,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    with_compiler: bool,
) -> None:
    graph, made = dense_graphs / "dense_64.tflite", dense_graphs / "dense_64_edgetpu.tflite"
    assert answer(capsys, graph)[0] == 0
    sidecar = made.with_suffix(".json").read_bytes()
    if with_compiler:
        make_compiler()
    else:
        (dense_graphs / "dense_128.tflite").replace(graph)

    def full(path: Path, data: bytes) -> bool:
        if path == made:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write_file(path, data)

    monkeypatch.setattr("edgetpu_driver.cli.models.models_compile.write_file", full)
    code, value = answer(capsys, graph)
    assert (code, value["models"][0]["error"]) == (1, f"{made}: No space left on device")
    assert made.with_suffix(".json").read_bytes() == sidecar


@pytest.mark.parametrize("others", [[], ["dense_64.tflite"]])
def test_nothing_is_said_of_packing_where_no_graph_was_packed(
    dense_graphs: Path, capsys: pytest.CaptureFixture[str], others: list[str]
) -> None:
    (dense_graphs / "bad.tflite").write_bytes(b"no model")
    files = [str(dense_graphs / name) for name in ("bad.tflite", *others)]
    assert main(["models", "compile", *files]) == 1
    assert "packed for the virtual stick" not in capsys.readouterr().out


def test_a_failed_graph_of_a_set_has_its_own_error(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    unmapped = (
        make_compiler()
        .read_text()
        .replace(repr(MAPPED), f'({UNMAPPED!r} if "64" in model.stem else {MAPPED!r})')
    )
    (dense_graphs.parent / "bin" / "edgetpu_compiler").write_text(unmapped)
    code, value = answer(capsys, "--co-compile", *sorted(dense_graphs.glob("*.tflite")))
    fine, failed = value["models"]
    assert (code, value["resident_together"]) == (1, False)
    assert fine["fully_mapped"] is True
    assert "mapped no operator of dense_64.tflite" in failed["error"]
    assert not (dense_graphs / "dense_64_edgetpu.tflite").exists()


def test_a_failure_of_a_whole_set_is_reported_once(
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(mishap=FAILURE)
    small, large = dense_graphs / "dense_64.tflite", dense_graphs / "dense_128.tflite"
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
    dense_graphs: Path, make_compiler: MakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    make_compiler(mishap='print("Internal compiler error. Aborting! "); sys.exit(0)')
    code, value = answer(capsys, dense_graphs / "dense_64.tflite")
    assert code == 1
    assert "wrote no model for dense_64.tflite" in value["models"][0]["error"]
    assert "Internal compiler error" in value["models"][0]["error"]


def test_a_compiler_that_crashes_is_named_by_its_signal(
    dense_graphs: Path, make_compiler: MakeCompiler
) -> None:
    compiler = make_compiler(mishap="import os; os.abort()")
    with pytest.raises(CompilerError, match="was killed by SIGABRT"):
        compile_graphs(str(compiler), [dense_graphs / "dense_64.tflite"], dense_graphs, 20)


def test_a_compiler_that_hangs_is_stopped_with_its_children(
    dense_graphs: Path,
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
    code, value = answer(capsys, "--timeout", "1.5", dense_graphs / "dense_64.tflite")
    assert code == 1
    assert "did not finish within 1.5 s and was stopped" in value["models"][0]["error"]
    assert_ends(int(child.read_text()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_stops_the_compiler_too(
    dense_graphs: Path, make_compiler: MakeCompiler, number: signal.Signals
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("the signal is ignored here, as SIGHUP is under nohup")
    child = make_compiler(mishap=READ + HANGING).parent / "child"
    command = [
        sys.executable,
        "-m",
        "edgetpu_driver.cli",
        "models",
        "compile",
        str(dense_graphs / "dense_64.tflite"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_child(child)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "")
    assert_ends(int(child.read_text()))


def test_a_compiler_that_is_given_must_be_there(
    dense_graphs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, value = answer(capsys, "--compiler", dense_graphs / "absent", dense_graphs / "dense_64.tflite")
    assert (code, value["error"]["kind"]) == (1, "CompilerError")
    assert "is not an executable file" in value["error"]["message"]


def test_a_compiler_for_another_architecture_is_reported(dense_graphs: Path, tmp_path: Path) -> None:
    program = tmp_path / "edgetpu_compiler"
    program.write_bytes(b"\x7fELF no program of this machine")
    program.chmod(0o755)
    with pytest.raises(CompilerError, match="exists for Linux on x86-64 only"):
        compile_graphs(str(program), [dense_graphs / "dense_64.tflite"], dense_graphs, 5)
