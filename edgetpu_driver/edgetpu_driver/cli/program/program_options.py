"""The options of `edgetpu program`: assemble, extract, run, step."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgetpu_driver.cli.common_options import (
    Commands,
    add_command,
    add_device_options,
    add_group,
    seconds,
)
from edgetpu_driver.cli.number_arguments import positive, whole


def add(commands: Commands) -> None:
    """Add `program` and its own commands."""
    parts = add_group(commands, "program", "assemble, run and single-step your own programs for the chip")
    _add_assemble(parts)
    _add_extract(parts)
    _add_run(parts)
    _add_step(parts)


def _command(commands: Commands, name: str, module: str, summary: str, more: str) -> argparse.ArgumentParser:
    return add_command(commands, name, summary, more, module=f"program.{module}")


def _add_assemble(commands: Commands) -> None:
    command = _command(
        commands,
        "assemble",
        "assemble_and_extract",
        "assemble text into a bitstream",
        "Takes text as `edgetpu disassemble` writes it, by operations or by words. Assembling that "
        "output gives the same bytes.",
    )
    command.add_argument("text", type=Path, metavar="TEXT", help="text file with one program")
    command.add_argument("--output", type=Path, required=True, metavar="FILE", help="the bitstream to write")
    command.add_argument(
        "--frame",
        action="store_true",
        help="add the usual start of a program before the text, and halt, NOPs and end after it",
    )


def _add_extract(commands: Commands) -> None:
    command = _command(
        commands,
        "extract",
        "assemble_and_extract",
        "write the bitstreams and parameters of a compiled model to files",
        "Files are named after the model: x.caching.bin, x.caching.parameters.bin, x.execution.bin, with the "
        "number of the chunk or part if there are several.",
    )
    command.add_argument("model", type=Path, metavar="MODEL", help="a compiled .tflite file")
    command.add_argument(
        "--output", type=Path, default=Path(), metavar="DIR", help="default: the current directory"
    )


def _add_run(commands: Commands) -> None:
    command = _command(
        commands,
        "run",
        "run_and_step",
        "run a program and show what it sends",
        "Sends the program, starts the scalar core, sends parameters and inputs, reads output and events, "
        "then halts the core and reads its registers. The stick is always reset afterwards.",
    )
    _add_program(command)
    command.add_argument(
        "--upload",
        type=Path,
        metavar="FILE",
        help="a program to run first; it receives the parameters, which stay in the chip's memory",
    )
    command.add_argument(
        "--output-bytes",
        type=whole,
        metavar="N",
        help="bytes of output to read (default: as many as the program sends)",
    )
    command.add_argument(
        "--events",
        type=whole,
        metavar="N",
        help="events to wait for (default: as many interrupts as the program sends)",
    )
    command.add_argument("--output", type=Path, metavar="FILE", help="write the output there, as raw bytes")
    _add_device(command)


def _add_step(commands: Commands) -> None:
    command = _command(
        commands,
        "step",
        "run_and_step",
        "step through a program and show the core's registers",
        "Halts the scalar core, sends the program, parameters and inputs, then executes one instruction at a "
        "time. The stick is always reset afterwards.",
    )
    _add_program(command)
    command.add_argument(
        "--steps", type=positive, default=1, metavar="N", help="instructions to execute (default: 1)"
    )
    _add_device(command)


def _add_program(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "program", type=Path, metavar="PROGRAM", help="a bitstream, or the text of one (.txt, .asm)"
    )
    command.add_argument("--parameters", type=Path, metavar="FILE", help="raw bytes, sent as parameters")
    command.add_argument(
        "--input",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="raw bytes, sent as input; once for each transfer, in their order",
    )


def _add_device(command: argparse.ArgumentParser) -> None:
    group = add_device_options(
        command,
        ("usb", "virtual"),
        virtual="a virtual stick, which runs matrix programs and programs of the scalar core alone",
    )
    group.add_argument(
        "--timeout",
        type=seconds,
        default=6.0,
        metavar="S",
        help="seconds that a transfer may take (default: 6)",
    )
