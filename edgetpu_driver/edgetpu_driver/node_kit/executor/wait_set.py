"""The entities that an executor waits for, and the handling of those that are ready."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from rclpy.client import Client
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from rclpy.utilities import timeout_sec_to_nsec
from rclpy.waitable import NumberOfEntities

from edgetpu_driver.node_kit.executor.callback_guard import (
    MOST_FOREIGN_ANSWERS,
    UnreadableError,
    answering,
    read_ready_request,
    read_request,
    report,
    source_of,
)
from edgetpu_driver.node_kit.executor.executor_calls import calls_of
from edgetpu_driver.node_kit.executor.large_requests import large_requests_of

Work = Callable[[], None]
"""Takes the data of a ready entity and calls its callback."""

ADDERS = "add_subscription", "add_guard_condition", "add_timer", "add_client", "add_service"
"""Methods of rclpy's wait set."""


class WaitSet:
    """The entities of some nodes and what to do when each is ready; none is destroyed before `close`."""

    def __init__(
        self, nodes: Iterable[Node], guards: Mapping[GuardCondition, Work], context: Context
    ) -> None:
        """`guards`: the executor's own guard conditions, and what to do when they end a wait."""
        nodes = list(nodes)
        self._held = ExitStack()
        self._works: dict[int, Work | None] = {}
        """By the address of the entity; None: left to rclpy."""
        conditions = self._hold_guards(guards) + self._hold(nodes, "guards", _call_guard)
        held = {handle.pointer for handle in conditions}
        self._calls = {
            each: self._works[each.guard.handle.pointer]
            for each in calls_of(nodes)
            if each.guard.handle.pointer in held
        }
        self._called = threading.Event()
        subscriptions = self._hold(nodes, "subscriptions", _take_message)
        timers = self._hold(nodes, "timers", _call_timer)
        clients = self._hold(nodes, "clients", _take_response)
        services = self._hold(nodes, "services", _take_request)
        self._waitables = [each for node in nodes for each in node.waitables if self._holds(each)]
        handles = subscriptions, conditions, timers, clients, services
        self._held.enter_context(context.handle)
        self._rcl = _rcl_wait_set(NumberOfEntities(*map(len, handles)), self._waitables, context)
        adders = [getattr(self._rcl, name) for name in ADDERS]
        additions = [(add, each) for add, group in zip(adders, handles, strict=True) for each in group]
        large = {each.handle: each for node in nodes for each in node.services if large_requests_of(each)}
        self._additions = [each for each in additions if each[1] not in large]
        self._postponable = [(add, each, large[each]) for add, each in additions if each in large]

    def wait(self, timeout_sec: float | None) -> list[Work | None]:
        """Wait, and return the work to do; None for work that is left to rclpy."""
        self._rcl.clear_entities()
        for add, handle in self._additions:
            add(handle)
        for add, handle, service in self._postponable:
            large = large_requests_of(service)
            if large is None or service not in large.postponed:
                add(handle)
        for waitable in self._waitables:
            waitable.add_to_wait_set(self._rcl)
        self._rcl.wait(timeout_sec_to_nsec(timeout_sec))
        works = [self._works.get(each) for kind in _KINDS for each in self._rcl.get_ready_entities(kind)]
        if any(waitable.is_ready(self._rcl) for waitable in self._waitables):
            works.append(None)
        return works

    @contextmanager
    def awake(self) -> Iterator[Iterator[Work | None]]:
        """A round in which the executor need not be woken for calls; yields the work that makes the calls."""
        for each in self._calls:
            each.awake = self._called
        try:
            yield self._calls_waiting()
        finally:
            for each in self._calls:
                each.fall_asleep()

    def _calls_waiting(self) -> Iterator[Work | None]:
        self._await_call()
        for _ in range(_MOST_AT_ONCE):  # calls may add calls
            waiting = [each for each in self._calls if each]
            if not waiting:
                return
            for each in waiting:
                yield self._calls[each]

    def _await_call(self) -> None:
        """Wait for a call that is due soon, unless one waits: that takes less time than a round.

        Only for what the callbacks of this round have asked for, not the calls made after them.
        """
        self._called.clear()
        if not any(self._calls):
            left = max((each.due for each in self._calls), default=0.0) - time.monotonic()
            if left > 0.0:
                self._called.wait(left)

    def close(self) -> None:
        """Allow the entities to be destroyed."""
        self._held.close()

    def _hold_guards(self, guards: Mapping[GuardCondition, Work]) -> list[Any]:
        """Return the handles of the executor's own guard conditions, after noting what to do for each."""
        for guard, work in guards.items():
            self._held.enter_context(guard.handle)
            self._works[guard.handle.pointer] = work
        return [guard.handle for guard in guards]

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


def _rcl_wait_set(counts: NumberOfEntities, waitables: Iterable[Any], context: Context) -> Any:
    """A wait set of rclpy with room for `counts` entities and for those of the waitables."""
    for waitable in waitables:
        counts += waitable.get_num_entities()
    return _rclpy.WaitSet(
        counts.num_subscriptions,
        counts.num_guard_conditions,
        counts.num_timers,
        counts.num_clients,
        counts.num_services,
        counts.num_events,
        context.handle,
    )


_MOST_AT_ONCE = 32
"""Requests to one service, or answers to one client, that are taken before other entities have a turn."""

_MISSES_AFTER_ANSWER = 3
"""Attempts without an answer, after one with an answer, from which the queue counts as empty. It is empty
then unless other clients ask much more often."""

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

    With Fast DDS a client receives the answers to all clients of its service; taking an answer to another
    client gives nothing, as does an empty queue.
    """
    answers, misses, most_misses = 0, 0, MOST_FOREIGN_ANSWERS
    while answers < _MOST_AT_ONCE and misses < most_misses:
        try:
            header, response = client.handle.take_response(client.srv_type.Response)
        except Exception as error:
            raise UnreadableError(error) from error
        if header is None:
            misses += 1
            continue
        answers += 1
        most_misses = min(misses + _MISSES_AFTER_ANSWER, MOST_FOREIGN_ANSWERS)
        try:
            future = client.get_pending_request(header.request_id.sequence_number)
        except KeyError:
            continue  # it was cancelled
        future.set_result(response)


def _take_request(service: Service) -> None:
    """Answer all waiting requests in one round: a round costs more than most requests.

    An unreadable request is counted only if it is the first of a round; a later one looks like an empty
    queue.
    """
    large = large_requests_of(service)
    if large is not None and not large.may_take(service):
        return
    read = read_ready_request
    for _ in range(_MOST_AT_ONCE):
        begin = time.thread_time()
        request, header = read(service)
        read = read_request
        if header is None:
            return
        was_large = large is not None and large.took(service, request, time.thread_time() - begin)
        response = service.srv_type.Response()
        with answering(service, header, request, response):
            service.send_response(service.callback(request, response), header)
        if was_large:
            return
