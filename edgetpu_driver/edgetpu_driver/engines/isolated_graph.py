"""Runs a graph in a separate process and restarts it after a crash, with increasing delays."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.engines.graph_runner import GraphOperands
from edgetpu_driver.engines.litert_process import START_SECONDS, LiteRtProcess
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.process_lock import ProcessLock
from edgetpu_driver.errors import GraphProcessError

_STABLE_SECONDS = 60.0
"""Minimum lifetime after which a process is restarted at once, regardless of earlier crashes, s. Chosen: the
longest pause."""
_LONGEST_PAUSE = 60.0
"""Maximum restart delay, s: acceptable to a user who has just fixed the cause."""
MOST_PROCESSES = 16
"""Maximum number of processes, which take about 20 MB each; the longest idle one is ended before another one
starts."""

_running: weakref.WeakSet[IsolatedGraph] = weakref.WeakSet()
_running_lock = ProcessLock()


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
        self._started = self._used = 0.0
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
            self._used = time.monotonic()
            try:
                return process.run(inputs)
            except GraphProcessError as error:
                self._note_death(error)
                raise

    def close(self) -> None:
        """End the process; harmless when called again."""
        with self._lock:
            self._end()

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
        self._make_room()
        try:
            process = self._start()
            self._started = self._used = time.monotonic()
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

    def _make_room(self) -> None:
        """Reserve a slot for a process; ends the process of another graph if none is free."""
        with _running_lock:
            others = sorted((each for each in _running if each.pid), key=lambda each: each._used)
            for other in others[: max(len(others) + 1 - MOST_PROCESSES, 0)]:
                if other._lock.acquire(blocking=False):  # it is idle
                    try:
                        other._end()
                    finally:
                        other._lock.release()
            _running.add(self)

    def _note_death(self, error: GraphProcessError) -> None:
        now = time.monotonic()
        self._end()
        self._reason = str(error)
        self._deaths = 1 if now - self._started >= _STABLE_SECONDS else self._deaths + 1
        pause = 2.0 ** (self._deaths - 2) if self._deaths > 1 else 0.0
        self._refused_until = now + min(pause, _LONGEST_PAUSE)
