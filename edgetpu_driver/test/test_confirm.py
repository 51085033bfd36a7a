"""`edgetpu confirm`: the course of its steps, and that all are confirmed on the virtual stick."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetpu_driver.cli.confirm.all_steps import STEPS
from edgetpu_driver.cli.confirm.run import run_steps
from edgetpu_driver.cli.confirm.separate_headers import SeparateHeaders
from edgetpu_driver.cli.confirm.trial_matrix import GOOGLE_PROGRAMS, google_matrix
from edgetpu_driver.cli.confirm.trial_stick import TrialStick
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.errors import FirmwareError
from edgetpu_driver.usb.framing import HEADER, Frame, Tag
from edgetpu_driver.virtual import VirtualEdgeTpu
from testdata.devices.confirmed_sticks import (
    NAMES,
    DoesNotComeBack,
    InterruptedInAStep,
    InterruptedInItsRecovery,
    InterruptedWhileClosing,
    PulledOutAndInterrupted,
    outcome,
    run,
)
from testdata.model_folder import ModelFolder

PAGE = Path(__file__).parents[2] / "docs" / "unconfirmed_on_silicon.md"


# What every stick does that is as expected.


def test_the_page_and_the_steps_are_one_table() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    assert rows[0][-1] == "step"
    assert [(row[0], row[-1].strip("`")) for row in rows[2:]] == [(each.subject, each.name) for each in STEPS]


def test_a_stick_that_was_just_plugged_in_is_confirmed(compiled_together: list[Path]) -> None:
    course = run(VirtualEdgeTpu(boot_mode=True), models=compiled_together)
    assert [(each.step, each.detail) for each in course.outcomes if each.outcome != "confirmed"] == [
        (
            "chunk_length",
            "the link has 5000 Mbit/s: plug the stick into a USB 2 port, then edgetpu confirm --only "
            "chunk_length",
        )
    ]
    assert [each.step for each in course.outcomes] == NAMES
    assert course.resume_from == ""


def test_a_stick_on_usb_2_answers_for_its_chunks() -> None:
    assert outcome(VirtualEdgeTpu(speed="high"), "chunk_length").outcome == "confirmed"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("firmware", "edgetpu confirm --only firmware"),
        ("port", "edgetpu confirm --only port"),
        ("resident_together", "--co-compile"),
        ("copies", "x_copy2"),
        ("network_layer", "with its graph next to it"),
    ],
)
def test_what_cannot_be_answered_is_skipped_and_says_what_could(name: str, told: str) -> None:
    found = outcome(VirtualEdgeTpu(), name)
    assert found.outcome == "skipped"
    assert told in found.detail


def test_the_first_program_is_googles() -> None:
    model = google_matrix().model
    assert model.caching is not None
    programs = (model.execution.bitstreams[0].data, model.caching.bitstreams[0].data)
    assert tuple(hashlib.sha256(each).hexdigest() for each in programs) == GOOGLE_PROGRAMS


def test_googles_file_has_the_same_programs(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    assert model.caching is not None
    programs = (model.execution.bitstreams[0].data, model.caching.bitstreams[0].data)
    assert tuple(hashlib.sha256(each).hexdigest() for each in programs) == GOOGLE_PROGRAMS


def test_the_first_thing_that_needs_a_replug_stops_the_course() -> None:
    course = run(DoesNotComeBack(), "repeats", "leftovers", "times", "temperature")
    assert [(each.step, each.outcome) for each in course.outcomes] == [
        ("repeats", "confirmed"),
        ("leftovers", "refuted"),
    ]
    assert course.resume_from == "times"


@pytest.mark.parametrize(
    ("stick", "steps", "outcomes", "left"),
    [
        (InterruptedInAStep, ["repeats", "leftovers", "times"], ["confirmed"], "leftovers"),
        (PulledOutAndInterrupted, ["repeats", "clock", "times"], ["confirmed"], "clock"),
        (InterruptedInItsRecovery, ["repeats", "leftovers", "times"], ["confirmed", "refuted"], "times"),
        (InterruptedWhileClosing, ["repeats", "temperature"], ["confirmed", "confirmed"], ""),
    ],
)
def test_an_interrupt_ends_the_course_and_keeps_its_outcomes(
    stick: Callable[[], VirtualEdgeTpu], steps: list[str], outcomes: list[str], left: str
) -> None:
    course = run(stick(), *steps)
    assert [each.outcome for each in course.outcomes] == outcomes
    assert [each.step for each in course.outcomes] == steps[: len(outcomes)]
    assert (course.resume_from, course.interrupted) == (left, True)


def test_an_interrupt_before_the_first_outcome_ends_the_command() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(InterruptedInAStep(), "leftovers", "times")


def test_a_stick_in_boot_mode_needs_a_firmware() -> None:
    trial = TrialStick(VirtualEdgeTpu(boot_mode=True))
    with pytest.raises(FirmwareError, match="is in boot mode and needs its firmware"):
        run_steps(trial, STEPS, lambda: None)


def test_headers_go_in_transfers_of_their_own() -> None:
    sizes: list[int] = []

    class Listening(VirtualEdgeTpu):
        def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: Any, timeout: int) -> int:
            sizes.append(len(data))
            return super().bulk_write(dev_handle, ep, intf, data, timeout)

    run(Listening(), "google_program")
    assert set(sizes[::2]) == {HEADER.size}
    assert sizes[3] == google_matrix().model.parameter_bytes


def test_a_frame_of_several_transfers_has_one_header() -> None:
    sizes: list[int] = []

    class Sink:
        def bulk_write(self, _handle: Any, _ep: int, _intf: int, data: Any, _timeout: int) -> int:
            sizes.append(len(data))
            return len(data)

    split = SeparateHeaders(Sink())
    for piece in Frame(Tag.PARAMETERS, bytes(1 << 20)).pieces():
        assert split.bulk_write(None, 1, 0, piece, 0) == len(piece)
    assert sizes == [HEADER.size, (1 << 20) - HEADER.size, HEADER.size]
