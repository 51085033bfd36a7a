"""`edgetpu doctor`: checks everything a stick needs and reports what is missing."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from edgetpu_driver.cli.doctor import computer
from edgetpu_driver.cli.doctor.finding import Finding, State, missing
from edgetpu_driver.cli.doctor.models import models
from edgetpu_driver.cli.doctor.opencv import opencv
from edgetpu_driver.cli.doctor.stick_requirements import stick_requirements
from edgetpu_driver.cli.doctor.sticks import bus, sticks
from edgetpu_driver.cli.terminal import Answer, Progress, table
from edgetpu_driver.errors import EdgeTpuError, reason_of
from edgetpu_driver.files.default_paths import default_model_dir

_EXIT_MISSING = 1
"""Exit status if a check fails, see the epilog of `edgetpu --help`."""

Check = Callable[[], Finding | Iterable[Finding]]


def doctor(options: argparse.Namespace, progress: Progress) -> Answer:
    """Check everything that a backend needs."""
    checks = _checks(options.backend)
    findings: list[Finding] = []
    with progress.counting("checking", len(checks)) as advance:
        for subject, check in checks.items():
            findings += _run(subject, check)
            advance()
    findings = _without_needless(findings)
    to_fix = [each for each in findings if each.state is State.MISSING]
    value = {
        "backend": options.backend,
        "fine": not to_fix,
        "findings": [
            {"subject": each.subject, "state": each.state.value, "found": each.found, "remedy": each.remedy}
            for each in findings
        ],
    }
    return Answer(value, _text(findings, options.backend), _EXIT_MISSING if to_fix else 0)


def _checks(backend: str) -> dict[str, Check]:
    """The checks for a backend, by the subject to report if a check raises."""
    on_usb = backend == "usb"
    checks: dict[str, Check] = {
        "computer": computer.computer,
        "Python": computer.python,
        "packages": computer.packages,
        "OpenCV": opencv,
    }
    if on_usb:
        checks |= {
            "virtualisation": computer.virtualisation,
            "libusb": computer.libusb,
            "other drivers": computer.other_drivers,
            "requirements": stick_requirements,
            "USB bus": bus,
        }
    if backend != "cpu":
        checks["stick"] = partial(_sticks, backend)
    return checks | {
        "models": partial(models, default_model_dir(), backend),
        "LiteRT": partial(computer.litert, needed=not on_usb),
        "ROS 2": computer.ros,
    }


def _sticks(backend: str) -> tuple[Finding, ...]:
    from edgetpu_driver.backends.factory import usb_bus

    return sticks(usb_bus(backend), simulated=backend == "virtual")


def _run(subject: str, check: Check) -> list[Finding]:
    """The findings of a check; an exception becomes a finding too."""
    try:
        found = check()
    except (EdgeTpuError, ImportError, OSError) as error:
        return [missing(subject, reason_of(error), "see the lines above")]
    return [found] if isinstance(found, Finding) else list(found)


def _without_needless(findings: list[Finding]) -> list[Finding]:
    """Downgrade missing access rights to notes if a stick could be opened, e.g. by the user at the seat."""
    usable = any(each.subject == "access" and each.state is State.FINE for each in findings)
    runs = any(each.subject == "stick" and "runs its firmware" in each.found for each in findings)
    needless = {*(("udev rule", "group") if usable else ()), *(("firmware",) if runs else ())}
    return [
        replace(each, state=State.NOTE) if each.subject in needless and each.state is State.MISSING else each
        for each in findings
    ]


def _text(findings: list[Finding], backend: str) -> str:
    rows: list[tuple[Any, ...]] = []
    for each in findings:
        rows.append((each.state.value, each.subject, each.found))
        if each.remedy:
            rows.append(("", "", f"-> {each.remedy}"))
    counted = sum(each.state is State.MISSING for each in findings)
    last = f"{counted} things are missing" if counted > 1 else "1 thing is missing"
    complete = f"everything for --backend {backend} is in place"
    summary = f"{last} for --backend {backend}" if counted else complete
    return f"{table(rows, ('state', 'subject', 'found'))}\n{summary}"
