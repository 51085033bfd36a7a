"""The driver's entries in /diagnostics, and the conditions for OK, WARN, ERROR and STALE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from edgetpu_driver.host.host_status import State
from edgetpu_msgs.msg import DeviceStatus
from edgetpu_msgs.msg import StickStatus as StickStatusMessage

_LEVELS = {
    State.ABSENT: DiagnosticStatus.ERROR,
    State.BOOT: DiagnosticStatus.WARN,
    State.STARTING: DiagnosticStatus.WARN,
    State.READY: DiagnosticStatus.OK,
    State.RECOVERING: DiagnosticStatus.WARN,
    State.FAILED: DiagnosticStatus.ERROR,
    State.CLOSED: DiagnosticStatus.STALE,
    State.INACTIVE: DiagnosticStatus.STALE,
}


def diagnostic(status: DeviceStatus, node_name: str, warnings: Sequence[str] = ()) -> DiagnosticStatus:
    """Make the entry of /diagnostics from the device status and other warnings (REP-107)."""
    values = {
        "state": State(status.state).name,
        "backend": status.backend,
        "link speed (Mbit/s)": f"{status.link_speed:g}",
        "firmware": status.firmware,
        "clock preset": status.clock_preset,
        "temperature (degC)": f"{status.temperature:.1f}",
        "thermal warnings": str(status.thermal_warnings),
        "resident models": ", ".join(status.resident_models),
        "SRAM used (bytes)": f"{status.sram_used} of {status.sram_total}",
        "utilisation (%)": f"{100 * status.utilisation:.1f}",
        "latency p50 (ms)": f"{1e3 * status.latency_p50:.3f}",
        "latency p99 (ms)": f"{1e3 * status.latency_p99:.3f}",
        "inferences": str(status.inferences),
        "uploads": str(status.uploads),
        "uploads by model": _uploads(status),
        "retries": str(status.retries),
        "recoveries": str(status.recoveries),
        "dropped": str(status.dropped),
        "waiting": str(status.waiting),
        "expired": str(status.expired),
        "refused": str(status.refused),
    }
    hardware_id = status.serial or status.bus_path or status.backend
    return _entry(status, f"{node_name}: device", hardware_id, warnings, values)


def _uploads(status: DeviceStatus) -> str:
    counts = zip(status.uploaded_models, status.uploads_of_models, strict=True)
    return ", ".join(f"{name} {count}" for name, count in counts)


def stick_warnings(sticks: Iterable[StickStatusMessage]) -> list[str]:
    """The problems of sticks that are in use, one per line."""
    throttled = sum(stick.throttled for stick in sticks)
    wrong = sum(stick.failed_checks for stick in sticks)
    several = f" of {throttled} sticks" if throttled > 1 else ""
    lines = [f"the clock{several} is reduced because of the temperature"] if throttled else []
    return lines + ([f"{wrong} self-checks gave a wrong result"] if wrong else [])


def stick_diagnostic(stick: StickStatusMessage, node_name: str) -> DiagnosticStatus:
    """Make the entry of one of several sticks in /diagnostics (REP-107)."""
    values = {
        "state": State(stick.state).name,
        "bus path": stick.bus_path,
        "link speed (Mbit/s)": f"{stick.link_speed:g}",
        "clock preset": stick.clock_preset,
        "temperature (degC)": f"{stick.temperature:.1f}",
        "resident models": ", ".join(stick.resident_models),
        "SRAM used (bytes)": f"{stick.sram_used} of {stick.sram_total}",
        "waiting": str(stick.waiting),
        "utilisation (%)": f"{100 * stick.utilisation:.1f}",
        "throughput (1/s)": f"{stick.throughput:.1f}",
        "inferences": str(stick.inferences),
        "uploads": str(stick.uploads),
        "uploads avoided": str(stick.uploads_avoided),
        "recoveries": str(stick.recoveries),
        "failed checks": str(stick.failed_checks),
    }
    hardware_id = stick.serial or stick.bus_path
    name = f"{node_name}: stick {hardware_id or 'not there yet'}"
    return _entry(stick, name, hardware_id, stick_warnings([stick]), values)


def _entry(
    status: DeviceStatus | StickStatusMessage,
    name: str,
    hardware_id: str,
    warnings: Sequence[str],
    values: Mapping[str, str],
) -> DiagnosticStatus:
    """An entry of /diagnostics; warnings raise its level from OK to WARN."""
    state = State(status.state)
    level = _LEVELS[state]
    if warnings and level == DiagnosticStatus.OK:
        level = DiagnosticStatus.WARN
    return DiagnosticStatus(
        level=level,
        name=name,
        message="; ".join([status.message or state.name.lower(), *warnings]),
        hardware_id=hardware_id,
        values=[KeyValue(key=key, value=value) for key, value in values.items()],
    )
