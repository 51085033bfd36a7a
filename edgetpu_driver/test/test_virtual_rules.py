"""Rules that a virtual stick enforces like the silicon: order, sizes, credits and events."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from edgetpu_driver import CompiledModel, CpuEngine, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.darwinn.executable import Description, Direction, DmaHint, ExecutableType
from edgetpu_driver.errors import TransferTimeoutError
from edgetpu_driver.stick.inference import PreparedInference
from edgetpu_driver.usb.chip_bringup import bring_up
from edgetpu_driver.usb.chip_clock import ClockPreset
from edgetpu_driver.usb.discovery import find_sticks
from edgetpu_driver.usb.framing import MAX_BULK_WRITE, Event, Frame, Tag
from edgetpu_driver.usb.link import ENDPOINT_OUT, TIMEOUT_MS, Reception, UsbLink
from edgetpu_driver.usb.registers import Register
from edgetpu_driver.virtual.graph_packer import pack
from testdata.graphs.dense_graphs import compiled, matrix_graph

X = np.arange(16, dtype=np.uint8).reshape(1, 16)
CREDIT_MASK = 0x1FFFFF


@pytest.fixture
def model(make_dense: Callable[[int], bytes]) -> CompiledModel:
    return CompiledModel.parse(pack(make_dense(1), name="dense"))


@pytest.fixture
def stick(model: CompiledModel, make_dense: Callable[[int], bytes]) -> VirtualEdgeTpu:
    return VirtualEdgeTpu().register_model(model, make_dense(1))


@pytest.fixture
def link(stick: VirtualEdgeTpu) -> Iterator[UsbLink]:
    with closing(UsbLink(stick, find_sticks(stick)[0])) as link:
        bring_up(link, ClockPreset.HIGH)
        yield link


@pytest.fixture
def instructions(model: CompiledModel) -> Frame:
    return Frame(Tag.INSTRUCTIONS, model.execution.bitstreams[0].data)


INPUT = Frame(Tag.INPUT_ACTIVATIONS, X.tobytes())


def credit(link: UsbLink) -> list[int]:
    link.write_register(Register.omc0_00, 0xFFFFFFFF)
    value = link.read_register(Register.ep_status_credit)
    return [value >> shift & CREDIT_MASK for shift in (0, 21, 42)]


def test_the_first_byte_of_a_frame_before_the_output_was_read_makes_it_hang(
    stick: VirtualEdgeTpu, link: UsbLink, instructions: Frame
) -> None:
    link.send(instructions)
    link.send(INPUT)
    stick.bulk_write(link._handle, ENDPOINT_OUT, 0, array("B", b"\0"), TIMEOUT_MS)
    assert stick.hang_reason == "a frame came before the last output was read"


def test_a_header_with_another_length_than_hinted_makes_it_hang_at_once(
    stick: VirtualEdgeTpu, link: UsbLink, instructions: Frame
) -> None:
    link.send(instructions)
    header = array("B", b"\x11\0\0\0\x01\0\0\0")
    stick.bulk_write(link._handle, ENDPOINT_OUT, 0, header, TIMEOUT_MS)
    assert "a frame with tag 1 of 17 bytes came" in stick.hang_reason


def test_instructions_in_the_middle_of_another_request_make_it_hang(
    stick: VirtualEdgeTpu, link: UsbLink, instructions: Frame
) -> None:
    link.send(instructions)
    link.send(instructions)
    with pytest.raises(TransferTimeoutError):
        link.read_event()
    assert "a frame with tag 0" in stick.hang_reason


def test_a_transfer_of_more_than_a_mebibyte_makes_it_hang(stick: VirtualEdgeTpu, link: UsbLink) -> None:
    too_much = array("B", bytes(MAX_BULK_WRITE + 1))
    stick.bulk_write(link._handle, ENDPOINT_OUT, 0, too_much, TIMEOUT_MS)
    assert stick.hang_reason.endswith("at most 1048576 are taken")


def test_credits_show_the_accepted_transfers(link: UsbLink, instructions: Frame) -> None:
    assert credit(link) == [CREDIT_MASK, 0, 0]
    link.send(instructions)
    assert credit(link) == [0, 2, 0]
    link.send(INPUT)
    assert credit(link) == [0, 0, 0]
    link.receive(Reception(8))
    assert credit(link) == [CREDIT_MASK, 0, 0]


def test_credits_are_not_shown_before_all_ones_were_written_to_omc0_00(link: UsbLink) -> None:
    assert link.read_register(Register.ep_status_credit) == 0
    assert credit(link) == [CREDIT_MASK, 0, 0]
    assert link.read_register(Register.ep_status_credit) == 0


def test_longer_chunks_than_the_erratum_allows_make_it_hang_at_high_speed() -> None:
    stick = VirtualEdgeTpu(speed="high")
    model = compiled(matrix_graph(512, 512))
    inference = PreparedInference(model)
    with closing(UsbLink(stick, find_sticks(stick)[0])) as link:
        bring_up(link, ClockPreset.HIGH)
        inference.run(link, {"x": np.zeros((1, 512), np.uint8)})
        link.write_register(Register.outfeed_chunk_length, 0x21)
        with pytest.raises(TransferTimeoutError):
            inference.run(link, {"x": np.zeros((1, 512), np.uint8)})
    assert stick.hang_reason == "the output comes in chunks of 264 bytes; at high speed at most 256 arrive"


def test_events_are_sent_of_the_transfers_that_the_host_asked_for(link: UsbLink, instructions: Frame) -> None:
    link.write_register(Register.descr_ep, 0xFF)
    link.send(instructions)
    link.send(INPUT)
    events = [link.read_event() for _ in range(4)]
    assert events == [
        Event(0, len(instructions) - 8, Tag.INSTRUCTIONS),
        Event(0, 16, Tag.INPUT_ACTIVATIONS),
        Event(0, 8, Tag.OUTPUT_ACTIVATIONS),
        Event(0, 0, Tag.INTERRUPT_0),
    ]


def test_disabled_interrupts_are_not_sent(stick: VirtualEdgeTpu, link: UsbLink) -> None:
    link.write_register(Register.top_level_int_3_control, 0)
    stick.warn_of_heat()
    assert link.poll_interrupt(1) is None
    assert link.read_register(Register.top_level_int_3_status) == 1


@pytest.mark.parametrize(("first_row", "uploads"), [(1, 2), (0, 6)], ids=["disjoint", "overlapping"])
def test_models_of_one_token_stay_in_memory_together_unless_they_overlap(
    make_dense: Callable[[int], bytes], model: CompiledModel, first_row: int, uploads: int
) -> None:
    graph, token = wider_graph(), model.parameter_caching_token
    other = CompiledModel.parse(pack(graph, name="wide", token=token, first_row=first_row))
    stick = VirtualEdgeTpu().register_model(model, make_dense(1)).register_model(other, graph)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        first, second = tpu.load(model), tpu.load(other)
        for _ in range(3):
            ours = first.run({"x": X})["y"]
            theirs = second.run({"x": np.zeros((1, 8), np.uint8)})["y"]
        assert tpu.info().uploads == uploads
        assert (first.resident, second.resident) == (uploads == 2, True)
    np.testing.assert_array_equal(ours, CpuEngine(make_dense(1)).run({"x": X})["y"])
    np.testing.assert_array_equal(theirs, CpuEngine(graph).run({"x": np.zeros((1, 8), np.uint8)})["y"])


def test_parameters_that_another_program_has_overwritten_are_lost(
    make_dense: Callable[[int], bytes], model: CompiledModel
) -> None:
    graph, token = wider_graph(), model.parameter_caching_token
    other = CompiledModel.parse(pack(graph, name="wide", token=token))
    stick = VirtualEdgeTpu().register_model(model, make_dense(1)).register_model(other, graph)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        tpu.run(model, {"x": X})
        tpu.run(other, {"x": np.zeros((1, 8), np.uint8)})
        outputs = tpu._session.link.attempt(PreparedInference(model).run, {"x": X})  # without an upload
    assert not np.array_equal(outputs["y"], CpuEngine(make_dense(1)).run({"x": X})["y"])


@pytest.mark.parametrize("kind", [ExecutableType.STAND_ALONE, ExecutableType.EXECUTION_ONLY])
def test_a_program_without_a_caching_one_leaves_no_parameters_in_memory(
    make_dense: Callable[[int], bytes], model: CompiledModel, kind: ExecutableType
) -> None:
    """It counts as stand-alone whatever its type, and whatever its token."""
    graph = wider_graph()
    alone = stand_alone(
        CompiledModel.parse(pack(graph, name="wide", token=model.parameter_caching_token)), kind
    )
    stick = VirtualEdgeTpu().register_model(model, make_dense(1)).register_model(alone, graph)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        expected = tpu.run(model, {"x": X})["y"]
        tpu.run(alone, {"x": np.zeros((1, 8), np.uint8)})
        without = tpu._session.link.attempt(PreparedInference(model).run, {"x": X})["y"]
        np.testing.assert_array_equal(tpu.run(model, {"x": X})["y"], expected)
        assert tpu.info().uploads == 2
    assert not np.array_equal(without, expected)


def stand_alone(model: CompiledModel, kind: ExecutableType) -> CompiledModel:
    """A packed model with its parameters sent in every run."""
    assert model.caching is not None
    parameters = model.caching.parameters
    instructions, source, *rest = model.execution.hints
    sent = DmaHint(Description.PARAMETER, Direction.INFEED, "", 0, len(parameters))
    hints = (instructions, source, sent, *rest)
    return replace(
        model, caching=None, execution=replace(model.execution, type=kind, parameters=parameters, hints=hints)
    )


def wider_graph() -> bytes:
    """8 uint8 "x" to 40 uint8 "y"."""
    from edgetpu_driver.tflite.graph_builder import GraphBuilder

    builder = GraphBuilder("wide")
    x = builder.input("x", (1, 8), np.uint8, scale=0.1, zero_point=128)
    inner = builder.quantize(x, np.int8, scale=0.1, zero_point=0)
    weights = np.random.default_rng(3).integers(-127, 128, (40, 8))
    result = builder.fully_connected(inner, weights, weight_scale=0.01, scale=0.5, zero_point=0)
    builder.output(builder.quantize(result, np.uint8, scale=0.5, zero_point=128, name="y"))
    return builder.build()
