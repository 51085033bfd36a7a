"""Convert the state of the driver to messages: device status, diagnostics, model information."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from edgetpu_driver.backends.backend import Placement, Readings, RegisterValue
from edgetpu_driver.host.host_status import HostStatus, State, StickStatus
from edgetpu_driver.host.hosted_model import HostedModel
from edgetpu_driver.node_kit.one_line import one_line
from edgetpu_driver.node_kit.tensor_messages import spec_to_message
from edgetpu_driver.tflite.model_reader import EDGETPU_CUSTOM_OP
from edgetpu_msgs.msg import DeviceStatus, ModelInfo, ModelPart, Register
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


def device_status(status: HostStatus, backend: str, stamp: Time) -> DeviceStatus:
    """Make the message of ~/status."""
    readings, period = status.readings, status.period
    return DeviceStatus(
        stamp=stamp,
        state=int(status.state),
        message=one_line(status.status_message),
        backend=backend,
        firmware=readings.firmware,
        resident_models=list(status.resident),
        utilisation=period.utilisation,
        inferences=status.inferences,
        bytes_sent=readings.bytes_sent,
        bytes_received=readings.bytes_received,
        retries=readings.retries,
        recoveries=status.recoveries,
        dropped=status.dropped,
        thermal_warnings=readings.thermal_warnings,
        latency_p50=period.latency_p50,
        latency_p99=period.latency_p99,
        waiting=status.waiting,
        expired=status.expired,
        refused=status.refused,
        sticks=[_stick_status(stick) for stick in status.sticks],
        uploaded_models=list(status.uploads),
        uploads_of_models=list(status.uploads.values()),
        **_fields_of_readings(readings),
    )


def _stick_status(stick: StickStatus) -> StickStatusMessage:
    return StickStatusMessage(
        state=int(stick.state),
        message=one_line(stick.status_message),
        throttled=stick.throttled,
        resident_models=list(stick.resident),
        waiting=stick.waiting,
        utilisation=stick.utilisation,
        throughput=stick.throughput,
        inferences=stick.inferences,
        uploads_avoided=stick.uploads_avoided,
        recoveries=stick.recoveries,
        failed_checks=stick.failed_checks,
        **_fields_of_readings(stick.readings),
    )


def _fields_of_readings(readings: Readings) -> dict[str, Any]:
    """The fields that DeviceStatus and StickStatus have in common, as read from the device."""
    return {
        "serial": readings.serial,
        "bus_path": readings.bus_path,
        "link_speed": readings.link_speed,
        "clock_preset": readings.clock_preset,
        "temperature": readings.temperature,
        "sram_used": readings.sram_used,
        "sram_total": readings.sram_total,
        "uploads": readings.uploads,
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
    """What is wrong with sticks that are in use, a line each."""
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
    """An entry of /diagnostics, whose level warnings raise to WARN."""
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


def loaded_model_info(model: HostedModel) -> ModelInfo:
    """Describe a model to the client that loads it, with its files without weights."""
    info = model_info(model)
    info.files_without_weights = array("B", model.files_without_weights)
    return info


def model_info(model: HostedModel) -> ModelInfo:
    """Describe a model that is loaded, or on its way."""
    return ModelInfo(
        name=model.name,
        path=str(model.path),
        sha256=model.sha256,
        placement=int(model.placement),
        parameter_bytes=model.parameter_bytes,
        caching_token=model.caching_token,
        weights_version=model.weights_version,
        resident=model.resident,
        inputs=[spec_to_message(spec) for spec in model.inputs],
        outputs=[spec_to_message(spec) for spec in model.outputs],
        state=int(model.state),
        message=one_line(model.message or model.unsupported_reason),
        owner=model.owner,
        shared=model.shared,
        sticks=list(model.sticks),
        paths=[str(path) for path in model.paths],
        uploads=model.uploads,
        parts=[_model_part(part) for part in model.parts or (model,)],
    )


def _model_part(part: HostedModel) -> ModelPart:
    on_edge_tpu = part.on_device and part.placement is not Placement.HOST
    return ModelPart(
        device=ModelPart.EDGE_TPU if on_edge_tpu else ModelPart.CPU,
        operators=list(part.operators) or ([EDGETPU_CUSTOM_OP] if on_edge_tpu else []),
        inputs=[spec_to_message(spec) for spec in part.inputs],
        outputs=[spec_to_message(spec) for spec in part.outputs],
        parameter_bytes=part.parameter_bytes,
        resident=part.resident,
        sticks=list(part.sticks) if on_edge_tpu else [],
        uploads=part.uploads,
    )


def register_messages(registers: Iterable[RegisterValue]) -> list[Register]:
    """List registers with their values."""
    return [Register(name=r.name, address=r.address, value=r.value, bus_path=r.bus_path) for r in registers]
