"""Frames to the device and event packets from it."""

from __future__ import annotations

import pytest

from edgetpu_driver.usb.framing import Event, Frame, Tag, parse_event


def test_a_frame_is_length_and_tag_followed_by_the_payload_in_one_piece() -> None:
    (piece,) = Frame(Tag.PARAMETERS, b"abc").pieces()
    assert piece.tobytes() == b"\x03\0\0\0\x02\0\0\0abc"


def test_a_payload_can_be_written_after_the_frame_was_made() -> None:
    frame = Frame(Tag.INPUT_ACTIVATIONS, 2)
    frame.payload[:] = (7, 9)
    (piece,) = frame.pieces()
    assert piece.tobytes() == b"\x02\0\0\0\x01\0\0\0\x07\x09"


def test_a_large_frame_is_cut_into_pieces_of_one_mebibyte_header_included() -> None:
    pieces = list(Frame(Tag.PARAMETERS, bytes(2 << 20)).pieces())
    assert [len(piece) for piece in pieces] == [1 << 20, 1 << 20, 8]


def test_an_event_packet_holds_address_length_and_tag() -> None:
    packet = b"\x88\x77\x66\x55\x44\x33\x22\x11" + b"\x10\0\0\0" + b"\xf4\xaa\xbb\xcc"
    assert parse_event(packet) == Event(0x1122334455667788, 16, Tag.INTERRUPT_0)


def test_an_unknown_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="15"):
        parse_event(bytes(12) + b"\x0f\0\0\0")
