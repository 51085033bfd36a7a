"""The command: exit codes, strict JSON, one line for each error."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from usb.backend import libusb1

from edgetpu_driver.cli import terminal
from edgetpu_driver.cli.main import main
from edgetpu_driver.darwinn.instructions.instruction_word import Instruction
from testdata import ModelFolder

ROOT = Path(__file__).parents[1]


@pytest.fixture
def bitstream(tmp_path: Path) -> Path:
    """Two words: an empty one and one that loads 7 into s1."""
    word = (1 << 11 | 0x2F << 54 | 1 << 60 | 7 << 70).to_bytes(16, "little")
    path = tmp_path / "program.bin"
    path.write_bytes(bytes(16) + word)
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """Exit code and value of a command with --json, which writes JSON without NaN and nothing else."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out, parse_constant=refuse)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    listed = capsys.readouterr().out
    names = (
        "devices",
        "info",
        "disassemble",
        "run",
        "benchmark",
        "registers",
        "selftest",
        "models",
        "program",
    )
    assert all(f"\n    {name}" in listed for name in names)


def test_help_loads_neither_numpy_nor_pyusb() -> None:
    script = (
        "import sys; from edgetpu_driver.cli import command_options, main; "
        "command_options.parser().format_help(); print(sorted({'numpy', 'usb', 'rich'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["fly"])
    assert left.value.code == 2
    assert "invalid choice: 'fly'" in capsys.readouterr().err


def test_an_error_is_one_line_without_a_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["info", str(tmp_path / "absent.tflite")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (f"edgetpu: cannot read {tmp_path / 'absent.tflite'}: No such file or directory\n")


def test_an_error_is_json_too_when_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, value = answer(capsys, "info", tmp_path / "absent.tflite")
    assert (code, value["error"]["kind"]) == (1, "ModelNotFoundError")


def test_control_c_ends_quietly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, graph: Path
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("edgetpu_driver.cli.info.info", interrupt)
    assert main(["info", str(graph)]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_control_c_while_python_exits_ends_quietly(graph: Path, number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("the signal is ignored here, as SIGHUP is under nohup")
    script = (
        "import atexit, os, sys; from edgetpu_driver.cli.entry_point import main\n"
        f"atexit.register(os.kill, os.getpid(), {number:d}); sys.exit(main())"
    )
    command = [sys.executable, "-c", script, "info", str(graph)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-number, "")
    assert done.stdout


def test_a_closed_pipe_is_not_an_error(graph: Path) -> None:
    script = f"{sys.executable} -m edgetpu_driver.cli info {graph} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout in ("0\n", "141\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("json", ["", "--json"])
@pytest.mark.parametrize("output", ["/dev/full", "&-"])
def test_an_output_that_cannot_be_written_is_an_error_in_one_line(
    graph: Path, output: str, json: str, unbuffered: str
) -> None:
    script = f"{sys.executable} -m edgetpu_driver.cli info {graph} {json} >{output}"
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, env=environment
    )
    reason = "No space left on device" if output == "/dev/full" else "standard output is closed"
    assert (done.returncode, done.stderr) == (1, f"edgetpu: {reason}\n")


@pytest.mark.parametrize(
    ("arguments", "status", "errors"),
    [
        ("--help", 0, ""),
        ("info absent.tflite --json", 1, "edgetpu: cannot read absent.tflite: No such file or directory\n"),
    ],
)
def test_what_a_closed_pipe_does_not_take_is_dropped(
    tmp_path: Path, arguments: str, status: int, errors: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "edgetpu_driver.cli", *arguments.split()],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": ""},
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (status, errors)


@pytest.mark.parametrize("errors", ["/dev/full", "&-"])
def test_a_standard_error_that_takes_nothing_changes_neither_the_output_nor_the_exit_status(
    graph: Path, tmp_path: Path, errors: str
) -> None:
    command = f"{sys.executable} -m edgetpu_driver.cli"
    working = f"{command} benchmark {graph} --backend cpu --runs 2 --json 2>{errors}"
    done = subprocess.run(["bash", "-c", working], stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["runs"]) == (0, 2)
    failing = f"{command} info {tmp_path}/absent.tflite --json 2>{errors}"
    done = subprocess.run(["bash", "-c", failing], stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["error"]["kind"]) == (1, "ModelNotFoundError")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        pytest.param(
            "registers --serial absent",
            3,
            marks=pytest.mark.skipif(libusb1.get_backend() is None, reason="libusb 1.0 is not installed"),
        ),
        ("fly", 2),
    ],
)
def test_a_full_standard_error_does_not_hide_the_exit_status(arguments: str, status: int) -> None:
    script = f"{sys.executable} -m edgetpu_driver.cli {arguments} 2>/dev/full"
    environment = os.environ | {"PYTHONUNBUFFERED": ""}
    assert subprocess.run(["bash", "-c", script], check=False, env=environment).returncode == status


def test_a_name_that_is_no_text_is_written_with_escapes(tmp_path: Path) -> None:
    script = f"{sys.executable} -m edgetpu_driver.cli models build dense_64 --output {tmp_path}/$'\\xff'"
    environment = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{tmp_path}/\\udcff/dense_64.tflite" in done.stdout


def test_json_stays_valid_where_the_output_takes_ascii_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "edgetpu_driver.cli", "models", "build", "dense_64", "--json"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(
        [*command, f"--output={tmp_path}/ü"], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{tmp_path}/ü/dense_64.tflite" in str(json.loads(done.stdout))


def test_disassemble_shows_the_words_of_a_bitstream(
    capsys: pytest.CaptureFixture[str], bitstream: Path
) -> None:
    assert main(["disassemble", "--words", str(bitstream)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"# {bitstream}: 2 words",
        "0000:",
        "0010: enable_scalar=1 s_op=MOVI s_x=1 imm_scalar=7  # s1 = 0x7",
    ]


def test_disassemble_shows_operations_as_far_as_they_are_understood(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "program.bin"
    move = Instruction(enable_scalar=1, s_op=0x2F, s_x=1, imm_scalar=7).encode()
    path.write_bytes(
        move + (0x1A << 6 | 0xFFFF << 12).to_bytes(16, "little") + (0x08 << 6).to_bytes(16, "little")
    )
    assert main(["disassemble", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"# {path}: 3 words",
        "0000: scalar s_op=MOVI s_x=1 imm_scalar=7  # s1 = 0x7",
        "0010: wait number=0 tiles=0xffff",
        "# 16 bytes from 0020 on are unknown: byte 32: expected a known operation; got opcode 0x8",
    ]
    _, value = answer(capsys, "disassemble", path)
    (listing,) = value["bitstreams"]
    assert [each["name"] for each in listing["operations"]] == ["scalar", "wait"]
    assert listing["operations"][1]["tiles"] == 0xFFFF
    assert listing["rest_bytes"] == 16


def test_disassemble_decodes_the_requantisation_of_a_real_program(
    capsys: pytest.CaptureFixture[str], golden: ModelFolder
) -> None:
    _, value = answer(capsys, "disassemble", golden.model("dense_256_edgetpu.tflite"))
    execution = value["bitstreams"][1]["operations"]
    (tensor,) = (each for each in execution if each["name"] == "tensor")
    assert (tensor["number"], tensor["tiles"]) == (31, 0xF)
    assert tensor["requantisation"] == {
        "multiplier": 1.0,
        "minimum": -129.00001525878906,
        "maximum": 126.00000762939453,
        "input_zero_point": 127,
        "weight_zero_point": 0,
        "output_zero_point": 129,
    }


def test_disassemble_counts_the_values_of_fields_over_all_files(
    capsys: pytest.CaptureFixture[str], bitstream: Path
) -> None:
    _, value = answer(capsys, "disassemble", "--stats", bitstream, bitstream)
    assert value["statistics"]["imm_scalar"] == {"0": 2, "7": 2}
    assert [each["words"] for each in value["bitstreams"]] == [2, 2]


def test_disassemble_names_the_file_that_it_cannot_read(
    capsys: pytest.CaptureFixture[str], bitstream: Path, graph: Path
) -> None:
    assert main(["disassemble", str(bitstream), str(graph)]) == 1
    assert capsys.readouterr().err.startswith(f"edgetpu: {graph}: the model is not compiled for the Edge TPU")


def test_disassemble_refuses_a_file_that_is_not_a_bitstream(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "odd.bin"
    path.write_bytes(bytes(17))
    assert main(["disassemble", str(path)]) == 1
    assert "16-byte instructions; it has 17 bytes" in capsys.readouterr().err


def test_json_has_null_for_nan() -> None:
    assert json.loads(terminal.to_json({"a": float("nan"), "b": [np.float32(0.5)]})) == {
        "a": None,
        "b": [0.5],
    }


def test_progress_is_printed_in_lines_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((0.0, 0.5, 1.5, 1.6))
    # Only for this module: threads of earlier tests would take some of the times.
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: next(times)))
    with terminal.Progress().counting("inferences", 3) as advance:
        for _ in range(3):
            advance()
    assert capsys.readouterr().err == "edgetpu: inferences: 2 of 3\n"


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN], ids=["usual", "ignored"])
def test_ctrl_c_ends_the_command_while_it_is_loaded(
    handler: Any, bitstream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    load = importlib.import_module

    def noted(name: str) -> Any:
        seen.append(signal.getsignal(signal.SIGINT))
        return load(name)

    monkeypatch.setattr(importlib, "import_module", noted)
    before = signal.signal(signal.SIGINT, handler)
    try:
        assert main(["disassemble", str(bitstream), "--words"]) == 0
        seen.append(signal.getsignal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    usual = handler is signal.default_int_handler
    assert (seen[0], seen[-1]) == (signal.SIG_DFL if usual else handler, handler)


_INTERRUPT = """
import os, runpy, signal, sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == interrupted:
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["edgetpu", *arguments]
"""


def interrupted_at(
    module: str, number: signal.Signals, start: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Start the command in a process that gets a signal when it begins to load a module."""
    values = f"interrupted, number, arguments = {module!r}, {number:d}, {arguments!r}"
    command = [sys.executable, "-c", f"{values}{_INTERRUPT}{start}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def starts() -> dict[str, str]:
    """The ways to start the command, as Python code."""
    script = re.search(r"^ *edgetpu = (\S+):(\w+)$", (ROOT / "setup.cfg").read_text(), re.MULTILINE)
    assert script is not None
    return {
        "module": 'runpy.run_module("edgetpu_driver.cli", run_name="__main__", alter_sys=True)',
        "program": f'runpy.run_path("{ROOT / "bin" / "edgetpu"}", run_name="__main__")',
        "console script": f"from {script[1]} import {script[2]} as main; main()",
    }


@pytest.mark.parametrize("start", starts().values(), ids=starts())
def test_ctrl_c_ends_the_command_before_it_is_loaded(start: str) -> None:
    # The program is the first module of the command, the others are loaded by the package.
    interrupted = "edgetpu_driver" if "run_path" in start else "edgetpu_driver.cli.main"
    done = interrupted_at(interrupted, signal.SIGINT, start, "--help")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_while_numpy_is_loaded(graph: Path, number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("the signal is ignored here, as SIGHUP is under nohup")
    done = interrupted_at("numpy", number, starts()["module"], "info", str(graph))
    assert (done.returncode, done.stdout, done.stderr) == (-number, "", "")
