"""How a perception node is doing: its counters, and its entry in /diagnostics."""

from __future__ import annotations

from dataclasses import dataclass, replace

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue


@dataclass
class Counters:
    """What became of the images since the node started."""

    images: int = 0
    """Came in."""
    results: int = 0
    """Were worked on to the end; so many results were published."""
    valid: int = 0
    """Results that say something."""
    limited: int = 0
    """Were left out because of rate_limit."""
    dropped: int = 0
    """Gave way to a newer one while the node was busy or the driver was not there."""
    malformed: int = 0
    """Could not be decoded."""
    failed: int = 0
    """Got no answer from the driver, or an error."""

    def copy(self) -> Counters:
        """Give the numbers of this moment."""
        return replace(self)


def diagnostic(name: str, now: Counters, before: Counters, problems: list[str]) -> DiagnosticStatus:
    """Make the entry of /diagnostics (REP-107) from the counters now and at the last report.

    `problems`: what else is wrong, a line each.
    """
    lines = list(problems)
    if now.images == before.images:
        lines.append("no images")
    if now.malformed > before.malformed:
        lines.append(f"{now.malformed - before.malformed} malformed images")
    if now.failed > before.failed:
        lines.append(f"{now.failed - before.failed} failed inferences")
    if now.dropped > before.dropped:
        lines.append(f"{now.dropped - before.dropped} dropped images")
    return DiagnosticStatus(
        level=DiagnosticStatus.WARN if lines else DiagnosticStatus.OK,
        name=name,
        message="; ".join(lines) or "ok",
        values=[KeyValue(key=key, value=str(value)) for key, value in vars(now).items()],
    )
