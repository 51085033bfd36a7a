"""A single-threaded executor that keeps its wait set from one round to the next.

EDGETPU_EXECUTOR=rclpy selects rclpy's own executor instead; `make_executor` also falls back to it if a
private name is missing. Both go on after what callbacks raise; see `callback_guard`. rclpy promises nothing
about the following names, which this module uses:

- SingleThreadedExecutor: `_context`, `_guard`, `_is_shutdown`, `_sigint_gc`, `_make_handler`, and
  `_spin_once_impl`, which is overridden because spin_until_future_complete calls it;
- Task: `_handler`, the coroutine of a suspended callback; - Subscription: `_callback_type`, `CallbackType`,
whether the callback takes the message info; - `rclpy.impl.implementation_singleton.rclpy_implementation`:
`WaitSet` with its add_*, clear_entities, wait and
  get_ready_entities;
- the handles of entities: `pointer`, `take_message`, `is_timer_ready`, `call_timer`, `take_response`,
  `service_take_request`;
- Waitable: `add_to_wait_set`, `get_num_entities`, `is_ready`; Client: `get_pending_request`.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
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
from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.task import Task
from rclpy.timer import Timer
from rclpy.utilities import timeout_sec_to_nsec
from rclpy.waitable import NumberOfEntities

from edgetpu_driver.node_kit.callback_guard import (
    GuardedExecutor,
    UnreadableError,
    answering,
    read_request,
    report,
    source_of,
)
from edgetpu_driver.node_kit.fatal_error import FatalError

Work = Callable[[], None]
"""Takes the data of a ready entity and calls its callback."""

_ADDERS = "add_subscription", "add_guard_condition", "add_timer", "add_client", "add_service"


EXECUTOR_VARIABLE = "EDGETPU_EXECUTOR"
EXECUTORS = ("static", "rclpy")
"""Values of that variable; the first is the default."""


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
        _rclpy.WaitSet: ("clear_entities", "get_ready_entities", "wait", *_ADDERS),
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
    each callback. Here only rounds with coroutines, tasks or events to run are left to it. Its guard
    condition, which rclpy triggers whenever a node or an entity is added or removed, a task is created or a
    callback was called by rclpy, tells when to rebuild the wait set.

    Restrictions: the callbacks of guard conditions must be plain functions, those of timers must take no
    argument, and the callback of a client's future must not raise, because rclpy only warns of that.
    """

    def __init__(self, *, context: Context | None = None) -> None:
        super().__init__(context=context)
        self._wait_set: _WaitSet | None = None
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

        timeout_sec: longest wait, s; None: no limit.
        """
        with self._spinning:
            if self._is_shutdown:
                return
            if not self._context.ok():
                raise ExternalShutdownException
            if self._suspended:
                # It blocks the other callbacks of its group; rclpy keeps track of that.
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
            self._wait_set = _WaitSet(self.get_nodes(), guards, self._context)
        try:
            works = self._wait_set.wait(timeout_sec)
        except InvalidHandle:  # an event has been destroyed
            self._forget_wait_set()
            return False
        if not self._context.ok():
            raise ExternalShutdownException
        for work in works:
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


class _WaitSet:
    """The entities of some nodes and what to do when each is ready; none is destroyed before `close`."""

    def __init__(
        self, nodes: Iterable[Node], guards: Mapping[GuardCondition, Work], context: Context
    ) -> None:
        """`guards`: the executor's own guard conditions, and what to do when they end a wait."""
        nodes = list(nodes)
        self._held = ExitStack()
        self._works: dict[int, Work | None] = {}
        """By the address of the entity; None: left to rclpy."""
        conditions = []
        for guard, work in guards.items():
            self._held.enter_context(guard.handle)
            conditions.append(guard.handle)
            self._works[guard.handle.pointer] = work
        conditions += self._hold(nodes, "guards", _call_guard)
        subscriptions = self._hold(nodes, "subscriptions", _take_message)
        timers = self._hold(nodes, "timers", _call_timer)
        clients = self._hold(nodes, "clients", _take_response)
        services = self._hold(nodes, "services", _take_request)
        self._waitables = [each for node in nodes for each in node.waitables if self._holds(each)]
        handles = subscriptions, conditions, timers, clients, services
        counts = NumberOfEntities(*map(len, handles))
        for waitable in self._waitables:
            counts += waitable.get_num_entities()
        self._held.enter_context(context.handle)
        self._rcl = _rclpy.WaitSet(
            counts.num_subscriptions,
            counts.num_guard_conditions,
            counts.num_timers,
            counts.num_clients,
            counts.num_services,
            counts.num_events,
            context.handle,
        )
        adders = [getattr(self._rcl, name) for name in _ADDERS]
        self._additions = [(add, each) for add, group in zip(adders, handles, strict=True) for each in group]

    def wait(self, timeout_sec: float | None) -> list[Work | None]:
        """Wait, and return what is to be done; None stands for something left to rclpy."""
        self._rcl.clear_entities()
        for add, handle in self._additions:
            add(handle)
        for waitable in self._waitables:
            waitable.add_to_wait_set(self._rcl)
        self._rcl.wait(timeout_sec_to_nsec(timeout_sec))
        works = [self._works.get(each) for kind in _KINDS for each in self._rcl.get_ready_entities(kind)]
        if any(waitable.is_ready(self._rcl) for waitable in self._waitables):
            works.append(None)
        return works

    def close(self) -> None:
        """Allow the entities to be destroyed."""
        self._held.close()

    def _hold(self, nodes: Iterable[Node], kind: str, act: Callable[[Any], None]) -> list[Any]:
        """Return the handles of the entities that still exist, after noting what to do for each."""
        handles = []
        for node in nodes:
            for each in getattr(node, kind):
                if self._holds(each.handle):
                    plain = not inspect.iscoroutinefunction(getattr(each, "callback", None))
                    run = functools.partial(_run, act, each, node)
                    self._works[each.handle.pointer] = run if plain else None
                    handles.append(each.handle)
        return handles

    def _holds(self, destroyable: Any) -> bool:
        try:
            self._held.enter_context(destroyable)
        except InvalidHandle:
            return False
        return True


_MOST_AT_ONCE = 32
"""Requests to one service, or answers to one client, that are taken before others have their turn."""

_MOST_MISSES = 3
"""Takes without an answer after which the queue of a client counts as empty."""

_CALLBACK_TYPES = getattr(Subscription, "CallbackType", None)
_KINDS = ("guard_condition", "timer", "subscription", "client", "service")
"""In order of handling. A wait resets guard conditions, so they come first: if a callback ends the spinning,
the other entities are still ready in the next round."""


def _run(act: Callable[[Any], None], entity: Any, node: Node) -> None:
    """Call `act` unless a callback of the same round has destroyed the entity; report what it raises."""
    with ExitStack() as held:
        try:
            held.enter_context(entity.handle)
        except InvalidHandle:
            return
        try:
            act(entity)
        except Exception as error:
            report([node], source_of(entity), error)


def _call_timer(timer: Timer) -> None:
    if timer.handle.is_timer_ready():  # a callback of the same round may have cancelled it
        timer.handle.call_timer()
        timer.callback()


def _take_message(subscription: Subscription) -> None:
    try:
        taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
    except Exception as error:
        raise UnreadableError(error) from error
    if taken is not None:
        message, info = taken
        # Callbacks may take the info since Iron.
        if getattr(subscription, "_callback_type", None) is getattr(_CALLBACK_TYPES, "WithMessageInfo", ...):
            subscription.callback(message, info)
        else:
            subscription.callback(message)


def _call_guard(guard: GuardCondition) -> None:
    guard.callback()  # for a coroutine rclpy would find the condition no longer triggered


def _take_response(client: Client) -> None:
    """Take the answers that wait, one round for all.

    With Fast DDS a client receives the answers to all clients of its service; taking another's gives nothing,
    as does an empty queue.
    """
    misses = 0
    for _ in range(_MOST_AT_ONCE):
        try:
            header, response = client.handle.take_response(client.srv_type.Response)
        except Exception as error:
            raise UnreadableError(error) from error
        if header is None:
            misses += 1
            if misses == _MOST_MISSES:
                return
            continue
        try:
            future = client.get_pending_request(header.request_id.sequence_number)
        except KeyError:
            continue  # it was cancelled
        future.set_result(response)


def _take_request(service: Service) -> None:
    """Answer the requests that wait, one round for all: a round of its own costs more than most requests."""
    for _ in range(_MOST_AT_ONCE):
        request, header = read_request(service)
        if header is None:
            return
        response = service.srv_type.Response()
        with answering(service, header, request, response):
            service.send_response(service.callback(request, response), header)
