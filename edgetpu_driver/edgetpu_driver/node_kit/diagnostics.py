"""Diagnostics of a node (REP-107): what it counts, and its entry of /diagnostics once a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node

DIAGNOSTICS_PERIOD = 1.0
"""Seconds; REP-107 asks for 1 Hz."""


@dataclass
class Counters:
    """What happened to the messages since the node started."""

    received: int = 0
    results: int = 0
    """Results published."""
    dropped: int = 0
    """Replaced by newer messages while the node was busy or the driver was unavailable."""
    malformed: int = 0
    """Messages whose content was not as expected."""
    failed: int = 0
    """Requests that the driver refused or did not answer, and results that could not be computed."""


class CounterDiagnostic:
    """Makes a node's entry of /diagnostics from what it counted since the last one."""

    def __init__(self, node_name: str, subject: str) -> None:
        """`node_name`: without the leading slash. `subject`: what the node counts, in the plural."""
        self._node_name = node_name
        self._subject = subject
        self._last = Counters()

    def status(self, counters: Counters, problems: Iterable[str]) -> DiagnosticStatus:
        """Warn of `problems`, of silence and of what was lost since the last call; list all counters."""
        subject, last, self._last = self._subject, self._last, replace(counters)
        lines = list(problems)
        if counters.received == last.received:
            lines.append(f"no {subject}")
        for count, what in (
            (counters.malformed - last.malformed, f"malformed {subject}"),
            (counters.failed - last.failed, "failed inferences"),
            (counters.dropped - last.dropped, f"dropped {subject}"),
        ):
            if count:
                lines.append(f"{count} {what}")
        return DiagnosticStatus(
            level=DiagnosticStatus.WARN if lines else DiagnosticStatus.OK,
            name=f"{self._node_name}: {subject}",
            message="; ".join(lines) or "ok",
            values=[
                KeyValue(key=subject if key == "received" else key, value=str(value))
                for key, value in vars(counters).items()
            ],
        )


def publish_diagnostics(node: Node, status: Callable[[], DiagnosticStatus]) -> None:
    """Publish a node's entry of /diagnostics in every period of real time from now on."""
    publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 1)

    def publish() -> None:
        array = DiagnosticArray(status=[status()])
        array.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(array)

    node.create_timer(DIAGNOSTICS_PERIOD, publish, clock=Clock(clock_type=ClockType.STEADY_TIME))
