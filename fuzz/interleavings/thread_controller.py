"""Runs threads one at a time, in an order drawn from a seed, on a clock of its own."""

from __future__ import annotations

import _thread
import gc
import random
import sys
import threading
import traceback
from collections.abc import Callable
from math import inf
from types import FrameType
from typing import Any

_START = 1000.0
"""Time of the clock at the start, s."""
_TICK = 1e-6
"""Time that passes with each reading of the clock, s."""
_MOST_SWITCHES = 2_000_000
_DELAYS = 0.01
"""Share of the switches at which a sleeping thread continues before the runnable ones."""


_LONGEST_DELAY = 0.1
"""Longest delay of a runnable thread by such a switch, s."""


class InterleavingError(AssertionError):
    """Raised if threads wait for each other or do not end."""


class AbandonedError(BaseException):
    """Raised in the threads of a failed run to end them."""


class ControlledThread:
    """One thread of a run; it continues when the controller opens its gate."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.gate = _thread.allocate_lock()
        self.gate.acquire()
        self.rank = 0.0
        """Priority: the thread with the highest rank runs."""
        self.is_ready: Callable[[], bool] | None = None
        """Condition that the thread waits for; None: it does not wait."""
        self.until = inf
        """Time until which the thread waits, s."""
        self.finished = False
        self.handle: object = None
        self.real: threading.Thread | None = None
        self.ident = 0


class ThreadController:
    """Decides which thread runs.

    Each thread has a random rank, and the thread with the highest rank runs until it waits. At any point
    where threads may be switched, and at lines of the traced files, the rank of the running thread may be
    drawn again. This resembles a loaded machine, on which threads are slow for a while at random places. The
    clock stands still while a thread runs, except for a microsecond with each reading.
    """

    def __init__(self, seed: int, traced: str = "", *, steady: bool = False) -> None:
        """traced: part of the file names of the modules in which threads may be switched at any line.

        steady: the first thread runs whenever it can, and the others only while it waits.
        """
        self.random = random.Random(seed)
        self.now = _START
        self.switches = 0
        self.failed: BaseException | None = None
        """The error that ended a thread."""
        self._traced = traced
        self._redraw = 0.0 if steady else self.random.choice((0.02, 0.1, 0.5))
        self._redraw_line = 0.0 if steady else self.random.choice((0.0, 0.003, 0.03))
        self._delays = 0.0 if steady else _DELAYS
        self._abandoned = False
        self._threads: list[ControlledThread] = []
        self._by_ident: dict[int, ControlledThread] = {}
        self._main = self._register("main")
        if steady:
            self._main.rank = inf
        self._adopt(self._main)

    # Methods for the primitives.

    @property
    def current(self) -> ControlledThread | None:
        """The calling thread; None if it does not belong to the run, or after the run."""
        return None if self._abandoned else self._by_ident.get(_thread.get_ident())

    def monotonic(self) -> float:
        """The present time, s."""
        self.now += _TICK
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the other threads run for `seconds`."""
        self.wait(lambda: False, seconds)

    def wait(self, is_ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until a condition holds, at most for `timeout` s; return whether it holds."""
        me = self.current
        if me is None:  # after the run, during garbage collection
            return is_ready()
        self._redraw_rank(me, self._redraw)
        me.is_ready, me.until = is_ready, inf if timeout is None else self.now + max(timeout, 0.0)
        self._switch(me)
        return is_ready()

    def pause(self) -> None:
        """Let another thread continue, if its turn has come."""
        me = self.current
        if me is not None and self._redraw_rank(me, self._redraw):
            self._switch(me)

    def start(self, name: str, work: Callable[[], None], handle: object = None) -> ControlledThread:
        """Start a thread; handle: the object that replaces it in the tested code."""
        thread = self._register(name)
        thread.handle = handle

        def run() -> None:
            self._adopt(thread)
            thread.gate.acquire()
            try:
                if not self._abandoned:
                    self._trace_lines()
                    work()
            except AbandonedError:
                pass
            except BaseException as error:
                self.failed = error
            sys.settrace(None)
            thread.finished = True
            # Objects released when this thread ends may call primitives, but these no longer switch threads.
            del self._by_ident[thread.ident]
            if not self._abandoned:
                self._hand_over(self._chosen())

        thread.real = threading.Thread(target=run, name=name, daemon=True)
        thread.real.start()
        self.pause()
        return thread

    # Methods for the scenario, which runs in the first thread.

    def run(self, work: Callable[[], None]) -> None:
        """Run a function as the first thread; end all others if it fails."""
        gc.disable()  # a finaliser of an earlier run must not switch threads in the middle of this one
        try:
            self._trace_lines()
            work()
        finally:
            sys.settrace(None)
            self._abandon()
            gc.enable()

    def unfinished(self) -> list[str]:
        """Names of the threads that have not ended."""
        return [thread.name for thread in self._threads if not thread.finished and thread is not self._main]

    def stacks(self) -> str:
        """The stack of each thread, as text."""
        frames = sys._current_frames()
        lines = []
        for thread in self._threads:
            if not thread.finished:
                waits = "waits" if thread.is_ready is not None else "could run"
                lines.append(f"-- {thread.name} {waits}, until {thread.until:g}")
                stack = traceback.extract_stack(frames.get(thread.ident))
                lines += [f"   {s.filename}:{s.lineno} {s.name}: {s.line}" for s in stack[-9:]]
        return "\n".join(lines)

    def _register(self, name: str) -> ControlledThread:
        thread = ControlledThread(name)
        thread.rank = self.random.random()
        self._threads.append(thread)
        return thread

    def _adopt(self, thread: ControlledThread) -> None:
        self._by_ident[_thread.get_ident()] = thread
        thread.ident = _thread.get_ident()

    def _redraw_rank(self, thread: ControlledThread, share: float) -> bool:
        if self.random.random() >= share:
            return False
        thread.rank = self.random.random()
        return True

    def _switch(self, me: ControlledThread) -> None:
        if self._abandoned:
            raise AbandonedError
        other = self._chosen()
        if other is not me:
            self._hand_over(other)
            me.gate.acquire()
            if self._abandoned:
                raise AbandonedError
        me.is_ready, me.until = None, inf
        if self.failed is not None and me is self._main:
            raise self.failed

    def _hand_over(self, other: ControlledThread) -> None:
        other.gate.release()

    def _chosen(self) -> ControlledThread:
        """The thread that continues next."""
        self.switches += 1
        alive = [thread for thread in self._threads if not thread.finished]
        ready = [each for each in alive if each.is_ready is None or each.until <= self.now or each.is_ready()]
        sleeping = [each for each in alive if each not in ready and each.until < inf]
        if sleeping:
            first = min(sleeping, key=lambda each: each.until)
            late = first.until < self.now + _LONGEST_DELAY and self.random.random() < self._delays
            if late or not ready:
                ready, self.now = [first], max(self.now, first.until)
        if not ready or self.switches > _MOST_SWITCHES:
            what = "no thread can continue" if not ready else "the threads do not end"
            self.failed = InterleavingError(f"{what}\n{self.stacks()}")
            return self._main
        return max(ready, key=lambda each: each.rank)

    def _trace_lines(self) -> None:
        if self._redraw_line:
            sys.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "call":
            return self._trace if self._traced in frame.f_code.co_filename else None
        if event == "line":
            me = self.current
            if me is not None and not self._abandoned and self._redraw_rank(me, self._redraw_line):
                self._switch(me)
        return self._trace

    def _abandon(self) -> None:
        self._abandoned = True
        for thread in self._threads:
            if thread.real is not None and not thread.finished:
                thread.gate.release()
        for thread in self._threads:
            if thread.real is not None:
                thread.real.join(5.0)
