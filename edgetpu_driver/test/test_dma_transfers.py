"""From DMA hints to transfers: scratch, split inputs and outputs, and incomplete hints."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from edgetpu_driver.darwinn.executable import (
    DataType,
    Description,
    Direction,
    DmaHint,
    Executable,
    ExecutableType,
    FenceHint,
    Hint,
    InstructionBitstream,
    InstructionHint,
    InterruptHint,
    Layer,
)
from edgetpu_driver.errors import ModelUnsupportedError, ProtocolError
from edgetpu_driver.stick.dma_transfers import PreparedExecutable
from edgetpu_driver.usb.framing import Event, Frame, Tag
from edgetpu_driver.usb.link import Reception, UsbLink


class FakeLink:
    """Logs sent data; returns bytes counting up from 1; answers every event with one tag."""

    def __init__(self, tag: Tag = Tag.INTERRUPT_0) -> None:
        self.log: list[tuple[str, bytes]] = []
        self._next = 1
        self._tag = tag

    def send(self, frame: Frame) -> None:
        data = b"".join(piece.tobytes() for piece in frame.pieces())
        self.log.append((Tag(data[4]).name, data[8:]))

    def receive(self, reception: Reception) -> None:
        reception.data[:] = np.arange(self._next, self._next + reception.size, dtype=np.uint8)
        self._next += reception.size
        self.log.append(("receive", reception.data.tobytes()))

    def read_event(self) -> Event:
        self.log.append(("event", b""))
        return Event(0, 0, self._tag)


def dma(description: Description, name: str, offset: int, size: int, outfeed: bool = False) -> DmaHint:
    return DmaHint(description, Direction.OUTFEED if outfeed else Direction.INFEED, name, offset, size)


def layer(name: str, size: int) -> Layer:
    return Layer(name, size, (1, 1, size), DataType.FIXED_POINT8, 0, 1.0)


INSTRUCTIONS = bytes(range(16))
SEND_A = dma(Description.INPUT, "a", 0, 8)
RECEIVE_Y = dma(Description.OUTPUT, "y", 0, 8, outfeed=True)


def executable(*hints: Hint, scratch: int = 0, parameters: bytes = b"") -> Executable:
    return Executable(
        type=ExecutableType.STAND_ALONE,
        name="model",
        parameter_caching_token=0,
        bitstreams=(InstructionBitstream(INSTRUCTIONS),),
        parameters=parameters,
        hints=hints,
        fully_deterministic=True,
        inputs=(layer("a", 8),),
        outputs=(layer("y", 8),),
        scratch_size_bytes=scratch,
    )


def run(prepared: PreparedExecutable, link: FakeLink) -> list[tuple[str, bytes]]:
    prepared.run(cast(UsbLink, link))
    return link.log


def test_the_hints_are_followed_in_their_order_and_fences_need_no_transfer() -> None:
    prepared = PreparedExecutable(
        executable(InstructionHint(0), SEND_A, FenceHint(), RECEIVE_Y, InterruptHint(0))
    )
    prepared.inputs["a"][:] = 9
    assert run(prepared, FakeLink()) == [
        ("INSTRUCTIONS", INSTRUCTIONS),
        ("INPUT_ACTIVATIONS", b"\x09" * 8),
        ("receive", bytes(range(1, 9))),
        ("event", b""),
    ]
    assert prepared.outputs["y"].tobytes() == bytes(range(1, 9))


def test_scratch_is_received_by_the_host_and_sent_back() -> None:
    out = dma(Description.SCRATCH, "", 4, 8, outfeed=True)
    back = dma(Description.SCRATCH, "", 8, 4)
    prepared = PreparedExecutable(
        executable(InstructionHint(0), SEND_A, out, back, RECEIVE_Y, InterruptHint(0), scratch=16)
    )
    log = run(prepared, FakeLink())
    assert log[2:4] == [("receive", bytes(range(1, 9))), ("INPUT_ACTIVATIONS", bytes(range(5, 9)))]


def test_an_input_is_split_over_overlapping_transfers_and_padded_with_zeros_past_its_end() -> None:
    parts = dma(Description.INPUT, "a", 0, 6), dma(Description.INPUT, "a", 4, 6)
    prepared = PreparedExecutable(executable(InstructionHint(0), *parts, RECEIVE_Y, InterruptHint(0)))
    prepared.inputs["a"][:] = np.arange(8)
    log = run(prepared, FakeLink())
    assert [data for kind, data in log if kind == "INPUT_ACTIVATIONS"] == [
        bytes((0, 1, 2, 3, 4, 5)),
        bytes((4, 5, 6, 7, 0, 0)),
    ]


def test_an_output_in_several_transfers_is_assembled() -> None:
    parts = (dma(Description.OUTPUT, "y", offset, 4, outfeed=True) for offset in (4, 0))
    prepared = PreparedExecutable(executable(InstructionHint(0), SEND_A, *parts, InterruptHint(0)))
    run(prepared, FakeLink())
    assert prepared.outputs["y"].tolist() == [5, 6, 7, 8, 1, 2, 3, 4]


def test_the_time_to_prepare_transfers_is_not_that_of_all_pairs() -> None:
    parts = 30_000 * (replace(SEND_A, size=1),)  # all pairs take minutes
    started = time.thread_time()
    PreparedExecutable(executable(InstructionHint(0), *parts, SEND_A, RECEIVE_Y, InterruptHint(0)))
    assert time.thread_time() - started < 10.0


def test_streamed_parameters_are_sent_every_time() -> None:
    send = dma(Description.PARAMETER, "", 0, 3)
    prepared = PreparedExecutable(
        executable(InstructionHint(0), SEND_A, send, RECEIVE_Y, InterruptHint(0), parameters=b"abc")
    )
    for _ in range(2):
        assert ("PARAMETERS", b"abc") in run(prepared, FakeLink())


def test_an_unexpected_event_is_an_error() -> None:
    prepared = PreparedExecutable(executable(InstructionHint(0), SEND_A, RECEIVE_Y, InterruptHint(0)))
    with pytest.raises(ProtocolError, match="expected the event INTERRUPT_0; got INTERRUPT_2"):
        run(prepared, FakeLink(Tag.INTERRUPT_2))


@pytest.mark.parametrize(
    ("hints", "reason"),
    [
        ((SEND_A, RECEIVE_Y, InterruptHint(0)), "bitstream 0 is never sent"),
        ((InstructionHint(0), RECEIVE_Y, InterruptHint(0)), "only 0 of 8 bytes of input 'a' are moved"),
        (
            (InstructionHint(0), SEND_A, replace(RECEIVE_Y, offset=4, size=4), InterruptHint(0)),
            "only 0 of 8 bytes of output 'y' are moved",
        ),
        ((InstructionHint(0), SEND_A, RECEIVE_Y), "no interrupt signals its end"),
    ],
)
def test_incomplete_hints_are_refused_with_the_reason(hints: tuple[Hint, ...], reason: str) -> None:
    with pytest.raises(ModelUnsupportedError, match=f"hints of executable 'model' are incomplete: {reason}"):
        PreparedExecutable(executable(*hints))


SCRATCH_OUT = dma(Description.SCRATCH, "", 4, 8, outfeed=True)
SCRATCH_BACK = dma(Description.SCRATCH, "", 4, 8)


def test_scratch_that_did_not_come_yet_is_sent_as_zeros_in_every_run() -> None:
    hints = InstructionHint(0), SEND_A, SCRATCH_BACK, SCRATCH_OUT, RECEIVE_Y, InterruptHint(0)
    prepared = PreparedExecutable(executable(*hints, scratch=16))
    for _ in range(2):
        log = run(prepared, FakeLink())
        assert log[2:4] == [("INPUT_ACTIVATIONS", bytes(8)), ("receive", bytes(range(1, 9)))]


def test_scratch_that_came_in_parts_may_be_sent_back_as_a_whole_and_again() -> None:
    parts = replace(SCRATCH_OUT, offset=8, size=4), replace(SCRATCH_OUT, size=6)
    hints = InstructionHint(0), SEND_A, *parts, SCRATCH_BACK, SCRATCH_BACK, RECEIVE_Y, InterruptHint(0)
    log = run(PreparedExecutable(executable(*hints, scratch=16)), FakeLink())
    came = bytes((5, 6, 7, 8, 9, 10, 3, 4))  # the later part covers bytes 4 to 10
    assert [data for kind, data in log if kind == "INPUT_ACTIVATIONS"][1:] == [came, came]


def test_an_executable_without_instructions_is_refused() -> None:
    silent = replace(executable(SEND_A, RECEIVE_Y, InterruptHint(0)), bitstreams=())
    with pytest.raises(ModelUnsupportedError, match="there are no instructions"):
        PreparedExecutable(silent)


def test_hints_that_do_not_send_all_parameters_are_refused() -> None:
    hints = InstructionHint(0), SEND_A, RECEIVE_Y, InterruptHint(0)
    with pytest.raises(ModelUnsupportedError, match="only 0 of 3 bytes of parameter are moved"):
        PreparedExecutable(executable(*hints, parameters=b"abc"))
