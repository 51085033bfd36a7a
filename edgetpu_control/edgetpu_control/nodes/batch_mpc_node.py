"""Batch MPC as a node: tries many action sequences on a learned model on the stick and commands the best."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np

from edgetpu_control.learned.network import Array, Network
from edgetpu_control.learned.quantised_network import QuantisedNetwork, quantise
from edgetpu_control.mpc.cost_expression import CostExpression
from edgetpu_control.mpc.learned_dynamics import LearnedDynamics
from edgetpu_control.mpc.problem_description import Actions, States, parse_actions, parse_states
from edgetpu_control.mpc.sampling_mpc import Cost, MpcSettings, Questions, SamplingMpc
from edgetpu_control.nodes.control_parameters import live
from edgetpu_control.nodes.network_control_node import NetworkControlNode, network_control_settings
from edgetpu_driver.errors import EdgeTpuError, InputError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.node_kit.executor.callback_guard import reason
from edgetpu_driver.node_kit.executor.steady_timers import create_graph_timer
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.parameters import Setting

COSTS = "edgetpu.costs"
"""Entry-point group of costs in Python: functions of states and actions, as `Cost`."""

_NO_PLAN = (
    "the plan has ended, and no iteration has improved it: time_limit is too short for one, or no sequence "
    "has a finite cost"
)


@dataclass(eq=False)
class _Period:
    """The work on one observation."""

    questions: Questions
    question: Array
    deadline: float


class BatchMpcNode(NetworkControlNode):
    """Improves a plan of actions for each observation by trying others on a learned model."""

    settings = network_control_settings(
        Setting(
            "dynamics",
            "",
            "File of the network that says how states change in a period, .npz. Another file replaces it "
            "without a gap. Empty: none.",
            read_only=False,
        ),
        Setting(
            "states",
            "x; y; yaw circular",
            "Names of the states in the order of the observation, separated by semicolons; the word "
            "circular follows the names of angles.",
        ),
        Setting(
            "actions",
            "linear 0 0.5 0.2; angular -1 1 0.5",
            "Name, least and greatest value, and standard deviation of the samples of each action, "
            "separated by semicolons.",
        ),
        Setting(
            "cost",
            "x ** 2 + y ** 2",
            "Cost of a state and the action that led to it: a formula of their names, or the name of an "
            f"entry point of the group {COSTS}.",
        ),
        Setting("samples", 256, "Action sequences tried at a time.", 2, 1024),
        Setting("horizon", 25, "Actions of a sequence.", 1, 1000),
        Setting("iterations", 2, "Times that the plan is improved for an observation.", 1, 100),
        Setting("method", "mppi", "How the plan is computed from the samples.", choices=("mppi", "cem")),
        Setting(
            "temperature",
            0.05,
            "Of mppi: difference of costs, relative to their standard deviation, at which weights fall to "
            "1/e.",
            0.001,
            100.0,
        ),
        Setting("elites", 0.1, "Of cem: share of the samples that make the next plan.", 0.001, 1.0),
        Setting("smoothing", 0.6, "Correlation of the noise from one action to the next.", 0.0, 0.99),
        live(
            "time_limit",
            0.0,
            "Time after an observation at which the best plan so far is commanded, s. 0: when all iterations "
            "are done.",
            0.0,
            60.0,
        ),
    )
    file_parameter = "dynamics"

    def __init__(self, **options: Any) -> None:
        super().__init__("batch_mpc", **options)
        with self.destroyed_on_error():
            self._set_up()

    def _set_up(self) -> None:
        values = self.values
        try:
            self._states, actions = parse_states(values["states"]), parse_actions(values["actions"])
            self._dynamics = LearnedDynamics(len(self._states.names), self._states.angles)
            settings = MpcSettings(
                actions.low,
                actions.high,
                actions.deviation,
                horizon=values["horizon"],
                samples=values["samples"],
                iterations=values["iterations"],
                method=values["method"],
                temperature=values["temperature"],
                elites=values["elites"],
                smoothing=values["smoothing"],
            )
            self._mpc = SamplingMpc(settings, _cost(values["cost"], self._states, actions))
        except InputError as error:
            raise FatalError(f"parameters of {self.full_name}: {error}") from None
        is_velocity = len(actions.names) == 2 and tuple(actions.names) != ("angular", "linear")
        if values["twist"] and not is_velocity:
            raise FatalError(
                f"parameters of {self.full_name}: expected 2 actions with twist, the forward velocity and "
                f"the turn, in this order; got {', '.join(actions.names)}"
            )
        self._actions = actions
        self._period: _Period | None = None
        # Ends a period whose question the driver does not answer in time.
        self._alarm = create_graph_timer(self, 1.0, self._on_time_up)
        self._alarm.cancel()
        self.start()

    @property
    def free(self) -> bool:
        """Whether the next observation can be taken."""
        return self._period is None and super().free

    def quantised(self, network: Network) -> QuantisedNetwork:
        """Quantise a network for all samples at a time."""
        return quantise(network, batch=self.values["samples"])

    def checked(self, network: Network) -> Network:
        """Return the network; InputError if its numbers of inputs and outputs do not fit."""
        states, angles = self._dynamics.states, len(self._dynamics.angles)
        expected = states + angles + len(self._actions.names), states
        if (network.sizes[0], network.sizes[-1]) != expected:
            raise InputError(
                f"expected a network of {expected[0]} inputs and {expected[1]} outputs for these states and "
                f"actions; got {network.sizes[0]} and {network.sizes[-1]}"
            )
        return network

    def observation_size(self) -> int:
        """Return the number of states."""
        return self._dynamics.states

    def command(self, observation: Array) -> None:
        """Start to improve the plan."""
        self._mpc.begin()
        questions = self._mpc.solve(observation)
        within: float = self.values["time_limit"]
        self._period = _Period(questions, next(questions), self.now + (within or np.inf))
        if within:
            self._alarm.timer_period_ns = max(round(1e9 * within), 1)
            self._alarm.reset()
        self._ask()

    def _ask(self) -> None:
        """Send the question of the present period, or end it when its time is up."""
        period = self._period
        assert period is not None
        if self.now >= period.deadline:
            self._end()
        elif not self.server.run(self._dynamics.inputs(period.question), partial(self._on_changes, period)):
            self._end()  # the driver is gone; completed iterations count

    def _on_changes(self, period: _Period, changes: Array | None, result: InferenceResult) -> None:
        if period is not self._period:  # its time was up
            self.advance()
            return
        if changes is None:
            self.fail(result.error)
            self._forget()
            self.advance()
            return
        try:
            period.question = period.questions.send(self._dynamics.after(period.question, changes))
        except StopIteration:
            self._end()
            return
        except InputError as error:  # of a cost in Python that did not return costs
            self._forget()
            self.fail(error)
            self.advance()
            return
        except Exception:  # of a cost in Python
            self._forget()  # otherwise no other observation would be taken
            raise
        self._ask()

    def _on_time_up(self) -> None:
        self._alarm.cancel()
        if self._period is not None:
            self._end()

    def _end(self) -> None:
        assert self._period is not None
        self._period.questions.close()
        self._forget()
        if self._mpc.has_ended:
            self.fail(EdgeTpuError(_NO_PLAN))
        else:
            self.publish_command(self._mpc.decide().action)
        self.advance()

    def _forget(self) -> None:
        self._alarm.cancel()
        self._period = None


def _cost(text: str, states: States, actions: Actions) -> Cost:
    """Return the cost that is a formula or the name of an entry point; InputError if it is neither."""
    named = {point.name: point for point in entry_points(group=COSTS)}
    if text.strip() in named:
        return _cost_in_python(named[text.strip()])
    return CostExpression.of_rows(text, [*states.names, *actions.names])


def _cost_in_python(point: EntryPoint) -> Cost:
    """Return the cost of an entry point; it raises InputError unless its result is one cost per sample.

    InputError if the entry point cannot be loaded.
    """
    try:
        found = point.load()
    except Exception as error:  # of any code that is imported
        raise InputError(f"cost {point.name}: cannot be loaded: {reason(error)}") from error
    if not callable(found):
        raise InputError(f"cost {point.name}: expected a function; got {type(found).__name__}")

    def cost(states: Array, actions: Array) -> Array:
        result = found(states, actions)
        try:
            costs = np.asarray(result, np.float64)
        except (TypeError, ValueError):
            costs = np.empty((0, 0))
        if costs.shape != (len(states),):
            got = f"shape {list(result.shape)}" if isinstance(result, np.ndarray) else type(result).__name__
            raise InputError(f"cost {point.name}: expected float64[{len(states)}]; got {got}")
        return costs

    return cost
