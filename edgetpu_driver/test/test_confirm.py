"""`edgetpu confirm`: every step passes on the virtual stick, and fails on one that does something else."""

from __future__ import annotations

import errno
import hashlib
import json
import re
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from usb.core import USBError, USBTimeoutError

from edgetpu_driver.backends.virtual import pack_for_virtual_stick
from edgetpu_driver.cli.confirm import command
from edgetpu_driver.cli.confirm.outcome import Outcome
from edgetpu_driver.cli.confirm.run import Course, run_steps
from edgetpu_driver.cli.confirm.separate_headers import SeparateHeaders
from edgetpu_driver.cli.confirm.step import Step
from edgetpu_driver.cli.confirm.steps import STEPS
from edgetpu_driver.cli.confirm.trial_matrix import GOOGLE_PROGRAMS, google_matrix
from edgetpu_driver.cli.confirm.trial_stick import TrialStick
from edgetpu_driver.cli.main import main
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.errors import FirmwareError, InputError
from edgetpu_driver.toolchain import dense_graph
from edgetpu_driver.usb.fault_diagnosis import QUIET_MS
from edgetpu_driver.usb.firmware import FirmwareImage
from edgetpu_driver.usb.framing import HEADER, Frame, Tag
from edgetpu_driver.usb.registers import GCB_CLOCK_DIVIDER, Register
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from edgetpu_driver.virtual.matrix_programs.product import MatrixProduct
from edgetpu_driver.virtual.processor import Processor
from edgetpu_driver.virtual.tile_memory import TileMemory
from testdata.color_embedding_graph import color_embedding_graph
from testdata.model_folder import ModelFolder

PAGE = Path(__file__).parents[2] / "docs" / "unconfirmed_on_silicon.md"
IMAGE = FirmwareImage(b"firmware", hashlib.sha256(b"firmware").hexdigest())
NAMES = [step.name for step in STEPS]
_VENDOR_OUT, _VENDOR_IN = 0x40, 0xC0
_EVENTS = 0x82

Stick = Callable[[], VirtualEdgeTpu]


def step(name: str) -> Step:
    return STEPS[NAMES.index(name)]


def run(stick: VirtualEdgeTpu, *names: str, models: list[Path] | None = None) -> Course:
    """Run steps on a stick, all without names."""
    trial = TrialStick(stick, firmware=IMAGE, models=models or [], simulated=True)
    return run_steps(trial, [step(name) for name in names or NAMES], lambda: None)


def outcome(stick: VirtualEdgeTpu, name: str, models: list[Path] | None = None) -> Outcome:
    (found,) = run(stick, name, models=models).outcomes
    return found


# What every stick does that is as expected.


def test_the_page_and_the_steps_are_one_table() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    assert rows[0][-1] == "step"
    assert [(row[0], row[-1].strip("`")) for row in rows[2:]] == [(each.subject, each.name) for each in STEPS]


@pytest.fixture(scope="module")
def compiled_together(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Models that are resident together: two matrices, a copy of one, and a network."""
    directory = tmp_path_factory.mktemp("models")
    graph = dense_graph.build(64)
    graphs = {"one": graph, "one_copy2": graph, "other": dense_graph.build(128)}
    graphs["with_a_layer"] = color_embedding_graph()
    for name, file in pack_for_virtual_stick(graphs, together=True).items():
        (directory / f"{name}.tflite").write_bytes(graphs[name])
        (directory / f"{name}_edgetpu.tflite").write_bytes(file)
    return sorted(directory.glob("*_edgetpu.tflite"))


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


# Sticks that do something else.


class Lying(VirtualEdgeTpu):
    """A register reads as a value of its own."""

    def __init__(self, register: int, value: int, **options: Any) -> None:
        super().__init__(**options)
        self.register, self.value = register, value

    def lies(self) -> bool:
        return True

    def ctrl_transfer(
        self,
        dev_handle: Any,
        bmRequestType: int,  # noqa: N803 - of pyusb
        bRequest: int,  # noqa: N803
        wValue: int,  # noqa: N803
        wIndex: int,  # noqa: N803
        data: Any,
        timeout: int,
    ) -> int:
        count = super().ctrl_transfer(dev_handle, bmRequestType, bRequest, wValue, wIndex, data, timeout)
        if bmRequestType == _VENDOR_IN and wIndex << 16 | wValue == self.register and self.lies():
            data[:count] = array("B", self.value.to_bytes(count, "little"))
        return count


class FaultyWhileWaiting(Lying):
    """It reports an error as long as a program waits for its inputs."""

    def __init__(self) -> None:
        super().__init__(Register.hib_error_status, 2)

    def lies(self) -> bool:
        return not self._chip.begins_program


class StopsWhenItsClockChanges(Lying):
    """The chip hangs once the clock has another rate than that of bring-up."""

    def __init__(self) -> None:
        super().__init__(Register.omc0_dc, 0)

    def lies(self) -> bool:
        return False

    def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: Any, timeout: int) -> int:
        if GCB_CLOCK_DIVIDER.of(self._chip._registers[Register.scu_ctrl_3]) != 1:
            raise USBTimeoutError("timed out", errno=errno.ETIMEDOUT)
        return super().bulk_write(dev_handle, ep, intf, data, timeout)


class TakesNoPayloadWithTheHeader(VirtualEdgeTpu):
    """It wants the header of a frame in a transfer of its own."""

    def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: Any, timeout: int) -> int:
        begins = not self._chip._processor._stream
        if begins and len(data) > HEADER.size:
            raise USBError("Pipe error", errno=errno.EPIPE)
        return super().bulk_write(dev_handle, ep, intf, data, timeout)


class SendsLeftovers(VirtualEdgeTpu):
    """Whoever waits a little finds more output."""

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: Any, timeout: int) -> int:
        if timeout == QUIET_MS:
            return len(buff)
        return super().bulk_read(dev_handle, ep, intf, buff, timeout)


class NeverQuiet(VirtualEdgeTpu):
    """It loses the event that ends a program whose output was not read."""

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: Any, timeout: int) -> int:
        if timeout == QUIET_MS and ep == _EVENTS:
            raise USBTimeoutError("timed out", errno=errno.ETIMEDOUT)
        return super().bulk_read(dev_handle, ep, intf, buff, timeout)


class Slow(VirtualEdgeTpu):
    """Every transfer to it takes 5 ms."""

    def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: Any, timeout: int) -> int:
        self.clock.sleep(5e-3)
        return super().bulk_write(dev_handle, ep, intf, data, timeout)


class AlwaysWarns(VirtualEdgeTpu):
    """Its thermal warning cannot be acknowledged."""

    def intr_read(self, dev_handle: Any, ep: int, intf: int, buff: Any, timeout: int) -> int:
        self.warn_of_heat()
        return super().intr_read(dev_handle, ep, intf, buff, timeout)


class ComesBackElsewhere(VirtualEdgeTpu):
    """With its firmware it is at another port."""

    def get_device_descriptor(self, dev: Any) -> Any:
        descriptor = super().get_device_descriptor(dev)
        if not self._chip.boot_mode:
            descriptor.port_numbers = (4,)
        return descriptor


def failing(fault: Fault, on: Transfer, after: int = 0, *, boot_mode: bool = False) -> VirtualEdgeTpu:
    stick = VirtualEdgeTpu(boot_mode=boot_mode)
    stick.fail(fault, on, after, times=1000)
    return stick


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


Outputs = np.ndarray[Any, Any]


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
    right, kept = Processor._keep_parameters, set()

    def keep(self: Processor, program: Any) -> None:
        if program.type.name == "PARAMETER_CACHING" and id(program) in kept:
            return
        kept.add(id(program))
        right(self, program)

    monkeypatch.setattr(Processor, "_keep_parameters", keep)
    found = outcome(VirtualEdgeTpu(), name, compiled_together)
    assert found.outcome == "refuted"
    assert found.detail == "with_a_layer gives the same outputs with other weights of 'embedding/weights'"


@pytest.mark.parametrize("name", ["resident_together", "copies"])
def test_models_that_displace_each_other_are_refuted(
    monkeypatch: pytest.MonkeyPatch, compiled_together: list[Path], name: str
) -> None:
    right = Processor._keep_parameters

    def keep(self: Processor, program: Any) -> None:
        if program.type.name == "PARAMETER_CACHING":
            self._parameters.clear()
        right(self, program)

    monkeypatch.setattr(Processor, "_keep_parameters", keep)
    found = outcome(VirtualEdgeTpu(), name, compiled_together)
    assert found.outcome == "refuted"
    assert found.detail.endswith("gives other outputs once the other model has run")


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


def test_a_transfer_that_had_to_be_repeated_is_told() -> None:
    stick = VirtualEdgeTpu()
    stick.fail(Fault.TIMEOUT, Transfer.OUTPUT, after=3)
    found = outcome(stick, "google_program")
    assert (found.outcome, found.detail) == (
        "refuted",
        "the result was right, but transfers failed and were repeated once",
    )


# The course.


def test_nothing_is_asked_of_a_stick_that_runs_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, lambda _, outputs: off(outputs))
    course = run(VirtualEdgeTpu(), "google_program", "arithmetic")
    assert [each.outcome for each in course.outcomes] == ["refuted", "skipped"]
    assert course.outcomes[1].detail == "it says nothing without google_program"


def test_a_failed_step_does_not_concern_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, lambda product, outputs: off(outputs) if product.size == 768 else outputs)
    course = run(VirtualEdgeTpu(), "size_768", "padding")
    assert [each.outcome for each in course.outcomes] == ["refuted", "confirmed"]


class DoesNotComeBack(SendsLeftovers):
    """After the first step that fails it does not come up again."""

    resets = 0

    def reset_device(self, dev_handle: Any) -> None:
        self.resets += 1
        if self.resets > 1:
            self.unplug()
        super().reset_device(dev_handle)


def test_the_first_thing_that_needs_a_replug_stops_the_course() -> None:
    course = run(DoesNotComeBack(), "repeats", "leftovers", "times", "temperature")
    assert [(each.step, each.outcome) for each in course.outcomes] == [
        ("repeats", "confirmed"),
        ("leftovers", "refuted"),
    ]
    assert course.resume_from == "times"


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


# The command.


def answer(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["confirm", "--backend", "virtual", "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_the_report_is_written_twice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, report = answer(capsys, "--only", "google_program", "--report", str(tmp_path / "mine"))
    assert code == 0
    written = json.loads((tmp_path / "mine.json").read_text())
    assert written == {name: value for name, value in report.items() if name != "files"}
    assert written["stick"] == {"bus_path": "2-1", "Mbit/s": 5000.0, "firmware": "1.00", "clock": "high"}
    assert written["outcomes"][0]["values"] == {
        "outputs": 2048, "off_by_one": 0, "largest_difference": 0,
    }  # fmt: skip
    assert re.search(r"^confirmed +google_program +a program", (tmp_path / "mine.txt").read_text(), re.M)


def test_a_report_is_continued(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "mine")
    answer(capsys, "--only", "temperature", "--report", path)
    _, report = answer(capsys, "--only", "registers", "--report", path)
    assert [each["step"] for each in report["outcomes"]] == ["registers", "temperature"]
    assert report["not_run"] == [name for name in NAMES if name not in ("registers", "temperature")]


def test_another_file_is_not_continued(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"a": 1}')
    code, report = answer(capsys, "--only", "registers", "--report", str(tmp_path / "mine"))
    assert code == 1
    assert "is not a report of this command" in report["error"]["message"]


def test_a_refuted_step_and_a_replug_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "usb_bus", lambda _: DoesNotComeBack())
    assert main(["confirm", "--from", "leftovers", "--report", str(tmp_path / "mine")]) == 1
    text = capsys.readouterr().out
    assert "Unplug it, plug it in, then: edgetpu confirm --from times" in text
    assert "0 confirmed, 1 refuted, 0 skipped. Please send in" in text


def test_without_a_stick_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stick = VirtualEdgeTpu()
    stick.unplug()
    monkeypatch.setattr(command, "usb_bus", lambda _: stick)
    assert main(["confirm", "--report", str(tmp_path / "mine")]) == 3
    assert "no Edge TPU is on the bus" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_steps_go_on_from_one() -> None:
    assert [each.name for each in command.chosen_steps("draining", "")] == NAMES[NAMES.index("draining") :]
    with pytest.raises(InputError, match="expected a step, one of firmware, port"):
        command.chosen_steps("drain", "")


def test_the_steps_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["confirm", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(STEPS) + 1
