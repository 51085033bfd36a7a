"""Runs a graph in a separate process and restarts it after a crash, with increasing delays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.engines.graph_runner import GraphOperands
from edgetpu_driver.engines.litert_process import START_SECONDS, LiteRtProcess
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.litert_process_pool import make_room
from edgetpu_driver.errors import GraphProcessError

_STABLE_SECONDS = 60.0
"""A process that has lived this long, s, is restarted at once, regardless of earlier crashes. Chosen: the
longest pause."""
_LONGEST_PAUSE = 60.0
"""Maximum restart delay, s: acceptable to a user who has just fixed the cause."""


class IsolatedGraph:
    """Runs a graph in a LiteRtProcess. A crash fails the current request; the next one restarts the process.

    After two crashes in a row, each within a minute of the start, requests are refused for 1 s, then 2 s,
    4 s, .. 60 s, with the reason of the last crash. If a process was ended to make room for another graph,
    the next request restarts it.
    """

    def __init__(self, name: str, operands: GraphOperands, limits: ProcessLimits) -> None:
        """name: of the model, for messages."""
        self._name, self._operands, self._limits = name, operands, limits
        self._process: LiteRtProcess | None = None
        self._data = b""
        self._started = 0.0
        self.last_used = 0.0
        """Time of the last request, s."""
        self._deaths = 0
        self._refused_until = 0.0
        self._reason = ""
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The id of the current process; 0 if there is none."""
        process = self._process  # read once: other graphs ask without the lock, while a thread may end it
        return process.pid if process is not None and process.is_alive else 0

    def load(self, data: bytes) -> None:
        """See GraphRunner. GraphProcessError if the graph ends the process."""
        with self._lock:
            process = self._ready()
            try:
                process.load(data, self._operands)
            except GraphProcessError as error:
                self._note_death(error)
                raise
            self._data = data

    def prepare(self, data: bytes) -> Callable[[], None]:
        """See GraphRunner; prepares nothing, since the process holds one graph at a time."""
        return partial(self.load, data)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """See GraphRunner. GraphProcessError if the process dies, times out or may not restart yet."""
        with self._lock:
            process = self._ready()
            self.last_used = time.monotonic()
            try:
                return process.run(inputs)
            except GraphProcessError as error:
                self._note_death(error)
                raise

    def close(self) -> None:
        """End the process; harmless when called again."""
        with self._lock:
            self._end()

    def end_if_idle(self) -> None:
        """End the process unless it runs the graph, to make room for another graph's."""
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _ready(self) -> LiteRtProcess:
        """The process with the graph loaded; a new one if the last has died."""
        process = self._process
        if process is not None and process.is_alive:
            return process
        if process is not None:  # it died between two requests
            self._note_death(GraphProcessError(f"{self._name}: the process that runs the graph was ended"))
        pause = self._refused_until - time.monotonic()
        if pause > 0:
            raise GraphProcessError(
                f"{self._reason}; it died {self._deaths} times in a row and is started again in {pause:.1f} s"
            )
        make_room(self)
        try:
            process = self._start()
            self._started = self.last_used = time.monotonic()
            if self._data:
                process.load(self._data, self._operands)
        except GraphProcessError as error:
            self._note_death(error)
            raise
        self._process = process
        return process

    def _start(self) -> LiteRtProcess:
        """Start a process; retries once if it ends before the graph is loaded."""
        begun = time.monotonic()
        try:
            return LiteRtProcess(self._name, self._limits)
        except GraphProcessError:
            if time.monotonic() - begun >= START_SECONDS:
                raise
            return LiteRtProcess(self._name, self._limits)

    def _note_death(self, error: GraphProcessError) -> None:
        now = time.monotonic()
        self._end()
        self._reason = str(error)
        self._deaths = 1 if now - self._started >= _STABLE_SECONDS else self._deaths + 1
        pause = 2.0 ** (self._deaths - 2) if self._deaths > 1 else 0.0
        self._refused_until = now + min(pause, _LONGEST_PAUSE)
