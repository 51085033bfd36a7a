"""The base class of nodes whose commands come from a network on the stick."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.exceptions import InvalidTopicNameException
from std_msgs.msg import Float64MultiArray

from edgetpu_control.learned.network import Array, Network, load_network
from edgetpu_control.learned.quantised_network import QuantisedNetwork
from edgetpu_control.nodes.control_parameters import (
    STAMPED,
    deadband,
    deadband_settings,
    limit_settings,
    live,
    velocity_limits,
)
from edgetpu_control.nodes.message_age import is_timely, stamp_of
from edgetpu_control.nodes.network_on_driver import NetworkOnDriver
from edgetpu_control.nodes.velocity_publisher import QOS_COMMANDS, VelocityPublisher
from edgetpu_control.observation import ObservationBuffer, ObservedFields, parse_fields
from edgetpu_control.velocity import Velocity
from edgetpu_control.velocity_follower import VelocityFollower
from edgetpu_driver.errors import InputError
from edgetpu_driver.files.file_access import user_path
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.clients.client_state import ClientClosedError
from edgetpu_driver.node_kit.clients.driver_choice import DRIVER_SETTING
from edgetpu_driver.node_kit.dense_graph_files import MODEL_DIR
from edgetpu_driver.node_kit.executor.steady_timers import create_graph_timer
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.messages.message_types import message_type
from edgetpu_driver.node_kit.middleware.qos_profiles import subscription_qos
from edgetpu_driver.node_kit.parameters import QOS_RELIABILITY, Setting, merge_settings
from edgetpu_driver.node_kit.silent_topic import SilentTopics
from edgetpu_matrix.nodes.signal_fields import SignalReader


def network_control_settings(*own: Setting) -> tuple[Setting, ...]:
    """Return the parameters of every node of this kind, and those of one node."""
    return merge_settings(
        (
            DRIVER_SETTING,
            MODEL_DIR,
            Setting(
                "observations",
                "observation std_msgs/msg/Float32MultiArray data",
                "Sources of the observation in order, separated by semicolons: topic, type, and fields "
                "separated by commas. Each message of the first makes a command.",
            ),
            Setting(
                "twist",
                False,
                "Also publish commands as velocities: linear x, m/s, and angular z, rad/s.",
            ),
            *STAMPED,
            Setting("rate", 30.0, "Velocities published per second, Hz.", 1.0, 1000.0),
            *limit_settings(),
            *deadband_settings(0.01, 0.01),
            live(
                "timeout",
                0.25,
                "Age from which messages are not used, by their stamp if they have one, and time without "
                "a command after which the robot is stopped, s.",
                0.01,
                10.0,
            ),
            QOS_RELIABILITY,
            Setting("qos_depth", 1, "Queue depth of the subscriptions, messages.", 1, 10000),
        ),
        own,
    )


class NetworkControlNode(BaseNode):
    """Passes the newest observation to a network; a subclass makes the command.

    A subclass calls `super().__init__(name)`, then `start`.
    """

    settings: ClassVar[tuple[Setting, ...]] = network_control_settings()
    subject: ClassVar[str] = "observations"
    file_parameter: ClassVar[str]
    """Parameter that names the file of the network."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.server = NetworkOnDriver(self, self.quantised, self.advance)
        self._waits = False
        """Whether there is an observation from which no command was computed yet."""
        self._observed_at = math.inf
        """Time in s of the oldest numbers from which the present command is computed."""
        self._velocities: VelocityPublisher | None = None
        self._sources = SilentTopics(self, self.subject)
        self._follower = VelocityFollower(velocity_limits(self.values), self.values["timeout"])

    @abstractmethod
    def quantised(self, network: Network) -> QuantisedNetwork:
        """Quantise a network; called in a separate thread."""

    @abstractmethod
    def checked(self, network: Network) -> Network:
        """Return the network; InputError if it does not suit the parameters."""

    @abstractmethod
    def observation_size(self) -> int:
        """Return the size of an observation; called once a network is loaded."""

    @abstractmethod
    def command(self, observation: Array) -> None:
        """Start to make a command, and call `advance` when another one can be made."""

    @property
    def free(self) -> bool:
        """Whether a command can be started now."""
        return self.server.ready

    def start(self) -> None:
        """Subscribe, and make commands from now on; FatalError for parameters that cannot be used."""
        try:
            sources = [parse_fields(each) for each in self.values["observations"].split(";")]
        except InputError as error:
            raise FatalError(f"parameter observations of {self.full_name}: {error}") from None
        self._topics = [each.topic for each in sources]
        self._buffer = ObservationBuffer(len(sources), self.values["timeout"])
        self._commands = self.create_publisher(Float64MultiArray, "~/command", QOS_COMMANDS)
        if self.values["twist"]:
            self._velocities = VelocityPublisher(self, "~/cmd_vel")
            create_graph_timer(self, 1 / self.values["rate"], self._drive)
        self.server.create_clients()
        if self.values[self.file_parameter]:
            try:
                self._replace(self.values[self.file_parameter])
            except InputError as error:
                raise FatalError(f"parameter {self.file_parameter} of {self.full_name}: {error}") from None
        else:
            self.get_logger().info(f"no network yet: set parameter {self.file_parameter} to its file, .npz")
        try:
            for number, source in enumerate(sources):
                self._subscribe(number, source)
        except InvalidTopicNameException as error:
            reason = " ".join(str(error).split()[:-1])  # without the caret that points to the place
            raise FatalError(f"parameter observations of {self.full_name}: {reason}") from None
        self.start_diagnostics()

    def refuse_parameter(self, name: str, values: Mapping[str, Any]) -> str | None:
        """Refuse a file without a suitable network."""
        if name == self.file_parameter and values[name]:
            try:
                self.checked(load_network(user_path(values[name])))
            except InputError as error:
                return str(error)
        return super().refuse_parameter(name, values)

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply a new value; a new network is used once the driver has loaded it."""
        super().on_parameter(name, value)
        if name == self.file_parameter:
            if value:
                self._replace(value)  # refused if the file has changed since it was checked
            else:
                self.server.remove()
        if name == "timeout":
            self._buffer.timeout = self._follower.timeout = value
        self._follower.limits = velocity_limits(self.values)

    def problems(self) -> list[str]:
        """Return what keeps this node from making commands."""
        missing = ", ".join(self.resolve_topic_name(self._topics[n]) for n in self._buffer.missing(self.now))
        late = f"no recent numbers on {missing}" if missing else ""
        return [each for each in (self.server.problem, late) if each]

    def diagnostic(self) -> DiagnosticStatus:
        """Add the error due to 8 bits in each layer to the node's entry of /diagnostics."""
        status = super().diagnostic()
        network = self.server.network
        if network is not None:
            status.values = [
                *status.values,
                *(
                    KeyValue(
                        key=f"error of layer {n}", value=f"{each.own:.4f} alone, {each.total:.4f} in all"
                    )
                    for n, each in enumerate(network.layer_errors, 1)
                ),
            ]
        return status

    def on_stop(self) -> None:
        """Stop the robot, which may keep its last velocity until it gets another."""
        if self._velocities is not None:
            self._velocities.stop()

    def destroy_node(self) -> None:
        """Stop the robot, abandon the pending request and leave the graph."""
        if self._velocities is not None:
            self._velocities.stop_finally()
        self.server.close()
        super().destroy_node()

    def advance(self) -> None:
        """Make a command from the newest observation, if one waits and no command is being made."""
        if not self._waits or not self.free:
            return
        self._waits = False
        observation = self._buffer.observation(self.now)
        if observation is None:  # it has become too old
            self.counters.dropped += 1
            return
        self._observed_at = self._buffer.oldest
        expected = self.observation_size()
        if observation.size == expected:
            self.command(observation)
            return
        fault = f"expected {expected} numbers; got {observation.size}"
        self.skip_malformed((expected, observation.size), fault, "observation")

    def publish_command(self, command: Array) -> None:
        """Publish a command, float64[m]."""
        self._commands.publish(Float64MultiArray(data=command.tolist()))
        if self._velocities is not None:
            self._follow(Velocity(float(command[0]), float(command[1])))
        self.counters.results += 1

    def fail(self, error: Exception | None) -> None:
        """Count a request that the driver refused or did not answer; log it."""
        if isinstance(error, ClientClosedError):  # the node ends, or its network was removed
            return
        self.counters.failed += 1
        self.get_logger().warning(f"no command: {error}", throttle_duration_sec=5.0)

    def _replace(self, file: str) -> None:
        """Replace the network by that of a file; InputError if it does not suit."""
        self.server.replace(self.checked(load_network(user_path(file))))

    def _subscribe(self, number: int, source: ObservedFields) -> None:
        kind = message_type(source.message_type)
        reader = SignalReader(kind, source.fields)

        def on_message(message: Any) -> None:
            arrivals.received += 1
            self.counters.received += number == 0
            stamp = stamp_of(message)
            age = self.now - stamp if stamp else 0.0
            if not is_timely(self, source.topic, age):
                return
            if not getattr(message, "valid", True):
                self.counters.dropped += 1
                return
            try:
                self._buffer.put(number, reader.values(message), self.now - max(age, 0.0))
            except ValueError as error:  # InputError is one
                message_on = f"message on {self.resolve_topic_name(source.topic)}"
                self.skip_malformed((number, type(error)), str(error), message_on)
                return
            if number == 0:
                self._observe()

        subscription = self.create_subscription(kind, source.topic, on_message, subscription_qos(self.values))
        arrivals = self._sources.watch(subscription.topic_name)

    def _observe(self) -> None:
        if self._buffer.missing(self.now):
            self.counters.dropped += 1
            return
        self.counters.dropped += self._waits  # only the newest counts
        self._waits = True
        self.advance()

    def _follow(self, velocity: Velocity) -> None:
        """Follow a command until its observation is older than `timeout`."""
        now, timeout = self.now, self.values["timeout"]
        age = max(now - self._observed_at, 0.0)
        if age > timeout:
            self.counters.failed += 1
            self.report_once(
                "late", f"command not followed: its observation is {age:.2f} s old; timeout is {timeout:g} s"
            )
            return
        try:
            self._follower.command(deadband(self.values).applied(velocity), now - age)
        except InputError as error:
            self.counters.failed += 1
            self.report_once("velocity", f"command ignored: {error}")

    def _drive(self) -> None:
        velocity = self._follower.step(self.now)
        if velocity is not None and self._velocities is not None:
            self._velocities.send(velocity)
