"""A process that runs one graph with LiteRT, with limited memory and time."""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.graph_runner import GraphOperands, aligned_offsets
from edgetpu_driver.engines.launching_thread import launch
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.litert_process_messages import Kind, receive, send
from edgetpu_driver.errors import (
    DependencyMissingError,
    GraphProcessError,
    ModelFormatError,
    ModelUnsupportedError,
    ProcessStartError,
    reason_of,
)
from edgetpu_driver.files.memory_file import memory_file

START_SECONDS = 60.0
"""Time limit, s, for Python and LiteRT to start, which does not depend on the graph. A start takes 0.2 s of
processor time (`make bench`); only one that hangs reaches the limit."""
_MAIN = "import sys,json;sys.path[:]=json.loads(sys.argv[1]);from {} import main;main(*map(int,sys.argv[2:]))"
_LOGGED = ("INFO:", "WARNING:")  # lines of LiteRT that do not explain a crash
_LONGEST_REASON = 200
"""Maximum length of LiteRT's last line quoted in an error, characters."""


class LiteRtProcess:
    """A child process with a LiteRT interpreter; inputs and outputs are in shared memory.

    The first error of the process itself (it died, timed out or sent an invalid message) ends it: the call
    and all later ones raise GraphProcessError. Not thread-safe.
    """

    def __init__(self, name: str, limits: ProcessLimits) -> None:
        """Start the process. name: of the model, for messages.

        Raises ProcessStartError, GraphProcessError, and DependencyMissingError without ai-edge-litert.
        """
        self._name, self._limits = name, limits
        self._operands = GraphOperands((), ())
        self._given: list[tuple[str, NDArray[Any]]] = []
        self._results: list[tuple[str, NDArray[Any]]] = []
        with ExitStack() as opened:  # closed at once, not when an error's traceback is collected
            try:
                self._stderr = opened.enter_context(memory_file())
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._connection = opened.enter_context(ours)
                with theirs:
                    self._process = _start(theirs, self._stderr.fileno(), limits.memory)
            except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
                raise ProcessStartError(
                    f"{name}: cannot start a process for LiteRT: {reason_of(error)}"
                ) from None
            opened.pop_all()
        self._end = weakref.finalize(self, _end, self._process, (self._connection, self._stderr), os.getpid())
        kind, content = self._answer("start", START_SECONDS)
        if kind is Kind.NO_LITERT:
            self.close()
            raise DependencyMissingError(content)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._end.alive and self._process.poll() is None

    def load(self, data: bytes, operands: GraphOperands) -> None:
        """Load a graph; if the graph is at fault, the previous one stays loaded.

        Raises ModelFormatError, ModelUnsupportedError, GraphProcessError, ProcessStartError without memory.
        """
        limit = self._limits.load_seconds
        content = {
            "name": self._name,
            "bytes": len(data),
            "inputs": [index for _, index in operands.inputs],
            "outputs": [index for _, index in operands.outputs],
        }
        with self._descriptor(len(data)) as descriptor:
            os.pwrite(descriptor, data, 0)
            tensors = self._request(Kind.LOAD, "load the graph", limit, content, descriptor)
        self._operands = operands
        self._share(tensors)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the graph on checked inputs. Raises ModelUnsupportedError, GraphProcessError."""
        for name, memory in self._given:
            memory[...] = inputs[name]
        tensors = self._request(Kind.RUN, "run the graph", self._limits.run_seconds)
        if tensors is not None:
            self._share(tensors)
        return {name: memory.copy() for name, memory in self._results}

    def close(self) -> None:
        """End the process; harmless when called again."""
        self._end()

    def _share(self, tensors: Any) -> None:
        """Share memory for inputs and outputs of the reported shapes."""
        inputs, outputs = (self._reported(tensors, side) for side in ("inputs", "outputs"))
        for (spec, _), (shape, dtype) in zip(self._operands.inputs, inputs, strict=True):
            if (shape, dtype) != (spec.shape, spec.dtype):
                raise ModelUnsupportedError(
                    f"{self._name}: expected an input {spec}; LiteRT has {dtype.name}{list(shape)}"
                )
        offsets, size = aligned_offsets([*inputs, *outputs])
        if size > self._limits.memory:
            raise self._dead(f"has tensors of {size} bytes, more than its limit of {self._megabytes}")
        with self._descriptor(max(size, 1)) as descriptor:
            memory = mmap.mmap(descriptor, max(size, 1))
            content = {
                "bytes": max(size, 1),
                "inputs": offsets[: len(inputs)],
                "outputs": offsets[len(inputs) :],
            }
            self._request(Kind.SHARE, "share memory", self._limits.load_seconds, content, descriptor)
        arrays = [
            np.ndarray(shape, dtype, memory, offset)
            for (shape, dtype), offset in zip([*inputs, *outputs], offsets, strict=True)
        ]
        names = [spec.name for spec, _ in (*self._operands.inputs, *self._operands.outputs)]
        pairs = list(zip(names, arrays, strict=True))
        self._given, self._results = pairs[: len(inputs)], pairs[len(inputs) :]

    @contextmanager
    def _descriptor(self, size: int) -> Iterator[int]:
        """Memory to share, see `_memory`; converts an OSError in the block to a ProcessStartError."""
        descriptor = -1
        try:
            descriptor = _memory(size)
            yield descriptor
        except OSError as error:
            text = f"cannot share memory with this one: {reason_of(error)}"
            raise self._dead(text, ProcessStartError) from None
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _reported(self, tensors: Any, side: str) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Validate the shapes and dtypes reported by the process, which is not trusted."""
        count = len(self._operands.inputs if side == "inputs" else self._operands.outputs)
        try:
            found = [(tuple(map(int, shape)), np.dtype(str(dtype))) for shape, dtype in tensors[side]]
            plain = all(dtype.kind in "?iufc" and min(shape, default=0) >= 0 for shape, dtype in found)
        except (TypeError, ValueError, KeyError):
            plain, found = False, []
        if not plain or len(found) != count:
            raise self._dead("sent something other than the shapes of its tensors")
        return found

    def _request(
        self, kind: Kind, what: str, seconds: float, content: Any = None, descriptor: int | None = None
    ) -> Any:
        """Send a message and await its answer; returns the content of DONE or RESHAPED."""
        if not self._end.alive:
            raise GraphProcessError(f"{self._name}: the process that ran the graph has ended")
        try:
            if self._connection.gettimeout() != seconds:
                self._connection.settimeout(seconds)
            send(self._connection, kind, content, () if descriptor is None else (descriptor,))
        except OSError:
            raise self._dead(f"{self._manner()} before it could {what}") from None
        except BaseException:  # a KeyboardInterrupt: the answer would belong to the next request
            self.close()
            raise
        answer, content = self._answer(what, seconds)
        if answer is Kind.MALFORMED:
            raise ModelFormatError(str(content))
        if answer is Kind.UNSUPPORTED:
            raise ModelUnsupportedError(str(content))
        if answer is Kind.NO_MEMORY:
            raise self._dead(f"needs more than {self._megabytes} of memory to {what}")
        return content

    def _answer(self, what: str, seconds: float) -> tuple[Kind, Any]:
        try:
            if self._connection.gettimeout() != seconds:
                self._connection.settimeout(seconds)
            kind, content, descriptors = receive(self._connection)
        except TimeoutError:
            raise self._dead(f"took longer than {seconds:g} s to {what}") from None
        except (EOFError, OSError):
            raise self._dead(f"{self._manner()} when it was to {what}") from None
        except ValueError:
            raise self._dead("sent something other than an answer") from None
        except BaseException:
            self.close()
            raise
        for each in descriptors:  # none is expected
            os.close(each)
        return kind, content

    def _dead(self, what: str, kind: type[GraphProcessError] = GraphProcessError) -> GraphProcessError:
        """End the process and return the error with the reason."""
        lines = self._error_lines()
        self.close()
        reason = f" ({lines[-1][:_LONGEST_REASON]})" if lines else ""
        return kind(f"{self._name}: the process that runs the graph {what}{reason}")

    def _error_lines(self) -> list[str]:
        """Lines on the process's standard error that may explain a crash."""
        if self._stderr.closed:
            return []
        self._stderr.seek(0)
        lines = self._stderr.read(1 << 16).decode(errors="replace").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.startswith(_LOGGED)]

    def _manner(self) -> str:
        """How the process ended."""
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        if code >= 0:
            return f"ended with status {code}"
        try:
            return f"died of {signal.Signals(-code).name}"
        except ValueError:
            return f"died of signal {-code}"

    @property
    def _megabytes(self) -> str:
        return f"{self._limits.memory / (1 << 20):.0f} MB"


def _start(theirs: socket.socket, stderr: int, memory: int) -> subprocess.Popen[bytes]:
    """Start the process with its end of the connection.

    It gets no signals from the terminal and ignores PYTHON* variables and `site`; sys.path is passed to it.
    """
    paths = json.dumps([path for path in sys.path if path])
    numbers = [str(number) for number in (theirs.fileno(), os.getpid(), memory)]
    main = _MAIN.format("edgetpu_driver.engines.litert_process_main")
    command = [sys.executable, "-I", "-S", "-c", main, paths, *numbers]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return launch(
        lambda: subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=(theirs.fileno(),),
            env=environment,
            start_new_session=True,
        )
    )


def _end(process: subprocess.Popen[bytes], opened: tuple[socket.socket, IO[bytes]], owner: int) -> None:
    """Kill and reap the process; in a fork of the owner, only close these copies of what is opened."""
    for each in opened:
        each.close()
    if os.getpid() == owner:
        process.kill()
        process.wait()


def _memory(size: int) -> int:
    """A descriptor of anonymous memory of this many bytes, sealed against shrinking.

    All of it is allocated: the first access to a page that the system does not have would end this process
    with SIGBUS. Raises OSError if there is not enough.
    """
    with memory_file() as file:
        descriptor = file.fileno()
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
        if hasattr(os, "memfd_create"):
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        return os.dup(descriptor)
