"""Timers in real time, which are in step for all nodes of a process, and timers in the time of the graph."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakSet

from rclpy.clock import Clock, ClockType
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.timer import Timer

_timers: WeakSet[Timer] = WeakSet()
_lock = threading.Lock()


def create_steady_timer(node: Node, period: float, callback: Callable[[], None]) -> Timer:
    """Make a timer with a period in seconds of real time, even if the graph runs on simulated time.

    All such timers of the process restart their period when one is made. Those of the same period, or of a
    multiple of it, are due together from then on, and one round of the executor serves them: the five
    perception nodes and the driver take 12 rounds a second instead of 70. Once the node spins, a timer is
    delayed by less than a period, however many are made: the clients of a matrix of many tiles make theirs
    one after another, for seconds.
    """
    timer = node.create_timer(period, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))
    with _lock:
        _timers.add(timer)
        for each in _timers:
            with suppress(InvalidHandle):  # its node was destroyed
                if not each.is_canceled() and (node.executor is None or not _is_due(each)):
                    each.reset()
    return timer


def _is_due(timer: Timer) -> bool:
    """Whether a period has passed since the last call, although the timer may have been reset meanwhile."""
    return bool(timer.time_since_last_call() >= timer.timer_period_ns)


def create_graph_timer(node: Node, period: float, callback: Callable[[], None]) -> Timer:
    """Make a timer, period in s, in simulated time if the node starts with use_sim_time, else in real time.

    A timer on the node's own clock would pause when the system clock is set back, by as much as it was set
    back.
    """
    simulated = node.get_parameter("use_sim_time").value
    clock = node.get_clock() if simulated else Clock(clock_type=ClockType.STEADY_TIME)
    return node.create_timer(period, callback, clock=clock)
