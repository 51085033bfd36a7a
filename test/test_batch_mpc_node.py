"""The batch MPC node with a driver and a virtual stick: it moves a cart to a position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from rclpy.parameter import Parameter
from std_msgs.msg import Float32MultiArray, Float64MultiArray

from edgetpu_control.learned.network import Network
from edgetpu_control.learned.training import TrainingPlan
from edgetpu_control.mpc.learned_dynamics import LearnedDynamics
from edgetpu_control.nodes import batch_mpc_node
from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.fatal_error import FatalError

PACKAGE = "edgetpu_control"
PERIOD = 0.2
PROBLEM = {"states": "x; speed", "actions": "force -1 1 0.5", "cost": "x ** 2 + 0.1 * speed ** 2"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the dynamics of a cart, cart.npz."""
    folder = tmp_path_factory.mktemp("dynamics")
    questions = np.random.default_rng(0).uniform(-2, 2, (1000, 3))
    place, speed, force = questions.T
    answers = np.stack([place + PERIOD * speed, speed + PERIOD * force], axis=1)
    network: Network = LearnedDynamics(2).learn(questions, answers, TrainingPlan((16,), epochs=20))
    network.save(folder / "cart.npz")
    return folder


class Cart:
    """A node that commands a cart, started with these parameters."""

    def __init__(
        self, start_node: Callable[..., Any], graph: Any, folder: Path, name: str, **parameters: Any
    ):
        self.process = start_node(
            PACKAGE,
            "batch_mpc",
            *("-r", f"__ns:=/{name}"),
            driver="/edgetpu",
            model_dir=folder,
            dynamics=folder / "cart.npz",
            **PROBLEM,
            samples=32,
            horizon=8,
            iterations=1,
            timeout=10.0,
            **parameters,
        )
        self._graph = graph
        self._publisher = graph.node.create_publisher(Float32MultiArray, f"/{name}/observation", 10)
        self._commands = graph.collect(Float64MultiArray, f"/{name}/batch_mpc/command")
        graph.meet(f"/{name}/batch_mpc")  # a plan that is not improved ends with its last command

    def commanded(self, condition: Callable[[float], bool], place: float) -> None:
        """Tell again and again that the cart rests at this place until a force meets the condition."""
        self._commands.clear()

        def met() -> bool:
            self._publisher.publish(Float32MultiArray(data=[place, 0.0]))
            return any(condition(each.data[0]) for each in self._commands)

        self._graph.spin_until(met)
        assert all(-1 <= each.data[0] <= 1 for each in self._commands)


@pytest.fixture(scope="module")
def driver(start_node: Callable[..., Any], folder: Path) -> Any:
    return start_node("edgetpu_driver", "edgetpu_node", backend="virtual", model_dirs=f"['{folder}']")


@pytest.mark.parametrize("method", ["mppi", "cem"])
def test_pushes_a_cart_to_its_place(
    start_node: Callable[..., Any],
    graph: Any,
    folder: Path,
    driver: Any,  # noqa: ARG001
    method: str,
) -> None:
    cart = Cart(start_node, graph, folder, method, method=method)
    cart.commanded(lambda force: force < -0.3, place=1.5)
    cart.commanded(lambda force: force > 0.3, place=-1.5)


def test_commands_what_it_has_when_time_is_up(
    start_node: Callable[..., Any],
    graph: Any,
    folder: Path,
    driver: Any,  # noqa: ARG001
) -> None:
    cart = Cart(start_node, graph, folder, "hurried", time_limit=1e-6)
    cart.commanded(lambda force: force == 0, place=1.5)


def test_a_new_timeout_holds_for_velocities_too(graph: Any) -> None:  # noqa: ARG001 - rclpy runs
    overrides = [Parameter(name, value=value) for name, value in {**PROBLEM, "timeout": 10.0}.items()]
    node = batch_mpc_node.BatchMpcNode(parameter_overrides=overrides)
    try:
        (answer,) = node.set_parameters([Parameter("timeout", value=0.4)])
        assert answer.successful
        assert node._follower.timeout == 0.4
    finally:
        node.destroy_node()


def test_ignores_and_counts_a_command_that_is_no_velocity(graph: Any) -> None:  # noqa: ARG001 - rclpy runs
    overrides = [
        Parameter(name, value=value)
        for name, value in {**PROBLEM, "actions": "v -1 1 1; w -1 1 1", "twist": True}.items()
    ]
    node = batch_mpc_node.BatchMpcNode(parameter_overrides=overrides)
    try:
        node.publish_command(np.array([np.nan, 0.0]))
        assert node.counters.failed == 1
        assert node._follower.step(node.now) is None
    finally:
        node.destroy_node()


def test_takes_the_next_observation_after_a_cost_that_raised(
    graph: Any,  # noqa: ARG001 - rclpy runs
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = SimpleNamespace(name="broken", load=lambda: lambda *_: 1 / 0)
    monkeypatch.setattr(batch_mpc_node, "entry_points", lambda **_: [broken])
    parameters = PROBLEM | {"cost": "broken", "samples": 2}
    node = batch_mpc_node.BatchMpcNode(
        parameter_overrides=[Parameter(name, value=value) for name, value in parameters.items()]
    )
    answers: list[Any] = []
    ready = SimpleNamespace(
        ready=True, run=lambda inputs, done: answers.append((inputs, done)) or True, close=lambda: None
    )
    monkeypatch.setattr(node, "server", ready)
    try:
        node.command(np.zeros(2))
        assert not node.free
        inputs, done = answers.pop()
        with pytest.raises(ZeroDivisionError):
            done(np.zeros((len(inputs), 2)), SimpleNamespace(error=None))
        assert node.free
    finally:
        node.destroy_node()


def no_module() -> Any:
    raise ModuleNotFoundError("No module named 'costs'")


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (no_module, "cost mine: cannot be loaded: unexpected ModuleNotFoundError: No module named 'costs'"),
        (lambda: 5, "cost mine: expected a function; got int"),
    ],
)
def test_ends_with_a_line_for_a_cost_in_python_that_is_none(
    graph: Any,  # noqa: ARG001 - rclpy runs
    monkeypatch: pytest.MonkeyPatch,
    load: Callable[[], Any],
    message: str,
) -> None:
    monkeypatch.setattr(batch_mpc_node, "entry_points", lambda **_: [SimpleNamespace(name="mine", load=load)])
    parameters = PROBLEM | {"cost": "mine"}
    overrides = [Parameter(name, value=value) for name, value in parameters.items()]
    with pytest.raises(FatalError, match=message):
        batch_mpc_node.BatchMpcNode(parameter_overrides=overrides)


@pytest.mark.parametrize(
    ("result", "got"), [(None, "NoneType"), (np.zeros((4, 1)), r"shape \[4, 1\]"), (0.0, "float")], ids=str
)
def test_says_what_a_cost_in_python_should_have_returned(node: Any, result: Any, got: str) -> None:
    cost = batch_mpc_node._cost_in_python(
        SimpleNamespace(name="mine", load=lambda: lambda *_: result)  # type: ignore[arg-type]
    )
    with pytest.raises(InputError, match=rf"cost mine: expected float64\[4\]; got {got}"):
        cost(np.zeros((4, 2)), np.zeros((4, 1)))
    node._mpc._cost = cost
    node.command(np.zeros(2))
    node.server.answer()
    assert node.counters.failed == 1
    assert node.free


class _SlowServer:
    """A network on a driver that answers when the test says so."""

    def __init__(self) -> None:
        self.ready = True
        self.problem = ""
        self.network = None
        self.questions: list[tuple[Any, Callable[..., None]]] = []

    def run(self, inputs: Any, done: Callable[..., None]) -> bool:
        self.ready = False
        self.questions.append((inputs, done))
        return True

    def answer(self) -> None:
        """Answer the question that waits: nothing changes."""
        inputs, done = self.questions.pop()
        self.ready = True
        done(np.zeros((len(inputs), 2)), SimpleNamespace(error=None))

    def close(self) -> None:
        pass


@pytest.fixture
def node(graph: Any) -> Iterator[Any]:
    """A node with a server that answers when the test says so, and plans of two actions."""
    parameters = PROBLEM | {"horizon": 2, "iterations": 1, "samples": 4, "timeout": 10.0}
    node = batch_mpc_node.BatchMpcNode(
        parameter_overrides=[Parameter(name, value=value) for name, value in parameters.items()]
    )
    node.server = _SlowServer()
    graph.add_node(node)
    yield node
    graph.remove_node(node)
    node.destroy_node()


@pytest.fixture
def still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is up when the node's alarm says so, and never before a question is asked."""
    monkeypatch.setattr(batch_mpc_node.BatchMpcNode, "now", 1000.0)


@pytest.mark.usefixtures("still_clock")
def test_commands_when_time_is_up_although_the_driver_does_not_answer(graph: Any, node: Any) -> None:
    commands = graph.collect(Float64MultiArray, "/batch_mpc/command")
    graph.meet("/batch_mpc")
    node.set_parameters([Parameter("time_limit", value=0.01)])
    node.command(np.zeros(2))
    graph.spin_until(lambda: bool(commands))
    assert len(node.server.questions) == 1
    assert not node.free


@pytest.mark.usefixtures("still_clock")
def test_an_answer_that_comes_too_late_lets_the_next_observation_begin(graph: Any, node: Any) -> None:
    node.set_parameters([Parameter("time_limit", value=0.01)])
    node.command(np.zeros(2))
    graph.spin_until(lambda: node.counters.results == 1)
    observations = graph.node.create_publisher(Float32MultiArray, "observation", 10)

    def waits() -> bool:
        observations.publish(Float32MultiArray(data=[1.5, 0.0]))
        return node.counters.received > 0

    graph.spin_until(waits)
    node.server.answer()
    (inputs, _done) = node.server.questions.pop()
    assert inputs[0, 0] == 1.5


@pytest.mark.usefixtures("still_clock")
def test_an_answer_of_a_former_network_is_not_taken_for_that_of_the_next_observation(
    graph: Any, node: Any
) -> None:
    node.set_parameters([Parameter("time_limit", value=0.01)])
    node.command(np.zeros(2))
    graph.spin_until(lambda: node.counters.results == 1)
    node.server.ready = True  # another network is loaded, while the former one still works
    node.set_parameters([Parameter("time_limit", value=0.0)])
    node.command(np.array([1.5, 0.0]))
    (inputs, late), _present = node.server.questions
    late(np.zeros((len(inputs), 2)), SimpleNamespace(error=None))
    assert len(node.server.questions) == 2


def test_commands_nothing_once_a_plan_that_was_not_improved_has_ended(node: Any) -> None:
    node.set_parameters([Parameter("time_limit", value=1e-9)])
    for _ in range(3):
        node.command(np.zeros(2))
    assert (node.counters.results, node.counters.failed) == (1, 2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cost": "x.real"}, "expected arithmetic; got 'x.real'"),
        ({"cost": "place ** 2"}, "expected a quantity of force, speed, x; got 'place'"),
        ({"states": "x; x"}, "states: expected different names"),
        ({"actions": "force 1"}, "actions: expected name, least and greatest value, and deviation"),
        ({"actions": "force 1 -1 1"}, "expected actions with low below high"),
        (
            {"states": "x; speed; other", "dynamics": "cart.npz"},
            "expected a network of 4 inputs and 3 outputs",
        ),
        ({"twist": True}, "expected 2 actions with twist, the forward velocity and the turn"),
        (
            {"twist": True, "actions": "angular -1 1 1; linear 0 1 1", "cost": "angular ** 2"},
            "the forward velocity and the turn, in this order; got angular, linear",
        ),
    ],
)
def test_ends_with_a_line_for_bad_parameters(
    start_node: Callable[..., Any], folder: Path, parameters: dict[str, Any], message: str
) -> None:
    if "dynamics" in parameters:
        parameters = parameters | {"dynamics": folder / parameters["dynamics"]}
    process = start_node(PACKAGE, "batch_mpc", **PROBLEM | parameters)
    assert process.wait() != 0
    assert message in process.output
    assert "Traceback" not in process.output
