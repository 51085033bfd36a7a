"""Entry point of the process that runs one graph with LiteRT, so that a crash ends no other process.

`LiteRtProcess` starts it. It imports little more than NumPy and LiteRT, to start quickly.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.litert_interpreter import first_line, interpreter_class, make_interpreter
from edgetpu_driver.engines.litert_process_messages import Kind, receive, send
from edgetpu_driver.errors import DependencyMissingError, ModelFormatError, ModelUnsupportedError

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
"""Options of prctl(2) in linux/prctl.h."""
_LARGEST_FILE = 1 << 20  # bytes: maximum output of LiteRT to stderr
_OPEN_FILES = 64
"""Maximum number of file descriptors, so that a damaged graph cannot exhaust those of the machine."""
_KILLED_FIRST = b"500"  # oom_score_adj: killed before others when memory runs out


def main(descriptor: int, parent: int, memory: int) -> None:
    """Serve requests until the other side closes the connection.

    descriptor: of the connection. parent: process id of the parent. memory: limit in bytes, beyond what
    LiteRT itself takes.
    """
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=descriptor)
    with suppress(EOFError, ConnectionError):
        try:
            interpreter_class()
        except DependencyMissingError as error:
            send(connection, Kind.NO_LITERT, str(error))
            return
        _limit(memory)
        send(connection, Kind.DONE)
        _Graph(connection).serve()
    os._exit(0)  # destructors would only crash if the heap is damaged


def _end_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(_PR_SET_NAME, b"edgetpu_litert")
        with suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(_KILLED_FIRST)
    if os.getppid() != parent:
        os._exit(0)


def _limit(memory: int) -> None:
    """Limit the address space to its present size plus `memory` bytes, and disable core files."""
    used = 1 << 30
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * mmap.PAGESIZE
    for kind, amount in (
        (resource.RLIMIT_AS, used + memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, _LARGEST_FILE),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        _, most = resource.getrlimit(kind)
        amount = amount if most == resource.RLIM_INFINITY else min(amount, most)
        resource.setrlimit(kind, (amount, amount))


class _Graph:
    """The loaded graph and the memory that is shared with the engine."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._interpreter: Any = None
        self._inputs: list[int] = []
        self._outputs: list[int] = []
        self._given: list[NDArray[Any]] = []
        self._results: list[NDArray[Any]] = []
        self._waiting = False
        """Whether outputs are waiting for larger memory."""

    def serve(self) -> None:
        """Answer requests until EOFError or ConnectionError is raised at the end of the connection."""
        while True:
            kind, content, descriptors = receive(self._connection)
            try:
                if kind is Kind.RUN:
                    self._run()
                elif kind is Kind.LOAD:
                    self._load(content, descriptors[0])
                elif kind is Kind.SHARE:
                    self._share(content, descriptors[0])
            except ModelFormatError as error:
                send(self._connection, Kind.MALFORMED, str(error))
            except ModelUnsupportedError as error:
                send(self._connection, Kind.UNSUPPORTED, str(error))
            except MemoryError:
                send(self._connection, Kind.NO_MEMORY)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _load(self, content: dict[str, Any], descriptor: int) -> None:
        with mmap.mmap(descriptor, content["bytes"], prot=mmap.PROT_READ) as file:
            interpreter = make_interpreter(content["name"], file[:])
        self._interpreter, self._inputs, self._outputs = interpreter, content["inputs"], content["outputs"]
        send(self._connection, Kind.DONE, self._tensors())

    def _tensors(self) -> dict[str, list[tuple[list[int], str]]]:
        """Present shapes and dtypes in LiteRT."""
        return {
            "inputs": [self._tensor(index) for index in self._inputs],
            "outputs": [self._tensor(index) for index in self._outputs],
        }

    def _tensor(self, index: int) -> tuple[list[int], str]:
        try:
            array = self._interpreter.get_tensor(index)
        except ValueError:  # an output whose shape is unknown until the first run
            return [0], "|u1"
        return list(array.shape), np.dtype(array.dtype).str

    def _share(self, content: dict[str, Any], descriptor: int) -> None:
        memory = mmap.mmap(descriptor, content["bytes"])
        tensors = self._tensors()
        self._given, self._results = (
            [
                np.ndarray(shape, np.dtype(dtype), memory, offset)
                for (shape, dtype), offset in zip(tensors[side], content[side], strict=True)
            ]
            for side in ("inputs", "outputs")
        )
        if self._waiting:
            self._waiting = False
            self._put_outputs([self._interpreter.get_tensor(index) for index in self._outputs])
        send(self._connection, Kind.DONE)

    def _run(self) -> None:
        interpreter = self._interpreter
        try:
            for index, given in zip(self._inputs, self._given, strict=True):
                interpreter.set_tensor(index, given)
            interpreter.invoke()
            outputs = [interpreter.get_tensor(index) for index in self._outputs]
        except (RuntimeError, ValueError) as error:
            raise ModelUnsupportedError(f"LiteRT cannot run the graph: {first_line(error)}") from None
        if any(
            output.shape != result.shape or output.dtype != result.dtype
            for output, result in zip(outputs, self._results, strict=True)
        ):
            self._waiting = True
            send(self._connection, Kind.RESHAPED, self._tensors())
            return
        self._put_outputs(outputs)
        self._connection.send(Kind.DONE.value)

    def _put_outputs(self, outputs: list[NDArray[Any]]) -> None:
        for output, result in zip(outputs, self._results, strict=True):
            result[...] = output
