"""`edgetpu confirm`: tests what only silicon can confirm and writes a report to send in."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetpu_driver.backends.factory import usb_bus
from edgetpu_driver.cli.command_options import parser
from edgetpu_driver.cli.confirm.all_steps import STEPS
from edgetpu_driver.cli.confirm.report import counted, make_report, read_report, text, write_report
from edgetpu_driver.cli.confirm.run import run_steps
from edgetpu_driver.cli.confirm.step import Step
from edgetpu_driver.cli.confirm.trial_stick import TrialStick
from edgetpu_driver.cli.device_and_model import default_firmware
from edgetpu_driver.cli.terminal import Answer, Progress, say, table
from edgetpu_driver.errors import InputError, ModelNotFoundError, reason_of
from edgetpu_driver.files.compiled_file_names import is_compiled
from edgetpu_driver.files.default_paths import default_model_dir
from edgetpu_driver.usb.chip_clock import ClockPreset

_EXIT_FAILED = 1
"""Exit status if a step is refuted or the report not written, see the epilog of `edgetpu --help`."""

_EXIT_INTERRUPTED = 130
"""Exit status if the user interrupted it, as with every command."""

_KEPT = ("models", "report", "backend", "serial", "port", "firmware", "preset")
"""Options of every call with the same stick, models and report."""


def confirm(options: argparse.Namespace, progress: Progress) -> Answer:
    """Run the chosen steps and write the report."""
    if options.list:
        rows = [(step.name, step.subject) for step in STEPS]
        value = [{"step": name, "subject": subject} for name, subject in rows]
        return Answer(value, table(rows, ("step", "assumption")))
    steps = chosen_steps(options.first, options.only)
    path: Path = options.report
    if not path.name:
        raise InputError(f"expected --report with the name of a file; got {path}")
    models = _models(options.models)
    earlier = read_report(path, options.backend) if len(steps) < len(STEPS) else {}
    stick = TrialStick(
        usb_bus(options.backend),
        serial=options.serial or None,
        bus_path=options.port or None,
        firmware=options.firmware or default_firmware() or None,
        preset=ClockPreset(options.preset),
        models=models,
        simulated=options.backend == "virtual",
    )
    with progress.counting("confirming", len(steps)) as advance:
        course = run_steps(stick, steps, advance)
    report = make_report(course, STEPS, stick.first_opening, options.backend, earlier)
    written = _written(report, path)
    failed = counted(course.outcomes)["refuted"] or not written
    return Answer(
        {**report, "files": written},
        _answer(report, written, repeated(options)),
        _EXIT_INTERRUPTED if course.interrupted else _EXIT_FAILED if failed else 0,
    )


def chosen_steps(first: str, only: str) -> Sequence[Step]:
    """All steps, those from `first` on, or one; InputError for an unknown name."""
    names = [step.name for step in STEPS]
    for name in (first, only):
        if name and name not in names:
            raise InputError(f"expected a step, one of {', '.join(names)}; got {name}")
    if only:
        return [STEPS[names.index(only)]]
    return STEPS[names.index(first) :] if first else STEPS


def _models(given: Path | None) -> list[Path]:
    """The compiled models of a directory, by default the driver's directory, which need not exist."""
    directory = given or default_model_dir()
    if not os.path.isdir(directory):
        if given is None:
            return []
        raise ModelNotFoundError(f"expected a directory with models; there is none at {given}")
    return [path for path in sorted(directory.glob("*.tflite")) if is_compiled(path)]


def _written(report: dict[str, Any], path: Path) -> tuple[Path, ...]:
    """Write the report; no files if that fails, since the findings of the steps must still be shown."""
    try:
        return write_report(report, path)
    except OSError as error:
        say(f"the report is not written: {reason_of(error)}")
        return ()


def repeated(options: argparse.Namespace) -> str:
    """The options for another call with the same stick, models and report, as a shell takes them."""
    defaults = vars(parser().parse_args(["confirm"]))
    values = {name: getattr(options, name) for name in _KEPT}
    return "".join(
        f" --{name} {shlex.quote(str(value))}" for name, value in values.items() if value != defaults[name]
    )


def _answer(report: dict[str, Any], written: tuple[Path, ...], options: str) -> str:
    total = ", ".join(f"{count} {kind}" for kind, count in counted(report["outcomes"]).items())
    files = " and ".join(map(str, written))
    shown = text(report, options)
    if report["backend"] == "virtual":
        return f"{shown}\n{total}; a virtual stick confirms nothing. Written to {files or 'no file'}"
    return f"{shown}\n{total}. Please send in {files or 'this text'}, and name the computer, port and hub"
