"""`edgetpu program run` and `step`: run custom programs on a stick."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetpu_driver.backends.factory import open_program_runner
from edgetpu_driver.cli.device_and_model import check_stick_options, default_firmware
from edgetpu_driver.cli.output_file import write_output
from edgetpu_driver.cli.program.assemble_and_extract import program_bytes
from edgetpu_driver.cli.terminal import Answer, Progress
from edgetpu_driver.errors import InputError, ProtocolError
from edgetpu_driver.files.file_access import read_file

if TYPE_CHECKING:
    from edgetpu_driver.stick.core_debugging import CoreState
    from edgetpu_driver.stick.program_runner import ProgramRunner

_SHOWN_BYTES = 64
"""Bytes of an output shown on a terminal; --output and --json give all of them."""
_BYTES_OF_A_LINE = 16
"""Bytes in a line of a hexadecimal dump, as other tools print it."""


def run(options: argparse.Namespace, progress: Progress) -> Answer:  # noqa: ARG001
    """Run a program once."""
    program = program_bytes(options.program)
    upload = None if options.upload is None else program_bytes(options.upload)
    parameters, inputs = _data(options)
    if upload is not None and not parameters:
        raise InputError("expected --parameters with --upload: the uploaded program receives them")
    with _opened(options) as runner:
        if upload is not None:
            runner.run(upload, parameters=parameters)
        result = runner.run(
            program,
            parameters=parameters if upload is None else b"",
            inputs=inputs,
            output_bytes=options.output_bytes,
            events=options.events,
        )
        core = result.core
        with contextlib.suppress(ProtocolError):  # the program has run, and the stick is reset next
            core = runner.halt()
    if options.output is not None:
        write_output(options.output, result.output)
    events = [{"tag": event.tag, "address": event.address, "length": event.length} for event in result.events]
    value = {
        "output_bytes": len(result.output),
        "output": None if options.output is not None else list(result.output),
        "output_file": options.output,
        "events": events,
        "core": _described(core),
    }
    lines = [f"output: {len(result.output)} bytes"]
    lines += _hexadecimal(result.output) if options.output is None else [f"written to {options.output}"]
    lines += [f"event: {event.tag.name}, {event.length} bytes" for event in result.events]
    return Answer(value, "\n".join([*lines, *_core_lines(core)]))


def step(options: argparse.Namespace, progress: Progress) -> Answer:
    """Step through a program from its start."""
    program = program_bytes(options.program)
    parameters, inputs = _data(options)
    states = []
    with _opened(options) as runner, progress.counting("steps", options.steps) as advance:
        states.append(runner.load(program))
        runner.send(parameters=parameters, inputs=inputs)
        for _ in range(options.steps):
            states.append(runner.step())
            advance()
    changes = [_changes(before, after) for before, after in pairwise(states)]
    value = {
        "steps": [
            {"program_counter": state.program_counter, "changes": change}
            for state, change in zip(states[1:], changes, strict=True)
        ],
        "core": _described(states[-1]),
    }
    lines = [
        f"{number}: {before.program_counter:#x} -> {after.program_counter:#x}{_change_text(change)}"
        for number, (before, after, change) in enumerate(zip(states, states[1:], changes, strict=False), 1)
    ]
    return Answer(value, "\n".join([*lines, *_core_lines(states[-1])]))


@contextlib.contextmanager
def _opened(options: argparse.Namespace) -> Iterator[ProgramRunner]:
    """The open stick; it is reset at the end even after a second Ctrl-C."""
    check_stick_options(options)
    runner = open_program_runner(
        options.backend,
        serial=options.serial,
        bus_path=options.port,
        firmware=options.firmware or default_firmware(),
        preset=options.preset,
        timeout=options.timeout,
    )
    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                stack.callback(signal.signal, number, signal.getsignal(number))
        stack.enter_context(runner)
        stack.callback(_ignore_interrupts)
        yield runner


def _ignore_interrupts() -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _data(options: argparse.Namespace) -> tuple[bytes, list[bytes]]:
    """Parameters and inputs; InputError for an empty file."""
    parameters = b"" if options.parameters is None else _raw(options.parameters)
    return parameters, [_raw(path) for path in options.input]


def _raw(path: Path) -> bytes:
    try:
        data = read_file(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if not data:
        raise InputError(f"{path} is empty")
    return data


def _described(core: CoreState) -> dict[str, Any]:
    return {**asdict(core), "run_status": core.status_name}


def _changes(before: CoreState, after: CoreState) -> dict[str, int]:
    """The registers that one step changed, with their new values."""
    pairs = [
        *((f"s{number}", *values) for number, values in _pairs(before.registers, after.registers)),
        *((f"p{number}", *values) for number, values in _pairs(before.predicates, after.predicates)),
    ]
    return {name: new for name, old, new in pairs if old != new}


def _pairs(before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, int]]]:
    return enumerate(zip(before, after, strict=True))


def _change_text(changes: dict[str, int]) -> str:
    return "".join(f"  {name} = {value:#x}" for name, value in changes.items())


def _core_lines(core: CoreState) -> list[str]:
    """The state of the core; registers in rows of eight."""
    texts = [f"{value:#x}" for value in core.registers]
    rows = [f"s{first:<2} {' '.join(texts[first : first + 8])}" for first in range(0, len(texts), 8)]
    predicates = " ".join(f"{value:#x}" for value in core.predicates)
    return [f"core: {core.status_name}, at {core.program_counter:#x}", *rows, f"p0  {predicates}"]


def _hexadecimal(data: bytes) -> list[str]:
    shown = data[:_SHOWN_BYTES]
    starts = range(0, len(shown), _BYTES_OF_A_LINE)
    lines = [f"{start:04x}: {shown[start : start + _BYTES_OF_A_LINE].hex(' ')}" for start in starts]
    return lines if len(data) <= _SHOWN_BYTES else [*lines, ".. (use --output or --json for all of it)"]
