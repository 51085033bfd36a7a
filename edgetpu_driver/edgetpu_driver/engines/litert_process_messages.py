"""The messages between an engine and the process that runs its graph.

They communicate over a SOCK_SEQPACKET socket, which preserves message boundaries and reports when the other
side closes. A message is one byte for its kind and, for some kinds, JSON; files and tensors are in shared
memory, whose descriptors accompany the message. The graph's process imports this module: no heavy imports.
"""

from __future__ import annotations

import json
import os
import socket
from array import array
from enum import Enum
from typing import Any

_LARGEST = 1 << 15  # bytes; a message describes at most a few tensors
_MOST_DESCRIPTORS = 2
"""Maximum number of file descriptors received with one message; a request sends one."""
_LONGEST_TEXT = 2000
"""Maximum length of an error that is passed on, characters; a message holds 32 kB."""
_ANCILLARY = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array("i").itemsize)


class Kind(bytes, Enum):
    """The first byte of a message."""

    LOAD = b"L"
    """Load the graph in the descriptor. JSON: bytes, inputs, outputs (indices of tensors)."""
    SHARE = b"S"
    """Put inputs and outputs into the memory of the descriptor. JSON: bytes, inputs, outputs (offsets)."""
    RUN = b"R"
    """Run the graph on the inputs in shared memory."""

    DONE = b"D"
    """Answer: done. After LOAD, JSON: shapes and dtypes of the inputs and outputs."""
    RESHAPED = b"O"
    """Answer to RUN: the outputs' shapes have changed and need other memory. JSON as for DONE."""
    MALFORMED = b"F"
    """Answer: LiteRT rejects the file. JSON: the message."""
    UNSUPPORTED = b"U"
    """Answer: LiteRT cannot load or run the graph. JSON: the message."""
    NO_MEMORY = b"M"
    """Answer: the memory limit is too low."""
    NO_LITERT = b"N"
    """First message: LiteRT is not installed. JSON: the message. Otherwise the first message is DONE."""


def send(
    connection: socket.socket, kind: Kind, content: Any = None, descriptors: tuple[int, ...] = ()
) -> None:
    """Send one message. Raises OSError, including TimeoutError."""
    if isinstance(content, str):
        content = content[:_LONGEST_TEXT]
    data = kind.value if content is None else kind.value + json.dumps(content).encode()
    if descriptors:
        socket.send_fds(connection, [data], descriptors)
    else:
        connection.send(data)


def receive(connection: socket.socket) -> tuple[Kind, Any, list[int]]:
    """Receive one message: kind, content, descriptors. Raises EOFError at the end; OSError, ValueError."""
    data, ancillary, _, _ = connection.recvmsg(_LARGEST, _ANCILLARY)
    if not data:
        raise EOFError
    descriptors = _descriptors(ancillary) if ancillary else []
    try:
        return Kind(data[:1]), json.loads(data[1:]) if len(data) > 1 else None, descriptors
    except ValueError:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came with a message."""
    found = array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)
