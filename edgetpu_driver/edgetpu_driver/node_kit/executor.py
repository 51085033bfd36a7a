"""A single-threaded executor that keeps what it waits for from one round to the next."""

from __future__ import annotations

import functools
import inspect
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
from rclpy.node import Node
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.task import Task
from rclpy.timer import Timer
from rclpy.utilities import timeout_sec_to_nsec
from rclpy.waitable import NumberOfEntities

Work = Callable[[], None]
"""Takes what an entity is ready with, and calls its callback."""


class StaticSingleThreadedExecutor(SingleThreadedExecutor):
    """Collects what to wait for only when that has changed, as rclcpp's executor of this name does.

    rclpy's own looks through all entities of all nodes in every round, and has two or three rounds for each
    callback. Here only the round that finds coroutines, tasks or events to run is left to it. It triggers its
    guard condition whenever a node or an entity comes or goes, when a task is created, and after every
    callback that it called itself.

    Three things to know: guard conditions of nodes must have plain functions for callbacks, timers such that
    take nothing, and the callback of a client's future must not raise, as rclpy makes no more of that than a
    warning.
    """

    def __init__(self, *, context: Context | None = None) -> None:
        super().__init__(context=context)
        self._wait_set: _WaitSet | None = None
        self._suspended: list[Task] = []
        self._has_new_tasks = False
        self._spinning = threading.RLock()

    def create_task(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Task:
        """Have a function or coroutine run by the thread that spins; see Executor."""
        task = super().create_task(callback, *args, **kwargs)
        # A round of rclpy's that has looked for tasks already may have taken the trigger that came with it.
        self._has_new_tasks = True
        self.wake()
        return task

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Wait once and call back all that is ready, if anything is: something else may end the wait.

        timeout_sec: the longest wait, s; without end if None.
        """
        with self._spinning:
            if self._is_shutdown:
                return
            if not self._context.ok():
                raise ExternalShutdownException
            if self._suspended:
                # It bars other callbacks of its group, which rclpy knows about.
                self._run_one(timeout_sec)
                is_due = not self._suspended
            else:
                is_due = self._has_new_tasks or self._call_ready(timeout_sec)
            if is_due or self._has_new_tasks:
                self._leave_to_base()

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        """End a round under way in another thread, give up what is suspended and let go of the nodes.

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
        """What spin_until_future_complete calls; it has the future wake the executor."""
        self.spin_once(timeout_sec.timeout if isinstance(timeout_sec, TimeoutObject) else timeout_sec)

    def _call_ready(self, timeout_sec: float | None) -> bool:
        """Wait, call back what is ready, and say whether there is something that only rclpy can do."""
        if self._wait_set is None:
            guards = {
                self._guard: self._forget_wait_set,
                # It is triggered by a signal, after which the context is shut down: until it is, do not wait.
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
        """Have rclpy run everything that it finds to run now."""
        self._forget_wait_set()
        self._has_new_tasks = False
        while self._run_one(0.0):
            pass

    def _run_one(self, timeout_sec: float | None) -> bool:
        """Have rclpy wait for something to run, and say whether there was anything."""
        try:
            task, _, _ = self.wait_for_ready_callbacks(timeout_sec)
        except (TimeoutException, ShutdownException):
            return False
        task()
        known = self._suspended if task in self._suspended else [*self._suspended, task]
        self._suspended = [each for each in known if not each.done() and not each.cancelled()]
        if task.done():
            task.result()  # raises what the callback raised
        return True

    def _forget_wait_set(self) -> None:
        if self._wait_set is not None:
            self._wait_set.close()
            self._wait_set = None


class _WaitSet:
    """What some nodes wait for, and what to do about it; nothing of it is destroyed before `close`."""

    def __init__(
        self, nodes: Iterable[Node], guards: Mapping[GuardCondition, Work], context: Context
    ) -> None:
        """`guards`: conditions of the executor's own, and what to do when they end a wait."""
        nodes = list(nodes)
        self._held = ExitStack()
        self._works: dict[int, Work | None] = {}
        """By the address of the entity; None: leave it to rclpy."""
        conditions = []
        for guard, work in guards.items():
            self._held.enter_context(guard.handle)
            conditions.append(guard.handle)
            self._works[guard.handle.pointer] = work
        conditions += self._hold((each for node in nodes for each in node.guards), _call_guard)
        subscriptions = self._hold((each for node in nodes for each in node.subscriptions), _take_message)
        timers = self._hold((each for node in nodes for each in node.timers), _call_timer)
        clients = self._hold((each for node in nodes for each in node.clients), _take_response)
        services = self._hold((each for node in nodes for each in node.services), _take_request)
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
        adders = (
            self._rcl.add_subscription,
            self._rcl.add_guard_condition,
            self._rcl.add_timer,
            self._rcl.add_client,
            self._rcl.add_service,
        )
        self._additions = [(add, each) for add, group in zip(adders, handles, strict=True) for each in group]

    def wait(self, timeout_sec: float | None) -> list[Work | None]:
        """What there is to do when the wait ends; None stands for something that only rclpy can do."""
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
        """Let the entities be destroyed."""
        self._held.close()

    def _hold(self, entities: Iterable[Any], act: Callable[[Any], None]) -> list[Any]:
        """Handles of those entities that still live, after noting what to do about each."""
        living = [each for each in entities if self._holds(each.handle)]
        for each in living:
            plain = not inspect.iscoroutinefunction(getattr(each, "callback", None))
            self._works[each.handle.pointer] = functools.partial(_run, act, each) if plain else None
        return [each.handle for each in living]

    def _holds(self, destroyable: Any) -> bool:
        try:
            self._held.enter_context(destroyable)
        except InvalidHandle:
            return False
        return True


_CALLBACK_TYPES = getattr(Subscription, "CallbackType", None)
_KINDS = ("guard_condition", "timer", "subscription", "client", "service")
"""A wait resets guard conditions, so they come first: what else is ready still is so if a callback raises."""


def _run(act: Callable[[Any], None], entity: Any) -> None:
    """Do it, unless a callback of the same round has destroyed the entity."""
    with ExitStack() as held:
        try:
            held.enter_context(entity.handle)
        except InvalidHandle:
            return
        act(entity)


def _call_timer(timer: Timer) -> None:
    if timer.handle.is_timer_ready():  # a callback of the same round may have cancelled it
        timer.handle.call_timer()
        timer.callback()


def _take_message(subscription: Subscription) -> None:
    taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
    if taken is not None:
        message, info = taken
        # Callbacks may take the info since Iron.
        if getattr(subscription, "_callback_type", None) is getattr(_CALLBACK_TYPES, "WithMessageInfo", ...):
            subscription.callback(message, info)
        else:
            subscription.callback(message)


def _call_guard(guard: GuardCondition) -> None:
    guard.callback()  # rclpy would find a coroutine's condition no longer triggered


def _take_response(client: Client) -> None:
    header, response = client.handle.take_response(client.srv_type.Response)
    if header is None:
        return
    try:
        future = client.get_pending_request(header.request_id.sequence_number)
    except KeyError:
        return  # it was cancelled
    future.set_result(response)


def _take_request(service: Service) -> None:
    request, header = service.handle.service_take_request(service.srv_type.Request)
    if header is not None:
        service.send_response(service.callback(request, service.srv_type.Response()), header)
