"""Steps on the link and the chip: start, headers, chunks, clock, temperature, faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from edgetpu_driver.cli.confirm.outcome import NotApplicable, Refuted, Values
from edgetpu_driver.cli.confirm.trial_matrix import TrialMatrix, google_matrix
from edgetpu_driver.cli.confirm.trial_stick import TrialStick
from edgetpu_driver.usb.chip_bringup import SUPER_SPEED
from edgetpu_driver.usb.chip_clock import ClockPreset
from edgetpu_driver.usb.chip_faults import (
    ERROR_REGISTERS,
    QUIET_MS,
    Interrupt,
    chip_fault,
    drain,
    take_interrupts,
)
from edgetpu_driver.usb.framing import Frame, Tag
from edgetpu_driver.usb.link import POLL_SECONDS, UsbLink
from edgetpu_driver.usb.registers import CREDIT_BITS, Register

_RUNS, _RUNS_OF_A_CLOCK = 50, 10
"""Consecutive products in a step and at each clock rate. More find rarer leftovers and take longer."""
_COLDEST, _HOTTEST = 5.0, 95.0
"""Plausible die temperatures, degrees Celsius. Chosen: outside them, a register was misread."""
_DIAGNOSIS_SECONDS = 0.1
"""Maximum time to read one error register, s; far above a control transfer. More refutes the step."""
_EXPECTED_SECONDS = {"inference": 0.28e-3, "upload": 5.6e-3}
"""Reported times on USB 3: a product of 256 x 256, and the first of 1024 x 1024 with its upload."""
_FACTOR = 2.0
"""Accepted ratio, in either direction, to the reported time. A smaller one would refute slower hosts."""
_HIGH_SPEED_CHUNK = 0x20
"""The value that bring-up writes to outfeed_chunk_length on USB 2."""


def firmware(stick: TrialStick) -> Values:
    """Check that the opened stick needed its firmware and accepted it."""
    if not stick.opening.loaded_firmware:
        raise NotApplicable(
            "the stick already runs its firmware: unplug it, plug it in, then edgetpu confirm --only firmware"
        )
    return {"firmware": stick.opening.info.firmware, "seconds": stick.opening.seconds}


def port(stick: TrialStick) -> Values:
    """Check that the stick came back in the port where it was in boot mode."""
    if not stick.opening.loaded_firmware:
        raise NotApplicable(
            "the stick already runs its firmware: unplug it, plug it in, then edgetpu confirm --only port"
        )
    before = sorted(each.bus_path for each in stick.opening.before if each.boot_mode)
    after = stick.opening.info.bus_path
    if after not in before:
        raise Refuted(f"it was at {', '.join(before)} and came back at {after}")
    return {"bus_path": after}


def bring_up(stick: TrialStick) -> Values:
    """Measure how long it takes to reset the stick and bring up its chip."""
    start = stick.clock.monotonic()
    stick.reopen()
    return {"seconds": stick.clock.monotonic() - start, "limit_of_a_register": POLL_SECONDS}


def registers(stick: TrialStick) -> Values:
    """Check that the error registers are zero right after bring-up."""
    values = stick.tpu.registers()
    wrong = {each.name: f"{values[each]:#x}" for each in ERROR_REGISTERS if values[each]}
    if wrong:
        details = ", ".join(f"{name} = {value}" for name, value in wrong.items())
        raise Refuted(f"error registers are set: {details}", {"registers": wrong})
    return {each.name: f"{value:#x}" for each, value in values.items()}


def headers_together(stick: TrialStick) -> Values:
    """Send header and payload of every frame in one transfer."""
    with stick.headers_together():
        return stick.check(google_matrix())


def chunk_length(stick: TrialStick) -> Values:
    """Receive outputs of several chunks on a USB 2 link."""
    speed = stick.opening.info.link_speed
    if speed >= SUPER_SPEED:
        raise NotApplicable(
            f"the link has {speed:g} Mbit/s: plug the stick into a USB 2 port, then "
            "edgetpu confirm --only chunk_length"
        )
    length = stick.tpu.with_link(lambda link: link.read_register(Register.outfeed_chunk_length))
    if length != _HIGH_SPEED_CHUNK:
        raise Refuted(f"outfeed_chunk_length reads {length:#x}; {_HIGH_SPEED_CHUNK:#x} was written")
    return stick.check(TrialMatrix(1024, 1024))


def leftovers(stick: TrialStick) -> Values:
    """Check that nothing more arrives after the outputs and events of a program."""
    matrix = google_matrix()
    stick.multiply(matrix, np.repeat(matrix.inputs()[:1], _RUNS, axis=0))
    more = stick.tpu.with_link(lambda link: link.discard_activations(QUIET_MS))
    event = stick.tpu.with_link(lambda link: link.poll_event(QUIET_MS))
    if more or event is not None:
        raise Refuted(f"after {_RUNS} runs {'output' if more else f'the event {event}'} was left over")
    return {"runs": _RUNS}


def times(stick: TrialStick) -> Values:
    """Compare the times of an inference and of an upload with the reported ones."""
    matrix, large = google_matrix(), TrialMatrix(1024, 1024)
    with stick.headers_together():
        stick.multiply(matrix, matrix.inputs()[:1])
        inputs = np.repeat(matrix.inputs()[:1], _RUNS, axis=0)
        inference = _seconds(stick, partial(stick.multiply, matrix, inputs)) / _RUNS
        stick.load(large)
        upload = _seconds(stick, partial(stick.multiply, large, large.inputs()[:1]))
    values = {"inference": inference, "upload": upload, "link_speed": stick.opening.info.link_speed}
    if stick.opening.info.link_speed < SUPER_SPEED:
        return values
    for name, expected in _EXPECTED_SECONDS.items():
        if not expected / _FACTOR <= values[name] <= expected * _FACTOR:
            raise Refuted(
                f"{name} took {1e3 * values[name]:.3g} ms; reported are {1e3 * expected:.3g} ms", values
            )
    return values


def _seconds(stick: TrialStick, work: Callable[[], Any]) -> float:
    start = stick.clock.monotonic()
    work()
    return stick.clock.monotonic() - start


def temperature(stick: TrialStick) -> Values:
    """Check that the thermometer is off or shows a plausible temperature."""
    celsius = stick.tpu.info().temperature
    if math.isnan(celsius):
        return {"celsius": celsius, "thermometer": "off"}
    if not _COLDEST <= celsius <= _HOTTEST:
        raise Refuted(f"the thermometer shows {celsius:.1f} degrees Celsius", {"celsius": celsius})
    return {"celsius": celsius, "thermometer": "on"}


def clock(stick: TrialStick) -> Values:
    """Change the main clock while the chip runs, and compute at every rate."""
    matrix = google_matrix()
    inputs = np.repeat(matrix.inputs()[:1], _RUNS_OF_A_CLOCK, axis=0)
    values = {}
    for preset in ClockPreset:
        stick.tpu.set_clock(preset)
        stick.check_unharmed(f"the clock preset {preset.value}")
        seconds = _seconds(stick, partial(stick.multiply, matrix, inputs))
        values[preset.value] = seconds / _RUNS_OF_A_CLOCK
    stick.tpu.set_clock(stick.preset)  # a stick that failed is reopened, which sets it too
    return {"seconds_per_run": values}


def interrupts(stick: TrialStick) -> Values:
    """Read the interrupt endpoint of a healthy chip, acknowledge a warning, and continue."""
    found = stick.tpu.with_link(take_interrupts)
    stick.check_unharmed("reading the interrupt endpoint")
    again = stick.tpu.with_link(take_interrupts)
    if Interrupt.THERMAL_WARNING in found and Interrupt.THERMAL_WARNING in again:
        raise Refuted("a thermal warning came again after it was acknowledged")
    return {"pending": [each.name for each in Interrupt if each in found]}


def credits(stick: TrialStick) -> Values:
    """Check that endpoint credits show what an idle chip and a running program wait for."""
    idle, waiting = stick.tpu.with_link(_credits_before_and_after_a_program)
    stick.reopen()
    values = {"idle": _credits(idle), "waiting_for_inputs": _credits(waiting)}
    stick.check_unharmed("a program that was given up")
    if not values["idle"]["instructions"]:
        raise Refuted("an idle chip shows no credit for instructions", values)
    if not values["waiting_for_inputs"]["inputs"]:
        raise Refuted("a program that waits for its inputs shows no credit for them", values)
    return values


def _credits_before_and_after_a_program(link: UsbLink) -> tuple[int, int]:
    before = _read_credits(link)
    link.send(_instructions(google_matrix()))
    return before, _read_credits(link)


def _read_credits(link: UsbLink) -> int:
    link.write_register(Register.omc0_00, 0xFFFFFFFF)  # required first by the vendor's register description
    return link.read_register(Register.ep_status_credit)


def _instructions(matrix: TrialMatrix) -> Frame:
    return Frame(Tag.INSTRUCTIONS, matrix.model.execution.bitstreams[0].data)


def _credits(value: int) -> dict[str, int]:
    names = ("instructions", "inputs", "parameters")
    mask = (1 << CREDIT_BITS) - 1
    return {name: value >> index * CREDIT_BITS & mask for index, name in enumerate(names)}


def draining(stick: TrialStick) -> Values:
    """Leave the outputs of a program unread, drain the endpoints, and continue without a reset."""
    matrix = google_matrix()
    stick.check(matrix)

    def leave_unread(link: UsbLink) -> bool:
        link.send(_instructions(matrix))
        link.send(Frame(Tag.INPUT_ACTIVATIONS, matrix.inputs()[0].tobytes()))
        return drain(link)

    if not stick.tpu.with_link(leave_unread):
        raise Refuted("the end of the program did not follow its outputs")
    stick.check_unharmed("draining")
    return {}


def given_up_program(stick: TrialStick) -> Values:
    """Start a program, never send its inputs, read the error registers, reset the stick, and continue."""

    def give_up(link: UsbLink) -> tuple[float, str]:
        link.send(_instructions(google_matrix()))
        start = link.clock.monotonic()
        fault = chip_fault(link)
        return link.clock.monotonic() - start, str(fault or "")

    seconds, fault = stick.tpu.with_link(give_up)
    start = stick.clock.monotonic()
    stick.reopen()
    values = {"diagnosis": seconds, "reset": stick.clock.monotonic() - start}
    stick.check_unharmed("a reset")
    if fault:
        raise Refuted(f"a chip that waits for inputs reports a fault: {fault}", values)
    if seconds > len(ERROR_REGISTERS) * _DIAGNOSIS_SECONDS:
        raise Refuted(f"reading the error registers took {seconds:.2f} s", values)
    return values
