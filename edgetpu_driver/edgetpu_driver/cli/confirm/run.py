"""Runs the steps of `edgetpu confirm` until the stick has to be replugged, or the user interrupts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetpu_driver.cli.confirm.all_steps import BRING_UP, FIRMWARE, PORT, STEPS
from edgetpu_driver.cli.confirm.outcome import NotApplicable, Outcome, Refuted, Values
from edgetpu_driver.cli.confirm.step import Step
from edgetpu_driver.cli.confirm.trial_stick import TrialStick
from edgetpu_driver.errors import (
    DeviceAccessError,
    DeviceBusyError,
    DeviceError,
    DeviceNotFoundError,
    EdgeTpuError,
    FirmwareError,
)
from edgetpu_driver.usb.discovery import UsbStick


@dataclass(frozen=True)
class Course:
    """The outcomes so far."""

    outcomes: tuple[Outcome, ...]
    resume_from: str = ""
    """The step to continue with, after a replug if the steps were not interrupted; empty if there is none."""
    interrupted: bool = False
    """Whether the user interrupted the steps."""


def run_steps(stick: TrialStick, steps: Sequence[Step], advance: Callable[[], None]) -> Course:
    """Open the stick, run the steps, and close it.

    advance: called after each step. Raises errors that prevent opening any stick: DeviceNotFoundError,
    DeviceAccessError, DeviceBusyError, and FirmwareError for a missing firmware file. KeyboardInterrupt
    passes before the first outcome; later it ends the course, which keeps the outcomes so far.
    """
    outcomes: list[Outcome] = []
    try:
        resume_from = _run(stick, steps, advance, outcomes)
    except KeyboardInterrupt:
        if not outcomes:
            raise
        left = steps[len(outcomes) :]
        return Course(tuple(outcomes), resume_from=left[0].name if left else "", interrupted=True)
    return Course(tuple(outcomes), resume_from)


def _run(
    stick: TrialStick, steps: Sequence[Step], advance: Callable[[], None], outcomes: list[Outcome]
) -> str:
    """Add the outcome of each step; return the step to continue with after a replug."""
    try:
        blamed = _open(stick)
        if blamed is not None:
            outcomes.append(blamed)
            return blamed.step
        for number, step in enumerate(steps):
            outcome = _outcome(stick, step, outcomes)
            outcomes.append(outcome)
            advance()
            if outcome.outcome == "refuted" and not _recovers(stick):
                return steps[number + 1].name if number + 1 < len(steps) else step.name
    finally:
        stick.close()
    return ""


def _open(stick: TrialStick) -> Outcome | None:
    """Open the stick; if that fails, return the outcome of the step that covers the failure."""
    stick.check_firmware()
    before = stick.on_the_bus()
    try:
        stick.open()
    except (DeviceNotFoundError, DeviceAccessError, DeviceBusyError):
        raise
    except DeviceError as error:
        name, detail = _blamed(before, stick.on_the_bus(), error)
        subject = next(step.subject for step in STEPS if step.name == name)
        return Outcome(name, subject, "refuted", detail)
    return None


def _blamed(before: Sequence[UsbStick], after: Sequence[UsbStick], error: DeviceError) -> tuple[str, str]:
    """The step that covers a failed opening, and the message."""
    if not any(each.boot_mode for each in before):
        return BRING_UP, str(error)
    paths = {each.bus_path for each in before}
    moved = [each.bus_path for each in after if each.bus_path not in paths and not each.boot_mode]
    if moved:
        return PORT, f"it was at {', '.join(sorted(paths))} and came back at {', '.join(moved)}"
    still = isinstance(error, FirmwareError) or any(each.boot_mode for each in after)
    return FIRMWARE if still else BRING_UP, str(error)


def _recovers(stick: TrialStick) -> bool:
    """Whether the stick can be reset and brought up again."""
    try:
        stick.reopen()
    except DeviceError:
        return False
    return True


def _outcome(stick: TrialStick, step: Step, before: Sequence[Outcome]) -> Outcome:
    lacking = next((each for each in before if each.step == step.needs and each.outcome == "refuted"), None)
    if lacking is not None:
        return Outcome(step.name, step.subject, "skipped", f"it cannot be judged without {lacking.step}")
    start = stick.clock.monotonic()

    def outcome(kind: str, detail: str, values: Values | None = None) -> Outcome:
        seconds = stick.clock.monotonic() - start
        return Outcome(step.name, step.subject, kind, detail, values or {}, seconds)  # type: ignore[arg-type]

    try:
        values = step.check(stick)
        repeated = stick.repeated
    except NotApplicable as reason:
        return outcome("skipped", str(reason))
    except Refuted as refutation:
        return outcome("refuted", str(refutation), refutation.values)
    except EdgeTpuError as error:
        return outcome("refuted", " ".join(str(error).split()))
    if repeated:
        times = "once" if repeated == 1 else f"{repeated} times"
        details = f"the result was right, but transfers failed and were repeated {times}"
        return outcome("refuted", details, values)
    return outcome("confirmed", "", values)
