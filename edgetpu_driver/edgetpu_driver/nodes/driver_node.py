"""The driver node: it owns one or several accelerators and runs the models of all nodes of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.exceptions import InvalidHandle
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import QoSProfile

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.backends.factory import ALL_DEVICES, MoreSticks, make_backend, make_backends
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.errors import EdgeTpuError, UnavailableError
from edgetpu_driver.files.detached_reading import DetachedReading
from edgetpu_driver.host.host_status import UNCONFIGURED, State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.sticks.model_spreading import Spreading
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.clients import local_drivers
from edgetpu_driver.node_kit.diagnostics import FailureDiagnostic
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_LATCHED
from edgetpu_driver.node_kit.printable_text import one_line
from edgetpu_driver.node_kit.process import stop_request
from edgetpu_driver.node_kit.process.spin import settle_memory_again
from edgetpu_driver.node_kit.process.stop_request import StopRequestedError
from edgetpu_driver.nodes.device_status_messages import device_status
from edgetpu_driver.nodes.driver_diagnostics import diagnostic, stick_diagnostic, stick_warnings
from edgetpu_driver.nodes.driver_parameters import SETTINGS, client_limits, default_firmware
from edgetpu_driver.nodes.driver_services import DriverServices
from edgetpu_driver.nodes.lifecycle_services import create_lifecycle_services, left_to_rcl
from edgetpu_msgs.msg import DeviceStatus

LONGEST_LOAD = 60.0
"""Time limit, s, for finding and loading each model of the parameter `models` at start, while no callback is
called. Chosen: several times what reading a file of LARGEST_MODEL from a slow card takes. Without a limit, a
directory on a network file system that does not answer would block the driver for ever."""

CLOSE_SECONDS = 2.0
"""Time, s, that devices have to end their work when the node is cleaned up, while no callback is called.
Derived: together with HEARTBEAT_PERIOD, less than HEARTBEAT_LEASE. A USB transfer that hangs takes 6 s, and
ends later."""

END_SECONDS = 10.0
"""The same when the node ends. A process that is stopped ends sooner, after STOP_DEADLINE."""

OVERDUE_PERIOD = 1.0
"""Seconds by which the answer to a request that has waited for `max_wait` may be late while the device hangs.
The same as the default of `status_period`, so that one round of the executor serves both timers."""

Transition = Callable[["DriverNode", LifecycleState], TransitionCallbackReturn]


def _reported(transition: Transition) -> Transition:
    """Log an exception of a transition, because rclpy turns it into an error without a message."""

    @functools.wraps(transition)
    def callback(node: DriverNode, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            return transition(node, state)
        except Exception as error:
            node.on_callback_failure(transition.__name__, error)
            raise

    return callback


class DriverNode(BaseNode, LifecycleNode):
    """Owns accelerators. Configuring it loads models and looks for devices; activating it serves the models.

    Unless `autostart` is false the node configures and activates itself.
    """

    settings = SETTINGS
    ignores_common_parameters = True

    def __init__(self, **options: Any) -> None:
        super().__init__("edgetpu", enable_communication_interface=left_to_rcl(), **options)
        self._host: ModelHost | None = None
        self._lifecycle = "unconfigured"
        self._problem = ""
        self._stop: StopRequestedError | None = None
        """Why no models are loaded any more; None if they are."""
        self._starting = False
        self._has_rivals = False
        self._failures = FailureDiagnostic()
        self._logged: tuple[State, str] | None = None
        with self.destroyed_on_error():
            self._create_interfaces()
            if self.values["autostart"]:
                self._start()

    def _create_interfaces(self) -> None:
        self._status_publisher = self.create_publisher(DeviceStatus, "~/status", QOS_LATCHED)
        qos = QoSProfile(depth=self.values["service_depth"])
        self._interface = DriverServices(self, self, qos)
        if not left_to_rcl():
            create_lifecycle_services(self, qos)
        period = self.values["status_period"]
        self.create_steady_timer(period, self._on_status_timer)
        self.create_steady_timer(min(period, OVERDUE_PERIOD), self._on_overdue_timer)
        self.start_diagnostics()
        # Lets other threads have `_on_changed` called by the executor.
        self._changed = self.create_guard_condition(self._on_changed)
        local_drivers.register(self.get_fully_qualified_name(), self)

    def _start(self) -> None:
        success = TransitionCallbackReturn.SUCCESS
        self._starting = True
        if self.trigger_configure() != success or self.trigger_activate() != success:
            if self._stop is not None:
                raise self._stop
            raise FatalError(self._problem or "cannot configure: an unexpected error, see above")
        self._starting = False

    @_reported
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the models of the `models` parameter and start to look for the device."""
        try:
            host = self._make_host()
        except EdgeTpuError as error:
            self._problem = f"cannot configure: {error}"
            host = None
        except StopRequestedError as stop:
            self._stop = stop
            return TransitionCallbackReturn.FAILURE
        if host is None:
            if not self._starting:
                self.get_logger().error(self._problem)
                settle_memory_again()  # also the processes of the graphs that were loaded before
            return TransitionCallbackReturn.FAILURE
        values = self.values
        self._host = host
        host.start(wait_timeout=values["wait_for_device_timeout"], refresh_period=values["status_period"])
        self._lifecycle = "inactive"
        return super().on_configure(state)

    def _make_host(self) -> ModelHost:
        """Make the host of the devices, and load the models. Raises EdgeTpuError, StopRequestedError."""
        values, backends = self.values, self.make_backends()
        host = ModelHost(
            backends,
            values["model_dirs"],
            self._notify,
            client_limits(values),
            spreading=Spreading(values["spreading"]),
            self_check_period=values["self_check_period"],
            find_more=self.find_more(backends),
            process_limits=self._process_limits(),
            share_inferences=values["share_inferences"],
            report=lambda line: self.get_logger().info(one_line(line)),
        )
        try:
            for model in values["models"]:
                segments = [segment.strip() for segment in model.split(",")]
                load = functools.partial(host.load, segments if len(segments) > 1 else segments[0])
                text = f"model '{model}' is not loaded after {LONGEST_LOAD:g} s; do model_dirs answer?"
                late = functools.partial(UnavailableError, text)
                self._warn_of(DetachedReading(load, late, LONGEST_LOAD).result(stop_request.future()))
        except BaseException:
            host.end(CLOSE_SECONDS)  # its threads refer to the processes of graphs
            raise
        return host

    def make_backends(self) -> list[Backend]:
        """Make the backends of the devices that the parameters name. Raises EdgeTpuError."""
        values, options = self.values, self._backend_options()
        if values["devices"]:
            return make_backends(values["backend"], values["devices"], **options)
        one = {"serial": values["serial"], "bus_path": values["bus_path"]}
        return [make_backend(values["backend"], **one, **options)]

    def find_more(self, backends: Sequence[Backend]) -> MoreSticks | None:
        """Return an object that makes backends for sticks plugged in later; None if they are not wanted.

        backends: the existing ones.
        """
        if self.values["backend"] == "usb" and list(self.values["devices"]) == [ALL_DEVICES]:
            return MoreSticks(backends, **self._backend_options())
        return None

    def _backend_options(self) -> dict[str, Any]:
        values = self.values
        return {
            "firmware": values["firmware"] or default_firmware(),
            "preset": values["performance"],
            "limits": self._process_limits(),
        }

    def _process_limits(self) -> ProcessLimits:
        values = self.values
        return ProcessLimits(
            memory=values["litert_memory"] << 20,
            load_seconds=values["litert_load_timeout"],
            run_seconds=values["litert_run_timeout"],
        )

    @_reported
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start to answer requests."""
        self._lifecycle = "active"
        self.publish_status()
        return super().on_activate(state)

    @_reported
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start to refuse requests."""
        self._lifecycle = "inactive"
        self.publish_status()
        return super().on_deactivate(state)

    @_reported
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the device and unload all models."""
        self._release("unconfigured")
        settle_memory_again()  # the parts of a host refer to each other
        return super().on_cleanup(state)

    @_reported
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the device for the last time."""
        self._release("finalized")
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the device after a transition that raised."""
        self._release("unconfigured")
        return super().on_error(state)

    def destroy_node(self) -> None:
        """Close the device and leave the graph."""
        local_drivers.unregister(self.get_fully_qualified_name(), self)
        self._release("finalized", END_SECONDS)
        super().destroy_node()

    def _release(self, lifecycle: str, seconds: float = CLOSE_SECONDS) -> None:
        self._lifecycle = lifecycle
        host, self._host = self._host, None
        if host is not None:
            host.end(seconds)
            if not all(stick.state is State.CLOSED for stick in host.status().sticks):
                self.get_logger().warning(
                    f"a device is still busy {seconds:g} s after it was asked to close; it closes "
                    f"when its work ends"
                )
            self.publish_status()

    def submit_load(
        self,
        model: str | Sequence[str],
        name: str = "",
        done: Callable[[HostedModel | EdgeTpuError], None] = lambda _: None,
        *,
        client: str = "",
        shared: bool = False,
    ) -> HostedModel:
        """Begin to load a model; see ModelHost. UnavailableError unless the node is active."""

        def loaded(outcome: HostedModel | EdgeTpuError) -> None:
            if isinstance(outcome, HostedModel):
                self._warn_of(outcome)
            self.publish_status()
            done(outcome)

        return self.active_host().submit_load(model, name, loaded, client=client, shared=shared)

    def _warn_of(self, model: HostedModel) -> None:
        reason = model.unsupported_reason
        if reason:
            line = f"model '{model.name}' is loaded, but it cannot run here: {reason}"
            self.get_logger().warning(one_line(line))

    def active_host(self) -> ModelHost:
        """Return the host that runs the models; UnavailableError unless the node is active."""
        if self._host is None or self._lifecycle != "active":
            name = self.get_fully_qualified_name()
            raise UnavailableError(f"{name} is {self._lifecycle}; expected it to be active")
        return self._host

    def _notify(self) -> None:
        """Called from any thread when the host's state has changed or it stops waiting for a device.

        The status is published here, because the state may have ended before the executor has time for it.
        Nothing is raised, because the host's thread must continue.
        """
        try:
            self.publish_status()
            host = self._host
            if host is not None:
                self._log_state(host)
            self._changed.trigger()
        except InvalidHandle:
            pass  # the node is being destroyed
        except Exception as error:
            self.on_callback_failure("change of the device", error)

    def _on_changed(self) -> None:
        host = self._host
        if host is not None and host.gave_up:
            timeout = self.values["wait_for_device_timeout"]
            raise FatalError(
                f"no device after {timeout:g} s (wait_for_device_timeout): {host.status_message}"
            )

    def _log_state(self, host: ModelHost) -> None:
        state, message = host.state, host.status_message
        if (state, message) == self._logged:
            return
        self._logged = (state, message)
        text = f"{self.values['backend']} device {state.name.lower()}{': ' if message else ''}{message}"
        text = one_line(text)
        if state in (State.READY, State.STARTING):
            self.get_logger().info(text)
        else:
            self.get_logger().warning(text)

    def _on_status_timer(self) -> None:
        if self._host is not None:
            self._host.end_period()
        self.publish_status()

    def _on_overdue_timer(self) -> None:
        if self._host is not None:
            self._host.answer_overdue()
        self._interface.answer_overdue(self.values["max_wait"])

    def status(self) -> DeviceStatus:
        """Make the message of ~/status."""
        host = self._host
        status = UNCONFIGURED if host is None else host.status()
        if self._lifecycle == "inactive" and status.state is State.READY:
            # Clients with a list of drivers use the first that is ready.
            message = f"{self.full_name} is inactive: activate it to have requests answered"
            status = replace(status, state=State.INACTIVE, status_message=message)
        return device_status(status, self.values["backend"], self.get_clock().now().to_msg())

    def publish_status(self) -> None:
        """Publish ~/status now; may be called by any thread, without effect once the node is destroyed."""
        with suppress(InvalidHandle):
            self._status_publisher.publish(self.status())

    def diagnostics(self) -> list[DiagnosticStatus]:
        """Make an entry of /diagnostics for the driver, and one for each stick if there are several."""
        sticks = self.status().sticks
        each = sticks if len(sticks) > 1 else ()
        return [self.diagnostic(), *(stick_diagnostic(stick, self.full_name) for stick in each)]

    def diagnostic(self) -> DiagnosticStatus:
        """Make the entry of /diagnostics from the state of the device, or of the devices as a whole."""
        status = self.status()
        warnings = [self._rivals()]
        if self._host is not None and self._host.status().readings.warm:
            warnings.append("the chip warns of its temperature")
        warnings += stick_warnings(status.sticks)
        warnings += self._failures.lines(self.counters)
        entry = diagnostic(status, self.full_name, [warning for warning in warnings if warning])
        entry.values += self._failures.values(self.counters)
        return entry

    def _rivals(self) -> str:
        """Return a warning if other drivers have this name, because any of them may answer a request."""
        topic = self._status_publisher.topic_name
        drivers = sum(
            publisher.topic_type == "edgetpu_msgs/msg/DeviceStatus"
            for publisher in self.get_publishers_info_by_topic(topic)
        )
        rivals = ""
        if drivers > 1:
            rivals = (
                f"{drivers} drivers are called {self.get_fully_qualified_name()}; give each its own name or "
                "namespace (one that was killed counts for some seconds)"
            )
            if not self._has_rivals:
                self.get_logger().warning(rivals)
        self._has_rivals = bool(rivals)
        return rivals
