"""The policy node with a driver and a virtual stick: commands, other policies, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from std_msgs.msg import Float32MultiArray, Float64MultiArray

from edgetpu_control.learned.network import Interval, Layer, Network
from edgetpu_control.learned.quantised_network import INPUT
from edgetpu_control.nodes import policy_node
from edgetpu_control.nodes.network_on_driver import NetworkOnDriver, _Served
from edgetpu_driver.errors import InputError
from edgetpu_msgs.msg import ServoError

PACKAGE = "edgetpu_control"
TIMEOUT = 10.0
"""Of policies that are to use every observation, s: the longest, as a busy machine may stop for seconds."""


def policy(folder: Path, name: str, gain: float, outputs: int = 2, inputs: int = 2) -> Path:
    """Commands of `gain` times the first observation; observations and commands are of -1 to 1."""
    weights = np.zeros((outputs, 2))
    weights[:, 0], weights[:, 1] = gain, -gain
    hidden = np.zeros((2, inputs))
    hidden[0, 0], hidden[1, 0] = 1.0, -1.0

    def ranges(count: int) -> Interval:
        return Interval(-np.ones(count), np.ones(count))

    layers = (Layer(hidden, np.zeros(2)), Layer(weights, np.zeros(outputs)))
    samples = np.random.default_rng(0).uniform(-1, 1, (64, inputs))
    file = folder / f"{name}.npz"
    Network(layers, ranges(inputs), ranges(outputs), samples).save(file)
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("policies")


@pytest.fixture(scope="module")
def node(start_node: Callable[..., Any], folder: Path) -> Any:
    """A policy of one odometry and one array, with gain 0.5, and a driver."""
    start_node("edgetpu_driver", "edgetpu_node", backend="virtual", model_dirs=f"['{folder}']")
    return start_node(
        PACKAGE,
        "policy",
        model_dir=folder,
        policy=policy(folder, "half", 0.5),
        width=16,
        twist=True,
        stamped=True,
        frame_id="base",
        max_angular=0.3,
        linear_deadband=0.1,
        timeout=TIMEOUT,
        qos_reliability="reliable",
        qos_depth=10,
        observations="odom nav_msgs/msg/Odometry twist.twist.linear.x; "
        "extra std_msgs/msg/Float32MultiArray data[0]",
    )


class Partner:
    """Publishes observations and collects commands."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self._odometry = graph.node.create_publisher(Odometry, "odom", 10)
        self._extra = graph.node.create_publisher(Float32MultiArray, "extra", 10)
        self.commands = graph.collect(Float64MultiArray, "/policy/command")
        self.velocities = graph.collect(TwistStamped, "/policy/cmd_vel")
        self._client = graph.node.create_client(SetParameters, "/policy/set_parameters")

    def observe(self, value: float) -> None:
        message = Odometry()
        message.twist.twist.linear.x = value
        self._extra.publish(Float32MultiArray(data=[0.3]))
        self._odometry.publish(message)

    def command(self, value: float, wanted: float) -> None:
        """Observe again and again until this command comes."""
        self.commands.clear()

        def came() -> bool:
            self.observe(value)
            return any(abs(each.data[0] - wanted) < 0.02 for each in self.commands)

        self.graph.spin_until(came)

    def set_policy(self, file: Path | str) -> str:
        """Set the parameter; the reason why it was refused."""
        future = self._client.call_async(
            SetParameters.Request(parameters=[Parameter("policy", value=str(file)).to_parameter_msg()])
        )
        self.graph.spin_until(future.done)
        return str(future.result().results[0].reason)


@pytest.fixture(scope="module")
def partner(graph: Any, node: Any) -> Partner:  # noqa: ARG001
    return Partner(graph)


def test_commands_what_the_network_gives(partner: Partner) -> None:
    partner.command(0.8, 0.4)
    partner.command(-0.8, -0.4)
    assert partner.commands[-1].data[1] == pytest.approx(-0.4, abs=0.02)


def test_publishes_commands_as_velocities_within_limits(partner: Partner) -> None:
    partner.velocities.clear()
    partner.command(0.8, 0.4)
    partner.graph.spin_until(
        lambda: any(abs(each.twist.linear.x - 0.4) < 0.02 for each in partner.velocities)
    )
    partner.graph.spin_until(lambda: any(each.twist.angular.z == 0.3 for each in partner.velocities))
    assert all(abs(each.twist.angular.z) <= 0.3 for each in partner.velocities)
    assert {each.header.frame_id for each in partner.velocities} == {"base"}
    assert all(each.header.stamp.sec > 0 for each in partner.velocities)


def test_a_command_within_the_deadband_is_a_standstill(partner: Partner) -> None:
    partner.command(0.1, 0.05)
    partner.graph.spin_until(lambda: partner.velocities[-1].twist.linear.x == 0)
    partner.velocities.clear()
    partner.command(0.1, 0.05)
    partner.graph.spin_until(lambda: len(partner.velocities) > 3)
    assert {each.twist.linear.x for each in partner.velocities} == {0.0}
    partner.graph.spin_until(lambda: abs(partner.velocities[-1].twist.angular.z - 0.05) < 0.02)


def test_another_policy_takes_over_without_a_gap(node: Any, partner: Partner, folder: Path) -> None:
    partner.command(0.8, 0.4)
    assert partner.set_policy(policy(folder, "full", 1.0)) == ""
    partner.commands.clear()
    before = len(node.output)
    observations = 0
    while not any(abs(each.data[0] - 0.8) < 0.02 for each in partner.commands) and observations < 1000:
        partner.observe(0.8)
        observations += 1
        partner.graph.spin_for(1.0, until=lambda: len(partner.commands) >= observations)  # noqa: B023
    # Every observation was answered, by one policy or the other, unless the driver stood still.
    stood_still = "no command: no answer from /edgetpu" in node.output[before:]
    assert len(partner.commands) >= observations or stood_still
    assert abs(partner.commands[-1].data[0] - 0.8) < 0.02
    assert all(min(abs(each.data[0] - 0.4), abs(each.data[0] - 0.8)) < 0.02 for each in partner.commands)


def test_keeps_no_graphs_of_former_policies(partner: Partner, folder: Path) -> None:
    for number, gain in enumerate((0.3, 0.6, 0.9)):
        assert partner.set_policy(policy(folder, f"former_{number}", gain)) == ""
        partner.command(0.5, 0.5 * gain)
    assert partner.set_policy(policy(folder, "last", 0.45)) == ""
    partner.command(0.5, 0.225)
    # That of the present one, and of the one before until there is another.
    assert len(list(folder.glob("network_*.tflite"))) == 2


def test_refuses_a_file_that_is_no_policy(partner: Partner, folder: Path) -> None:
    (folder / "other.npz").write_bytes(b"nothing")
    assert "other.npz: expected a learned network" in partner.set_policy(folder / "other.npz")


def test_goes_on_with_the_present_policy_when_the_file_changes_after_its_check(
    graph: Any,  # noqa: ARG001 - rclpy runs
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policy_node.PolicyNode, "refuse_parameter", lambda *_: None)
    node = policy_node.PolicyNode()
    file = folder / "changing.npz"
    file.write_bytes(b"no longer an archive")
    try:
        with pytest.raises(InputError, match=r"changing\.npz: expected a learned network"):
            node.set_parameters([Parameter("policy", value=str(file))])
        assert node.values["policy"] == ""
    finally:
        node.destroy_node()


def test_refuses_a_policy_that_makes_no_velocity(partner: Partner, folder: Path) -> None:
    file = policy(folder, "three", 1.0, outputs=3)
    assert partner.set_policy(file) == "policy: expected a network with 2 outputs for a velocity; got 3"


def test_tells_the_error_of_each_layer(node: Any, partner: Partner, folder: Path) -> None:
    assert partner.set_policy(policy(folder, "full", 1.0)) == ""
    partner.command(0.1, 0.1)
    assert "errors due to 8 bits by layer: 1: " in node.output


def test_observes_only_what_is_valid_and_recent(
    start_node: Callable[..., Any],
    graph: Any,
    node: Any,  # noqa: ARG001 - the driver runs
    folder: Path,
) -> None:
    process = start_node(
        PACKAGE,
        "policy",
        "-r",
        "__ns:=/seen",
        driver="/edgetpu",
        model_dir=folder,
        policy=policy(folder, "seen", 0.5, inputs=1),
        timeout=2.0,
        observations="servo_error edgetpu_msgs/msg/ServoError bearing_x",
    )
    publisher = graph.node.create_publisher(ServoError, "/seen/servo_error", 10)
    commands = graph.collect(Float64MultiArray, "/seen/policy/command")

    def send(bearing: float, *, ago: int = 0, valid: bool = True) -> None:
        message = ServoError(valid=valid, bearing_x=bearing)
        message.header.stamp = graph.node.get_clock().now().to_msg()
        message.header.stamp.sec -= ago
        publisher.publish(message)

    def commanded() -> bool:
        send(0.2, valid=False)
        send(0.4, ago=60)
        send(0.8)
        return bool(commands) and "servo_error skipped: expected a stamp of the last 2 s" in process.output

    graph.spin_until(commanded)
    assert [each.data[0] for each in commands] == pytest.approx([0.4] * len(commands), abs=0.02)


class _Server:
    """A network of one input and two outputs on a driver that is ready when the test says so."""

    def __init__(self) -> None:
        self.ready = False
        self.problem = ""
        self.network = SimpleNamespace(network=SimpleNamespace(sizes=(1, 2)), layer_errors=())
        self.asked: list[float] = []

    def run(self, inputs: Any, done: Callable[..., None]) -> bool:
        del done
        self.asked.append(inputs[0, 0])
        return True

    def close(self) -> None:
        pass


@pytest.fixture
def alone(graph: Any) -> Any:
    """A policy without a driver, whose network is ready when the test says so."""
    overrides = [Parameter("timeout", value=TIMEOUT), Parameter("twist", value=True)]
    node = policy_node.PolicyNode(namespace="alone", parameter_overrides=overrides)
    node.server = _Server()
    graph.add_node(node)
    yield node
    graph.remove_node(node)
    node.destroy_node()


def observed(graph: Any, node: Any) -> None:
    """Send an observation until the node has got one."""
    publisher = graph.node.create_publisher(Float32MultiArray, "/alone/observation", 10)

    def came() -> bool:
        publisher.publish(Float32MultiArray(data=[0.5]))
        return node._waits

    graph.spin_until(came)


def test_uses_an_observation_that_waited_for_the_driver(graph: Any, alone: Any) -> None:
    observed(graph, alone)
    alone.server.ready = True
    alone.advance()
    assert alone.server.asked == [0.5]


class _ChangingClient:
    """A client of a loaded model that takes no request until it has changed to another driver."""

    ready, busy, problem = True, False, ""

    def __init__(self) -> None:
        self.free = False
        self.asked: list[float] = []

    def invoke(self, inputs: dict[str, Any], *_: Any, **__: Any) -> bool:
        if self.free:
            self.asked.append(inputs[INPUT][0, 0])
        return self.free

    def close(self) -> None:
        pass


def test_an_observation_waits_while_the_node_changes_to_another_driver(graph: Any, alone: Any) -> None:
    client, network = _ChangingClient(), alone.server.network
    network.encode = lambda inputs: inputs
    alone.server = NetworkOnDriver(alone, alone.quantised, alone.advance)
    alone.server._present = _Served(network, client, Path("network.tflite"), 0)  # type: ignore[arg-type]
    observations = graph.node.create_publisher(Float32MultiArray, "/alone/observation", 10)

    def came() -> bool:
        observations.publish(Float32MultiArray(data=[0.5]))
        return alone.counters.received > 0

    graph.spin_until(came)
    client.free = True
    alone.advance()
    assert client.asked == [0.5]


def test_uses_no_observation_that_has_become_old_while_it_waited(
    graph: Any, alone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed(graph, alone)
    later = alone.now + TIMEOUT + 0.1
    monkeypatch.setattr(policy_node.PolicyNode, "now", later)
    alone.server.ready = True
    alone.advance()
    assert alone.server.asked == []


def test_stops_the_robot_when_it_ends(graph: Any) -> None:
    overrides = [Parameter("twist", value=True)]
    node = policy_node.PolicyNode(namespace="ending", parameter_overrides=overrides)
    velocities = graph.collect(Twist, "/ending/policy/cmd_vel")
    graph.add_node(node)
    try:

        def moves() -> bool:
            node.publish_command(np.array([0.5, 0.0]))
            return any(each.linear.x > 0 for each in velocities)

        graph.spin_until(moves)
    finally:
        graph.remove_node(node)
        node.destroy_node()
    graph.spin_until(lambda: velocities[-1] == Twist())


def test_without_a_file_there_is_no_network_any_more(partner: Partner, folder: Path) -> None:
    assert partner.set_policy(policy(folder, "full", 1.0)) == ""
    partner.command(0.5, 0.5)
    assert partner.set_policy("") == ""
    for _ in range(10):
        partner.observe(0.9)
        partner.graph.spin_for(0.02)
    assert partner.set_policy(policy(folder, "half", 0.5)) == ""
    before = partner.commands.copy()
    partner.command(0.5, 0.25)
    # They come in the order in which they were made, those of the network before its removal first.
    forces = {round(each.data[0], 1) for each in (*before, *partner.commands)}
    assert forces <= {0.5, 0.2, 0.3, 0.4}  # and 0.25 and 0.45, quantised, of the network with half the output


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"observations": "odom"},
            "parameter observations of policy: expected a topic, a type and fields",
        ),
        ({"observations": "odom nav_msgs/msg/Odometry pose.speed"}, "expected the path of a field"),
        (
            {"observations": "2nd_odom nav_msgs/msg/Odometry twist.twist.linear.x"},
            "parameter observations of policy: Invalid topic name: topic name token must not start",
        ),
        ({"policy": "/nowhere/none.npz"}, "expected a file /nowhere/none.npz"),
    ],
)
def test_ends_with_a_line_for_bad_parameters(
    start_node: Callable[..., Any], parameters: dict[str, str], message: str
) -> None:
    process = start_node(PACKAGE, "policy", **parameters)
    assert process.wait() != 0
    assert message in process.output
    assert "Traceback" not in process.output
