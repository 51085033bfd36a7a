"""Handlers for a launch file: what happens when one of its processes ends.

Imports `launch`, which only a ROS 2 installation has.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from launch import LaunchContext
from launch.actions import EmitEvent, LogInfo, RegisterEventHandler
from launch.event_handlers import OnProcessExit, OnProcessStart
from launch.events import matches_action
from launch.events.process import ProcessExited, ProcessStarted, ShutdownProcess
from launch.launch_description_entity import LaunchDescriptionEntity
from launch_ros.actions import Node

from edgetpu_driver.node_kit.middleware.fast_dds_memory.killed_processes import (
    clean_up_after_killed_processes,
)
from edgetpu_driver.node_kit.process.respawn_limit import RespawnLimit


def clean_up_after_each_process() -> RegisterEventHandler:
    """Return a handler that cleans up what a killed process has left, at once when it ends.

    Otherwise a node of another package that starts before the next one of the suite would take its ports.
    """
    return RegisterEventHandler(OnProcessExit(on_exit=lambda *_: clean_up_after_killed_processes()))


def give_up_on_failures(processes: Mapping[str, Node]) -> list[RegisterEventHandler]:
    """Return handlers that stop respawning a process which fails soon after each start.

    processes: by their names in the log. See RespawnLimit.
    """
    return [handler for name, process in processes.items() for handler in _handlers(process, name)]


def _handlers(process: Node, name: str) -> list[RegisterEventHandler]:
    limit, start = RespawnLimit(), time.monotonic()

    def started(_event: ProcessStarted, _context: LaunchContext) -> None:
        nonlocal start
        start = time.monotonic()

    def ended(event: ProcessExited, context: LaunchContext) -> list[LaunchDescriptionEntity]:
        reason = limit.refusal(event.returncode, time.monotonic() - start)
        if context.is_shutdown or not reason:
            return []
        return [
            LogInfo(msg=f"{name} is not restarted: {reason}; see its own message above"),
            EmitEvent(event=ShutdownProcess(process_matcher=matches_action(process))),
        ]

    return [
        RegisterEventHandler(OnProcessStart(target_action=process, on_start=started)),
        RegisterEventHandler(OnProcessExit(target_action=process, on_exit=ended)),
    ]


def respawn_delay(text: str) -> float:
    """Return the seconds until a process is started again; RuntimeError for anything but 0.1 or more."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds < float("inf"):
        raise RuntimeError(f"respawn_delay: expected seconds, 0.1 or more; got '{text}'")
    return seconds
