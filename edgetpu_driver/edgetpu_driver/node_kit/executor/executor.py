"""A single-threaded executor that keeps its wait set from one round to the next.

EDGETPU_EXECUTOR=rclpy selects rclpy's own executor instead; `make_executor` also falls back to it if a
private name is missing. Both continue after exceptions of callbacks; see `callback_guard`. rclpy promises
nothing about the following names, which this module and `wait_set` use:

- SingleThreadedExecutor: `_context`, `_guard`, `_is_shutdown`, `_sigint_gc`, `_make_handler`, and
  `_spin_once_impl`, which is overridden because spin_until_future_complete calls it;
- Task: `_handler`, the coroutine of a suspended callback;
- Subscription: `_callback_type`, `CallbackType`, whether the callback takes the message info;
- `rclpy.impl.implementation_singleton.rclpy_implementation`: `WaitSet` with its add_*, clear_entities, wait
  and get_ready_entities;
- the handles of entities: `pointer`, `take_message`, `is_timer_ready`, `call_timer`, `take_response`,
  `service_take_request`;
- Waitable: `add_to_wait_set`, `get_num_entities`, `is_ready`; Client: `get_pending_request`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import chain
from typing import Any

from rclpy.client import Client
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import (
    ExternalShutdownException,
    ShutdownException,
    SingleThreadedExecutor,
    TimeoutException,
    TimeoutObject,
)
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.logging import get_logger
from rclpy.task import Task

from edgetpu_driver.node_kit.executor.callback_guard import GuardedExecutor
from edgetpu_driver.node_kit.executor.wait_set import ADDERS, WaitSet
from edgetpu_driver.node_kit.fatal_error import FatalError

EXECUTOR_VARIABLE = "EDGETPU_EXECUTOR"
EXECUTORS = ("static", "rclpy")
"""Values of EDGETPU_EXECUTOR; the first is the default."""


def make_executor() -> GuardedExecutor:
    """Make the executor that EDGETPU_EXECUTOR names; rclpy's if this one cannot run on this rclpy.

    Raises FatalError for another value of the variable.
    """
    wanted = os.environ.get(EXECUTOR_VARIABLE) or EXECUTORS[0]
    if wanted not in EXECUTORS:
        raise FatalError(f"{EXECUTOR_VARIABLE}: expected {' or '.join(EXECUTORS)}; got '{wanted}'")
    if wanted == "rclpy":
        return GuardedExecutor()
    missing = missing_names()
    if missing:
        names = ", ".join(missing)
        get_logger("executor").info(f"using rclpy's own executor: this version of rclpy has no {names}")
        return GuardedExecutor()
    return StaticSingleThreadedExecutor()


def missing_names() -> list[str]:
    """Private names that StaticSingleThreadedExecutor needs and this version of rclpy lacks."""
    owners = {
        SingleThreadedExecutor: ("_make_handler", "_spin_once_impl", "wait_for_ready_callbacks"),
        Client: ("get_pending_request",),
        _rclpy.WaitSet: ("clear_entities", "get_ready_entities", "wait", *ADDERS),
        _rclpy.Subscription: ("pointer", "take_message"),
        _rclpy.Timer: ("call_timer", "is_timer_ready", "pointer"),
        _rclpy.Client: ("pointer", "take_response"),
        _rclpy.Service: ("pointer", "service_take_request"),
    }
    missing = [
        f"{owner.__name__}.{name}"
        for owner, names in owners.items()
        for name in names
        if not hasattr(owner, name)
    ]
    executor = SingleThreadedExecutor()
    names = "_context", "_guard", "_is_shutdown", "_sigint_gc"
    missing += [f"SingleThreadedExecutor.{name}" for name in names if not hasattr(executor, name)]
    executor.shutdown()
    return missing


class StaticSingleThreadedExecutor(GuardedExecutor):
    """Rebuilds its wait set only when nodes or entities have changed, as rclcpp's executor of this name does.

    rclpy's own executor collects all entities of all nodes in every round, and takes two or three rounds for
    each callback. Here only rounds with coroutines, tasks or events to run are left to it. The wait set is
    rebuilt when the executor's guard condition is triggered: rclpy does so whenever a node or an entity is
    added or removed, a task is created, or rclpy has called a callback.

    Restrictions: the callbacks of guard conditions must be plain functions, those of timers must take no
    argument, and the callback of a client's future must not raise, because rclpy only warns of that.
    """

    def __init__(self, *, context: Context | None = None) -> None:
        super().__init__(context=context)
        self._wait_set: WaitSet | None = None
        self._suspended: list[Task] = []
        self._has_new_tasks = False
        self._spinning = threading.RLock()

    def create_task(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Task:
        """Have the spinning thread run a function or coroutine; see Executor."""
        task = super().create_task(callback, *args, **kwargs)
        # The trigger of this task may be consumed by a round of rclpy that has already looked for tasks.
        self._has_new_tasks = True
        self.wake()
        return task

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Wait once and call the callbacks of all ready entities; there may be none.

        timeout_sec: longest wait, s; None: no limit. It may wait up to 3 ms more for a call that is due soon.
        """
        with self._spinning:
            if self._is_shutdown:
                return
            if not self._context.ok():
                raise ExternalShutdownException
            if self._suspended:
                # A suspended callback blocks the others of its group; rclpy keeps track of that.
                self._run_one(timeout_sec)
                is_due = not self._suspended
            else:
                is_due = self._has_new_tasks or self._call_ready(timeout_sec)
            if is_due or self._has_new_tasks:
                self._leave_to_base()

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        """End a round that runs in another thread, abandon suspended callbacks and release the nodes.

        See Executor.shutdown.
        """
        self._is_shutdown = True
        self.wake()
        patience = -1 if timeout_sec is None or timeout_sec < 0.0 else timeout_sec
        if not self._spinning.acquire(timeout=patience):
            return False
        try:
            for task in self._suspended:
                if not task.executing():
                    task._handler.close()  # Task.cancel does so too, but not in Humble
            self._suspended = []
            self._forget_wait_set()
            return bool(super().shutdown(timeout_sec))
        finally:
            self._spinning.release()

    def _spin_once_impl(
        self, timeout_sec: float | TimeoutObject | None = None, *_condition: Callable[[], bool]
    ) -> None:
        """Spin once for spin_until_future_complete, which has the future wake the executor."""
        self.spin_once(timeout_sec.timeout if isinstance(timeout_sec, TimeoutObject) else timeout_sec)

    def _call_ready(self, timeout_sec: float | None) -> bool:
        """Wait, call the callbacks of ready entities, and return whether rclpy must handle something."""
        if self._wait_set is None:
            guards = {
                self._guard: self._forget_wait_set,
                # A signal triggers it and then shuts the context down; until that has happened, do not wait.
                self._sigint_gc: self._sigint_gc.trigger,
            }
            self._wait_set = WaitSet(self.get_nodes(), guards, self._context)
        try:
            works = self._wait_set.wait(timeout_sec)
        except InvalidHandle:  # an event has been destroyed
            self._forget_wait_set()
            return False
        if not self._context.ok():
            raise ExternalShutdownException
        with self._wait_set.awake() as calls:
            for work in chain(works, calls):
                if work is not None and not self._is_shutdown:
                    work()
        return None in works

    def _leave_to_base(self) -> None:
        """Have rclpy run everything that is ready to run."""
        self._forget_wait_set()
        self._has_new_tasks = False
        while self._run_one(0.0):
            pass

    def _run_one(self, timeout_sec: float | None) -> bool:
        """Have rclpy wait for one callback and run it; return whether there was one."""
        try:
            task, _, _ = self.wait_for_ready_callbacks(timeout_sec)
        except (TimeoutException, ShutdownException):
            return False
        task()
        known = self._suspended if task in self._suspended else [*self._suspended, task]
        self._suspended = [each for each in known if not each.done() and not each.cancelled()]
        error = task.exception() if task.done() else None
        if error is not None:
            self.report_task(error)
        return True

    def _forget_wait_set(self) -> None:
        if self._wait_set is not None:
            self._wait_set.close()
            self._wait_set = None
