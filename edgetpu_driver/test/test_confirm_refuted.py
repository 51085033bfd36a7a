"""`edgetpu confirm`: every step has a stick that refutes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.usb.registers import Register
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from edgetpu_driver.virtual.matrix_programs.product import MatrixProduct
from edgetpu_driver.virtual.processor.simulated_parameter_memory import ParameterMemory
from edgetpu_driver.virtual.processor.tile_memory import TileMemory
from testdata.devices.confirmed_sticks import (
    NAMES,
    AlwaysWarns,
    ComesBackElsewhere,
    FaultyWhileWaiting,
    Lying,
    NeverQuiet,
    SendsLeftovers,
    Slow,
    StopsWhenItsClockChanges,
    TakesNoPayloadWithTheHeader,
    failing,
    outcome,
    run,
)

Stick = Callable[[], VirtualEdgeTpu]


@pytest.mark.parametrize(
    ("name", "stick", "told"),
    [
        ("firmware", partial(failing, Fault.STALL, Transfer.CONTROL, 5, boot_mode=True), "Pipe error"),
        ("port", partial(ComesBackElsewhere, boot_mode=True), "it was at 2-1 and came back at 2-4"),
        ("bring_up", partial(failing, Fault.STALL, Transfer.CONTROL, 5), "Pipe error"),
        ("registers", partial(Lying, Register.Error_Tile, 4), "error registers are set: Error_Tile = 0x4"),
        ("headers_together", TakesNoPayloadWithTheHeader, "Pipe error"),
        (
            "chunk_length",
            partial(Lying, Register.outfeed_chunk_length, 0x80, speed="high"),
            "outfeed_chunk_length reads 0x80; 0x20 was written",
        ),
        ("leftovers", SendsLeftovers, "after 50 runs output was left over"),
        ("times", Slow, "inference took 10.3 ms; reported are 0.28 ms"),
        ("temperature", partial(VirtualEdgeTpu, celsius=120.0), "120.0 degrees"),
        ("clock", StopsWhenItsClockChanges, "timed out"),
        ("interrupts", AlwaysWarns, "came again after it was acknowledged"),
        ("draining", NeverQuiet, "the end of the program did not follow its outputs"),
        ("credits", partial(Lying, Register.ep_status_credit, 5), "no credit for them"),
        ("credits", partial(Lying, Register.ep_status_credit, 5 << 21), "no credit for instructions"),
        ("given_up_program", FaultyWhileWaiting, "reports a fault"),
        (
            "scalar_core",
            partial(Lying, Register.scalarRegisterFile + 16, 41),
            "other values than the program",
        ),
        ("scalar_core", partial(Lying, Register.predicateRegisterFile, 8), "p3 alone should be set"),
        (
            "single_step",
            partial(Lying, Register.scalarRegisterFile + 8, 1),
            "a step should load one register",
        ),
        (
            "single_step",
            partial(Lying, Register.scalarCoreRunStatus, 1),
            "expected the core to become HALTED",
        ),
    ],
)
def test_a_stick_that_behaves_otherwise_is_refuted(name: str, stick: Stick, told: str) -> None:
    course = run(stick(), name)
    assert [(each.step, each.outcome) for each in course.outcomes] == [(name, "refuted")]
    assert told in course.outcomes[0].detail


Outputs = NDArray[Any]


def wrong(monkeypatch: pytest.MonkeyPatch, change: Callable[[MatrixProduct, Outputs], Outputs]) -> None:
    """Let the chip compute something else; change: what becomes of the outputs uint8[n]."""
    right = MatrixProduct.multiply

    def multiply(self: MatrixProduct, values: bytes, memory: TileMemory) -> bytes:
        outputs = right(self, values, memory)
        assert outputs is not None
        return change(self, np.frombuffer(outputs, np.uint8)).astype(np.uint8).tobytes()

    monkeypatch.setattr(MatrixProduct, "multiply", multiply)


def off(outputs: Outputs) -> Outputs:
    """Two steps away."""
    return np.where(outputs > 127, outputs - 2, outputs + 2)


@pytest.mark.parametrize(
    ("name", "when"),
    [
        ("google_program", lambda product: product.size == 256),
        ("patched_fields", lambda product: product.requantisation.minimum == 0),
        ("patched_fields", lambda product: product.requantisation.input_zero_point == 90),
        ("retargeted", lambda product: product.size == 256),
        ("sizes", lambda product: product.size == 1024),
        ("sizes", lambda product: product.size == 512),
        ("size_768", lambda product: product.size == 768),
        ("signed_output", lambda product: product.size == 256),
        ("padding", lambda product: product.size == 256),
    ],
)
def test_wrong_products_are_refuted(
    monkeypatch: pytest.MonkeyPatch, name: str, when: Callable[[Any], bool]
) -> None:
    wrong(monkeypatch, lambda product, outputs: off(outputs) if when(product) else outputs)
    found = outcome(VirtualEdgeTpu(), name)
    assert found.outcome == "refuted"
    assert "outputs differ from the expected ones by more than one step, by up to 2" in found.detail


def test_one_step_is_rounding_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, lambda _, outputs: np.clip(outputs, 1, 254))
    found = outcome(VirtualEdgeTpu(), "sizes")
    assert found.outcome == "confirmed"
    assert all(each["off_by_one"] > 0 for each in found.values["matrices"])


@pytest.mark.parametrize(("name", "every"), [("arithmetic", 40), ("repeats", 7)])
def test_a_run_that_is_wrong_now_and_then_is_refuted(
    monkeypatch: pytest.MonkeyPatch, name: str, every: int
) -> None:
    count = 0

    def change(_: MatrixProduct, outputs: Outputs) -> Outputs:
        nonlocal count
        count += 1
        return outputs if count % every else off(outputs)

    wrong(monkeypatch, change)
    assert outcome(VirtualEdgeTpu(), name).outcome == "refuted"


@pytest.mark.parametrize("name", ["replaced_weights", "row_multipliers"])
def test_a_stick_that_keeps_its_first_parameters_is_refuted(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    right = TileMemory.fill

    def fill(self: TileMemory, tile: int, content: Any) -> None:
        if not self._contents.get(tile):
            right(self, tile, content)

    monkeypatch.setattr(TileMemory, "fill", fill)
    assert outcome(VirtualEdgeTpu(), name).outcome == "refuted"


@pytest.mark.parametrize("name", ["network_layer"])
def test_a_network_that_keeps_its_first_weights_is_refuted(
    monkeypatch: pytest.MonkeyPatch, compiled_together: list[Path], name: str
) -> None:
    right, kept = ParameterMemory.keep, set()

    def keep(self: ParameterMemory, program: Any, parameters: bytearray) -> None:
        if program.type.name == "PARAMETER_CACHING" and id(program) in kept:
            return
        kept.add(id(program))
        right(self, program, parameters)

    monkeypatch.setattr(ParameterMemory, "keep", keep)
    found = outcome(VirtualEdgeTpu(), name, compiled_together)
    assert found.outcome == "refuted"
    assert found.detail == "with_a_layer gives the same outputs with other weights of 'embedding/weights'"


@pytest.mark.parametrize("name", ["resident_together", "copies"])
def test_models_that_displace_each_other_are_refuted(
    monkeypatch: pytest.MonkeyPatch, compiled_together: list[Path], name: str
) -> None:
    right = ParameterMemory.keep

    def keep(self: ParameterMemory, program: Any, parameters: bytearray) -> None:
        if program.type.name == "PARAMETER_CACHING":
            self._uploaded.clear()
        right(self, program, parameters)

    monkeypatch.setattr(ParameterMemory, "keep", keep)
    found = outcome(VirtualEdgeTpu(), name, compiled_together)
    assert found.outcome == "refuted"
    assert found.detail.endswith("gives different outputs after the other model has run")


def test_every_step_has_a_stick_that_refutes_it() -> None:
    tests = (
        test_a_stick_that_behaves_otherwise_is_refuted,
        test_wrong_products_are_refuted,
        test_a_run_that_is_wrong_now_and_then_is_refuted,
        test_a_stick_that_keeps_its_first_parameters_is_refuted,
        test_a_network_that_keeps_its_first_weights_is_refuted,
        test_models_that_displace_each_other_are_refuted,
    )
    cases = [case for test in tests for mark in test.pytestmark for case in mark.args[1]]  # type: ignore[attr-defined]
    assert {case if isinstance(case, str) else case[0] for case in cases} == set(NAMES)


def test_a_transfer_that_had_to_be_repeated_is_reported() -> None:
    stick = VirtualEdgeTpu()
    stick.fail(Fault.TIMEOUT, Transfer.OUTPUT, after=3)
    found = outcome(stick, "google_program")
    assert (found.outcome, found.detail) == (
        "refuted",
        "the result was right, but transfers failed and were repeated once",
    )


def test_nothing_is_asked_of_a_stick_that_runs_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, lambda _, outputs: off(outputs))
    course = run(VirtualEdgeTpu(), "google_program", "arithmetic")
    assert [each.outcome for each in course.outcomes] == ["refuted", "skipped"]
    assert course.outcomes[1].detail == "it cannot be judged without google_program"


def test_a_failed_step_does_not_concern_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, lambda product, outputs: off(outputs) if product.size == 768 else outputs)
    course = run(VirtualEdgeTpu(), "size_768", "padding")
    assert [each.outcome for each in course.outcomes] == ["refuted", "confirmed"]
