"""`edgetpu program`: text to bytes and back, programs run and stepped through, one line for each error."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver import ProgramRunner
from edgetpu_driver.cli.main import main
from edgetpu_driver.toolchain.dense_compiler import compile_dense

BODY = """\
scalar s_op=MOVI s_x=1 imm_scalar=0xabab  # as in the published example
scalar s_op=GTI s_x=3 s_y=1 imm_scalar=5
scalar s_op=MOVI s_x=4 imm_scalar=4
scalar v_op=0xa vs_reg=2
scalar v_op=0xa v_offset=1 vs_reg=2
scalar v_op=0xa v_offset=2 vs_reg=2
scalar v_op=0xa v_offset=3 vs_reg=4
scalar v_op=0xc
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A bitstream that sets s1, s4 and p3 and sends interrupt 0."""
    text, path = tmp_path / "body.txt", tmp_path / "program.bin"
    text.write_text(BODY)
    assert main(["program", "assemble", str(text), "--frame", "--output", str(path)]) == 0
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """Exit code and value of a command with --json."""
    capsys.readouterr()
    code = main(["program", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code and standard error of a command, which is one line."""
    capsys.readouterr()
    code = main(["program", *map(str, arguments)])
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return code, error.removeprefix("edgetpu: ").rstrip()


@pytest.mark.parametrize("view", [(), ("--words",)], ids=["operations", "words"])
def test_disassembled_programs_assemble_to_the_same_bytes(
    view: tuple[str, ...], program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["disassemble", str(program), *view]) == 0
    text, again = tmp_path / "again.txt", tmp_path / "again.bin"
    text.write_text(capsys.readouterr().out)
    assert main(["program", "assemble", str(text), "--output", str(again)]) == 0
    assert again.read_bytes() == program.read_bytes()


def test_run_shows_events_and_registers(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, value = answer(capsys, "run", program, "--backend", "virtual")
    assert code == 0
    assert value["events"] == [{"tag": "INTERRUPT_0", "address": 0, "length": 0}]
    assert value["output"] == []
    core = value["core"]
    assert (core["run_status"], core["program_counter"]) == ("HALTED", 9)
    assert core["registers"] == [0, 0xABAB, 0, 0, 4, *[0] * 27]
    assert core["predicates"] == [0, 0, 0, 1, 0, 0, 0, 0]


def test_run_prints_output_events_and_registers_as_text(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["program", "run", str(program), "--backend", "virtual"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["output: 0 bytes", "event: INTERRUPT_0, 0 bytes", "core: HALTED, at 0x9"]
    assert lines[3] == "s0  0x0 0xabab 0x0 0x0 0x4 0x0 0x0 0x0"
    assert lines[-1] == "p0  0x0 0x0 0x0 0x1 0x0 0x0 0x0 0x0"


def test_step_shows_what_each_instruction_changes(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, value = answer(capsys, "step", program, "--backend", "virtual", "--steps", "4")
    assert code == 0
    assert value["steps"] == [
        {"program_counter": 1, "changes": {}},
        {"program_counter": 2, "changes": {"s1": 0xABAB}},
        {"program_counter": 3, "changes": {"p3": 1}},
        {"program_counter": 4, "changes": {"s4": 4}},
    ]
    assert value["core"]["registers"][1] == 0xABAB


def test_the_programs_of_a_model_are_extracted_and_run(
    make_dense: Callable[[int], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = compile_dense(make_dense(1))
    model = tmp_path / "small_edgetpu.tflite"
    model.write_bytes(compiled.file)
    code, files = answer(capsys, "extract", model, "--output", tmp_path / "out")
    assert code == 0
    names = [Path(each["file"]).name for each in files]
    assert names == ["small.caching.bin", "small.caching.parameters.bin", "small.execution.bin"]
    data, output = tmp_path / "in.bin", tmp_path / "result.bin"
    data.write_bytes(np.full(256, 128, np.uint8).tobytes())
    upload, parameters, execution = (tmp_path / "out" / name for name in names)
    arguments = ("--upload", upload, "--parameters", parameters, "--input", data, "--output", output)
    code, value = answer(capsys, "run", execution, *arguments, "--backend", "virtual")
    assert (code, value["output"], value["output_bytes"]) == (0, None, 256)
    assert output.read_bytes() == bytes([128]) * 256  # inputs at their zero point


def test_a_text_runs_without_assembling_it_first(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    main(["disassemble", str(program)])
    text = tmp_path / "whole.txt"
    text.write_text(capsys.readouterr().out)
    code, value = answer(capsys, "run", text, "--backend", "virtual")
    assert (code, value["core"]["registers"][1]) == (0, 0xABAB)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected at least one instruction"),
        ("hello", "line 1: 'hello' is not an operation; expected one of"),
        ("scalar s_op=MOVI\nscalar s_x=99", "line 2: s_x has 5 bits; 99 does not fit"),
        ("s_op=1 what=2", "line 1: 'what' is not a field of an instruction"),
        ("zz: scalar", "line 1: expected a byte offset before the colon, got 'zz'"),
    ],
)
def test_faulty_text_is_refused_with_its_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "faulty.txt"
    path.write_text(text)
    code, error = error_of(capsys, "assemble", path, "--output", tmp_path / "x.bin")
    assert (code, error.startswith(f"{path}: {message}")) == (1, True)
    assert not (tmp_path / "x.bin").exists()


def test_faulty_files_are_refused(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary, odd, empty = tmp_path / "binary.txt", tmp_path / "odd.bin", tmp_path / "empty"
    binary.write_bytes(b"\xff\xfe")
    odd.write_bytes(bytes(17))
    empty.touch()
    virtual = ("--backend", "virtual")
    refused = {
        ("assemble", binary, "--output", odd): f"{binary}: expected text in UTF-8; got another byte at 0",
        ("assemble", tmp_path / "no", "--output", odd): "cannot read",
        ("extract", program): f"{program}: model: expected the file identifier TFL3",
        ("run", odd, *virtual): "expected a program of 16-byte instructions",
        ("run", tmp_path, *virtual): f"cannot read {tmp_path}: Is a directory",
        ("run", program, *virtual, "--input", empty): f"{empty} is empty",
        ("run", program, *virtual, "--parameters", tmp_path): f"cannot read {tmp_path}: Is a directory",
        ("run", program, *virtual, "--upload", program): "expected --parameters with --upload",
        ("step", program, *virtual, "--port", "x"): "expected a bus path such as 2-1.4; got 'x'",
    }
    for arguments, message in refused.items():
        code, error = error_of(capsys, *arguments)
        assert code == 1, arguments
        assert message in error


def test_a_program_that_sends_less_than_asked_for_ends_in_time(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--backend", "virtual", "--output-bytes", "8", "--timeout", "0.2")
    code, error = error_of(capsys, "run", program, *options)
    assert (code, error) == (3, "no answer within 0.2 s waiting for 8 bytes of output; the core is at 0x9")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--timeout", "0"),
        ("--timeout", "nan"),
        ("--timeout", "soon"),
        ("--output-bytes", "-1"),
        ("--events", "x"),
        ("--backend", "cpu"),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    arguments: tuple[str, ...], program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["program", "run", str(program), *arguments])
    assert left.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_ctrl_c_resets_the_stick_and_a_second_one_does_not_prevent_that(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)
    closing = []

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def close(self: ProgramRunner) -> None:
        closing.append(signal.getsignal(signal.SIGINT))
        right(self)
        closing.append("closed")

    right = ProgramRunner.close
    monkeypatch.setattr(ProgramRunner, "run", interrupted)
    monkeypatch.setattr(ProgramRunner, "close", close)
    assert main(["program", "run", str(program), "--backend", "virtual"]) == 130
    assert closing == [signal.SIG_IGN, "closed"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("command", ["run", "step"])
def test_a_model_is_not_sent_as_a_program(
    command: str, make_dense: Callable[[int], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small_edgetpu.tflite"
    path.write_bytes(compile_dense(make_dense(1)).file)
    code, error = error_of(capsys, command, path, "--backend", "virtual")
    assert (code, error.startswith(f"{path} is a model; expected a program")) == (1, True)


@pytest.mark.parametrize("option", ["--serial", "--firmware"])
def test_options_of_a_real_stick_are_refused_with_the_virtual_one(
    program: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    code, error = error_of(capsys, "run", program, "--backend", "virtual", option, "A1")
    reason = "which has one stick, with its firmware"
    assert (code, error) == (1, f"expected no {option} with the backend virtual, {reason}; got A1")
