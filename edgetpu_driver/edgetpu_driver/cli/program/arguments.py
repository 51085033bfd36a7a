"""The grammar of `edgetpu program`: assemble, disassemble, extract, run, step."""

from __future__ import annotations

import argparse
from pathlib import Path

_PRESETS = ("low", "medium", "high", "max")
_LONGEST = 3600.0

_Commands = argparse._SubParsersAction  # not public in argparse


def add(commands: _Commands[argparse.ArgumentParser]) -> None:
    """Add `program` and its own commands."""
    summary = "assemble programs of your own, run them, step through them"
    program = commands.add_parser("program", help=summary, description=f"{summary.capitalize()}.")
    parts = program.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_assemble(parts)
    _add_disassemble(parts)
    _add_extract(parts)
    _add_run(parts)
    _add_step(parts)


def _command(
    commands: _Commands[argparse.ArgumentParser], name: str, module: str, summary: str, more: str
) -> argparse.ArgumentParser:
    made = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {more}")
    made.set_defaults(module=f"program.{module}", function=name)
    made.add_argument("--json", action="store_true", help="write one JSON value instead of text")
    return made


def _add_assemble(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        "assemble",
        "texts",
        "make a bitstream of text",
        "The text is that of `edgetpu program disassemble`, by operations or by words; what it shows gives "
        "the same bytes.",
    )
    command.add_argument("text", type=Path, metavar="TEXT", help="the text of one program")
    command.add_argument("--output", type=Path, required=True, metavar="FILE", help="the bitstream to write")
    command.add_argument(
        "--frame", action="store_true", help="put the start before the text, and halt, NOPs and end after it"
    )


def _add_disassemble(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        "disassemble",
        "texts",
        "show a bitstream as text",
        "The same as `edgetpu disassemble`: a line for each operation, then the transfers it asks for.",
    )
    command.add_argument(
        "files", type=Path, nargs="+", metavar="MODEL|BITSTREAM", help="compiled .tflite files or bitstreams"
    )
    command.add_argument("--words", action="store_true", help="one line for each 128-bit word instead")
    command.set_defaults(stats=False)


def _add_extract(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        "extract",
        "texts",
        "write the bitstreams and parameters of a compiled model to files",
        "They are named after the model: x.caching.bin, x.caching.parameters.bin, x.execution.bin, with the "
        "number of a chunk or a part where there are several.",
    )
    command.add_argument("model", type=Path, metavar="MODEL", help="a compiled .tflite file")
    command.add_argument(
        "--output", type=Path, default=Path(), metavar="DIR", help="default: the current directory"
    )


def _add_run(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        "run",
        "device",
        "run a program and show what it sends",
        "Sends the program, starts the scalar core, sends parameters and inputs, reads output and events, "
        "then halts the core and reads its registers. The stick is reset afterwards, however that ended.",
    )
    _add_program(command)
    command.add_argument(
        "--upload",
        type=Path,
        metavar="FILE",
        help="a program to run first, which gets the parameters (they stay in the chip's memory)",
    )
    command.add_argument(
        "--output-bytes",
        type=_count,
        metavar="N",
        help="read so many bytes of output (default: as many as the program asks to send)",
    )
    command.add_argument(
        "--events",
        type=_count,
        metavar="N",
        help="wait for so many events (default: as many interrupts as the program sends)",
    )
    command.add_argument("--output", type=Path, metavar="FILE", help="write the output there, as raw bytes")
    _add_device(command)


def _add_step(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        "step",
        "device",
        "step through a program and show the core's registers",
        "Halts the scalar core, sends the program, parameters and inputs, then lets the core carry out one "
        "instruction after the other. The stick is reset afterwards, however that ended.",
    )
    _add_program(command)
    command.add_argument(
        "--steps", type=_positive, default=1, metavar="N", help="instructions to carry out (default: 1)"
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
    group = command.add_argument_group("device")
    group.add_argument(
        "--backend",
        choices=("usb", "virtual"),
        default="usb",
        help="a stick on USB (default), or a virtual stick, which runs programs of the scalar core alone and "
        "those of matrices",
    )
    group.add_argument("--serial", default="", help="only the stick of this serial number")
    group.add_argument("--port", default="", metavar="BUS-PORT", help="only the stick there, e.g. 2-1.4")
    group.add_argument("--firmware", default="", metavar="FILE", help="image for a stick in boot mode")
    group.add_argument("--preset", choices=_PRESETS, default="high", help="clock rates (default: high)")
    group.add_argument(
        "--timeout",
        type=_seconds,
        default=6.0,
        metavar="S",
        help="seconds that a transfer may take (default: 6)",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _LONGEST:
        raise argparse.ArgumentTypeError(
            f"expected seconds, more than 0 and at most {_LONGEST:g}, got {text!r}"
        )
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, got {text[:40]!r}")
    return int(text)


def _positive(text: str) -> int:
    if not (value := _count(text)):
        raise argparse.ArgumentTypeError(f"expected a positive whole number, got {text!r}")
    return value
