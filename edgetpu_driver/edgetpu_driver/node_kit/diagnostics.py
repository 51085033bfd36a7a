"""Diagnostics of a node (REP-107): its counters, and its entry in /diagnostics once a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from edgetpu_driver.node_kit.executor.steady_timers import create_steady_timer
from edgetpu_driver.node_kit.printable_text import counted, one_line

DIAGNOSTICS_PERIOD = 1.0
"""Period of /diagnostics, s; REP-107 asks for 1 Hz."""


@dataclass
class Counters:
    """Counters of the messages since the node started, and what was wrong with the last bad one."""

    received: int = 0
    results: int = 0
    """Number of published results."""
    dropped: int = 0
    """Number of messages replaced by newer ones while the node was busy or the driver was unavailable."""
    malformed: int = 0
    """Number of messages with unexpected content."""
    last_malformed: str = ""
    """What was wrong with the last one of them."""
    failed: int = 0
    """Requests that the driver refused or did not answer, and results that could not be computed."""
    unreadable: int = 0
    """Number of messages, requests and answers that could not be deserialised."""
    errors: int = 0
    """Number of unexpected exceptions that callbacks raised."""

    def count_malformed(self, fault: str) -> None:
        """Count a message with unexpected content; fault: what was expected and what came."""
        self.malformed += 1
        self.last_malformed = fault


@dataclass
class ImageCounters(Counters):
    """Counters of the images since the node started."""

    valid: int = 0
    """Number of valid results."""
    limited: int = 0
    """Number of images skipped because of rate_limit."""
    lost: int = 0
    """Number of images that the camera has sent and that did not arrive."""


class CounterDiagnostic:
    """Makes a node's entry of /diagnostics from its counters since the last one."""

    def __init__(self, node_name: str, subject: str) -> None:
        """`node_name`: without the leading slash. `subject`: what the node counts, in the plural."""
        self._node_name = node_name
        self._subject = subject
        self._last = Counters()
        self._failures = FailureDiagnostic()

    def status(
        self, counters: Counters, problems: Iterable[str], *, needs_user: bool = False
    ) -> DiagnosticStatus:
        """Warn of `problems`, of silence and of what was lost since the last call; list all counters.

        needs_user: whether a problem is an error, which remains until a user changes something. Silence is
        not mentioned then.
        """
        subject, last, self._last = self._subject, self._last, replace(counters)
        lines = list(problems)
        if counters.received == last.received and not needs_user:
            lines.append(f"no {subject}")
        noun = subject.removesuffix("s")
        if count := counters.malformed - last.malformed:
            the_last = ", the last" if count > 1 else ""
            lines.append(f"{counted(count, f'malformed {noun}')}{the_last}: {counters.last_malformed}")
        if count := counters.failed - last.failed:
            lines.append(counted(count, "failed inference"))
        if count := counters.dropped - last.dropped:
            lines.append(counted(count, f"dropped {noun}"))
        lines += self._failures.lines(counters)
        level = DiagnosticStatus.WARN if lines else DiagnosticStatus.OK
        return DiagnosticStatus(
            level=DiagnosticStatus.ERROR if needs_user else level,
            name=f"{self._node_name}: {subject}",
            message="; ".join(lines) or "ok",
            values=[
                KeyValue(key=subject if key == "received" else key, value=str(value))
                for key, value in vars(counters).items()
                if isinstance(value, int)
            ],
        )


class FailureDiagnostic:
    """Reports unreadable messages and exceptions of callbacks; every node has this in its entry."""

    def __init__(self) -> None:
        self._last = Counters()

    def lines(self, counters: Counters) -> list[str]:
        """Return the events since the last call, a line each."""
        last, self._last = self._last, replace(counters)
        lines = []
        if count := counters.unreadable - last.unreadable:
            lines.append(
                "1 unreadable message or request"
                if count == 1
                else f"{count} unreadable messages or requests"
            )
        if count := counters.errors - last.errors:
            lines.append(counted(count, "unexpected error"))
        return lines

    def values(self, counters: Counters) -> list[KeyValue]:
        """Return the numbers since the node started."""
        return [KeyValue(key=key, value=str(vars(counters)[key])) for key in ("unreadable", "errors")]


def publish_diagnostics(node: Node, entries: Callable[[], Sequence[DiagnosticStatus]]) -> None:
    """Start to publish a node's entries of /diagnostics, every DIAGNOSTICS_PERIOD of real time."""
    publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 1)

    def publish() -> None:
        array = DiagnosticArray(status=entries())
        for entry in array.status:
            entry.message = one_line(entry.message)
            for pair in entry.values:
                pair.value = one_line(pair.value)
        array.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(array)

    create_steady_timer(node, DIAGNOSTICS_PERIOD, publish)
