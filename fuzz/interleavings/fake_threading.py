"""The parts of `threading`, `queue` and `time` that the host uses, implemented on a ThreadController."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty
from types import ModuleType, SimpleNamespace
from typing import Any

from fuzz.interleavings.thread_controller import ControlledThread, ThreadController


class Lock:
    """Replaces threading.Lock or, if reentrant, threading.RLock."""

    def __init__(self, controller: ThreadController, reentrant: bool = False) -> None:
        self._controller = controller
        self._reentrant = reentrant
        self._owner: object = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See threading.Lock."""
        me = self._controller.current
        if not (self._reentrant and self._depth and self._owner is me):
            limit = None if blocking and timeout < 0 else max(timeout, 0.0)
            if not self._controller.wait(lambda: not self._depth, limit):
                return False
            self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        """See threading.Lock."""
        if not self._depth:
            raise RuntimeError("release of a lock that is not held")
        self._depth -= 1
        self._controller.pause()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_exception: object) -> None:
        self.release()


class Event:
    """Replaces threading.Event."""

    def __init__(self, controller: ThreadController) -> None:
        self._controller = controller
        self._is_set = False

    def is_set(self) -> bool:
        """See threading.Event."""
        return self._is_set

    def set(self) -> None:
        """See threading.Event."""
        self._is_set = True
        self._controller.pause()

    def clear(self) -> None:
        """See threading.Event."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """See threading.Event."""
        return self._controller.wait(self.is_set, timeout)


class SimpleQueue:
    """Replaces queue.SimpleQueue."""

    def __init__(self, controller: ThreadController) -> None:
        self._controller = controller
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        """See queue.SimpleQueue."""
        self._items.append(item)
        self._controller.pause()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """See queue.SimpleQueue."""
        if not self._controller.wait(lambda: bool(self._items), timeout if block else 0.0):
            raise Empty
        return self._items.popleft()

    def empty(self) -> bool:
        """See queue.SimpleQueue."""
        self._controller.pause()
        return not self._items


class Thread:
    """Replaces threading.Thread."""

    def __init__(
        self,
        controller: ThreadController,
        target: Callable[..., None],
        name: str = "",
        args: Sequence[Any] = (),
        daemon: bool = False,
    ) -> None:
        self.name, self.daemon = name, daemon
        self._controller = controller
        self._work = lambda: target(*args)
        self._controlled: ControlledThread | None = None

    def start(self) -> None:
        """See threading.Thread."""
        self._controlled = self._controller.start(self.name, self._work, self)

    def join(self, timeout: float | None = None) -> None:
        """See threading.Thread."""
        self._controller.wait(lambda: not self.is_alive(), timeout)

    def is_alive(self) -> bool:
        """See threading.Thread."""
        return self._controlled is not None and not self._controlled.finished


class Timer(Thread):
    """Replaces threading.Timer."""

    def __init__(self, controller: ThreadController, interval: float, function: Callable[[], None]) -> None:
        super().__init__(controller, self._run, "timer")
        self._interval, self._function = interval, function
        self._cancelled = Event(controller)

    def cancel(self) -> None:
        """See threading.Timer."""
        self._cancelled.set()

    def _run(self) -> None:
        if not self._cancelled.wait(self._interval):
            self._function()


def _replacements(controller: ThreadController) -> dict[str, object]:
    """Replacements for the names that modules import."""

    def current_thread() -> object:
        me = controller.current
        return me and me.handle

    fake_threading = SimpleNamespace(
        Lock=lambda: Lock(controller),
        RLock=lambda: Lock(controller, reentrant=True),
        Event=lambda: Event(controller),
        Thread=lambda **options: Thread(controller, **options),
        Timer=lambda interval, function: Timer(controller, interval, function),
        current_thread=current_thread,
        get_ident=threading.get_ident,
    )
    fake_time = SimpleNamespace(
        monotonic=controller.monotonic, perf_counter=controller.monotonic, sleep=controller.sleep
    )
    return {
        "threading": fake_threading,
        "time": fake_time,
        "perf_counter": controller.monotonic,
        "Lock": fake_threading.Lock,
        "SimpleQueue": lambda: SimpleQueue(controller),
    }


@contextmanager
def replaced(modules: Sequence[ModuleType], controller: ThreadController) -> Iterator[None]:
    """Let modules use a controller's threads, locks, queues and clock.

    A module raises AttributeError if it uses anything else of `threading` or `time`.
    """
    before = [
        (module, name, vars(module)[name], replacement)
        for name, replacement in _replacements(controller).items()
        for module in modules
        if name in vars(module)
    ]
    try:
        for module, name, _, replacement in before:
            setattr(module, name, replacement)
        yield
    finally:
        for module, name, original, _ in before:
            setattr(module, name, original)
