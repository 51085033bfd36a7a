"""Worlds steered by batch MPC, with its model on the virtual stick and with the same model in float64."""

from __future__ import annotations

import copy
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from drive.scenario import Outcome, SystemScenario, share, values
from edgetpu_control.learned.network import Network
from edgetpu_control.learned.quantised_network import INPUT, OUTPUT, QuantisedNetwork, quantise
from edgetpu_control.learned.training import TrainingPlan
from edgetpu_control.mpc.learned_dynamics import LearnedDynamics
from edgetpu_control.mpc.sampling_mpc import Method, MpcSettings, SamplingMpc, solve_with
from edgetpu_driver import CompiledModel, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from measured_figures.row import Row

Array = NDArray[np.float64]
States = list[Array]

_SHARE_OF_PERIOD = 0.9
"""Share of a period after which a controller with a deadline asks the model no further questions, so that the
last one usually ends within the period."""


class _Form(TypedDict, total=False):
    """Arguments of `model_error`."""

    row_scales: bool
    width: int


_FORMS: dict[str, _Form] = {
    "a scale for each row": {},
    "a scale for each layer": {"row_scales": False},
    "a scale for each row, copies in layers of 64 units": {"width": 64},
}


class System(Protocol):
    """The system that is controlled."""

    @property
    def state(self) -> Array:
        """The present state, float64 [states]."""
        ...

    def act(self, action: Array) -> Array:
        """Act for a period; return the next state."""
        ...


@dataclass(frozen=True)
class _Run:
    cost: float
    states: States
    late: int
    """Number of decisions that took longer than a period."""
    cut: int = 0
    """Number of decisions with fewer iterations than requested, for lack of time."""


class Stick:
    """A quantised network on a virtual stick with the timing of USB 3."""

    def __init__(self, network: QuantisedNetwork) -> None:
        graph = network.graph()
        self._network, self._model = network, CompiledModel.parse(pack(graph, name="dynamics"), "dynamics")
        self._device = VirtualEdgeTpu().register_model(self._model, graph)
        self._tpu = EdgeTpu.open(usb_backend=self._device)

    def __call__(self, inputs: Array) -> Array:
        """Outputs of the network for a batch of inputs."""
        return self._network.decode(self._tpu.run(self._model, {INPUT: self._network.encode(inputs)})[OUTPUT])

    def now(self) -> float:
        """The device's time, s."""
        return self._device.clock.monotonic()


class MpcScenario(SystemScenario):
    """A task for batch MPC; the world waits for decisions or, with a deadline, continues after a period."""

    period: ClassVar[float]
    """Time between two actions, s."""
    periods: ClassVar[int]
    """Largest number of periods of a world."""
    angles: ClassVar[tuple[int, ...]]
    """Indices of the states that are angles."""
    states: ClassVar[int]
    mpc: MpcSettings
    title: ClassVar[str]

    @abstractmethod
    def lessons(self, count: int, seed: int) -> tuple[Array, Array]:
        """Draw `count` states with actions, and the states that follow, to learn the model from."""

    @abstractmethod
    def system(self, seed: int) -> System:
        """Return the system at the start of a world."""

    @abstractmethod
    def cost(self, states: Array, actions: Array) -> Array:
        """Costs of states and of the actions that led to them."""

    @abstractmethod
    def succeeded(self, states: States) -> bool:
        """Whether the task is done after these states."""

    @abstractmethod
    def ended(self, states: States) -> bool:
        """Whether the world ends here, before its last period."""

    @abstractmethod
    def shown(self, state: Array) -> tuple[float, ...]:
        """Return the quantities of the trace for a state."""

    def planned(self, method: Method, samples: int) -> MpcScenario:
        """Return the same task and model with another method and another number of sequences."""
        self.network  # noqa: B018 - learned once, before copying
        other = copy.copy(self)
        other.mpc = replace(self.mpc, method=method, samples=samples)
        return other

    def compare(self, seed: int) -> tuple[dict[str, float], States]:
        """Run in the world of this seed by the stick and in float64; the figures, and the stick's states."""
        stick = self._stick
        began = stick.now()
        found = self._run(seed, stick, stick.now)
        device = (stick.now() - began) / len(found.states)
        exact = self._run(seed, self.network, lambda: 0.0)
        figures = {
            "done": float(self.succeeded(found.states)),
            "done_float64": float(self.succeeded(exact.states)),
            "cost": found.cost,
            "cost_float64": exact.cost,
            "late": 100 * found.late / len(found.states),
            "device_ms": 1e3 * device,
        }
        return figures, found.states

    def hurry(self, seed: int, clock: Callable[[], float] | None = None) -> dict[str, float]:
        """Run with a deadline of one period of a clock, by default the device's; return the figures."""
        found = self._run(seed, self._stick, clock or self._stick.now, paused=False)
        return {
            "done_hurried": float(self.succeeded(found.states)),
            "cost_hurried": found.cost,
            "missing": 100 * found.late / len(found.states),
            "cut": 100 * found.cut / len(found.states),
        }

    def run_alone(self, seed: int) -> Outcome:
        """Run in the world of this seed: on the stick, on the stick with a deadline, and in float64."""
        figures, states = self.compare(seed)
        figures |= self.hurry(seed, time.monotonic)
        return Outcome(seed, figures, self.trace(states))

    def trace(self, states: States) -> tuple[tuple[float, ...], ...]:
        """Return the times, s, and the quantities of states."""
        return tuple((n * self.period, *self.shown(state)) for n, state in enumerate(states, 1))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return success and cost on the stick and in float64, the rate, and the effects of a deadline."""
        hurried = f"{self.case(outcomes)}, within a period of wall time of this computer"
        return [
            *self.rows_of_comparison(outcomes),
            *self.rows_of_deadline(outcomes, hurried),
            *self.rows_of_model(),
        ]

    def rows_of_model(self) -> list[Row]:
        """Return the error of the model due to 8 bits for each form of its scales; the first is in use."""
        case = f"{self.title}, predictions of the model by 8 bits"
        return [
            Row("drive", case, f"error, {form}", 100 * self.model_error(**how), "%", None, "lower")
            for form, how in _FORMS.items()
        ]

    def case(self, outcomes: Sequence[Outcome]) -> str:
        """Case of the rows."""
        plan = f"{self.mpc.samples} sequences of {self.mpc.horizon}, {self.mpc.iterations} times"
        return f"{self.title}, {self.mpc.method} on the stick, {plan}, {len(outcomes)} worlds"

    def rows_of_comparison(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return success and cost on the stick and in float64, and the rate."""
        case, exact = self.case(outcomes), share(outcomes, "done_float64")
        cost, cost_exact, milliseconds, late = (
            float(np.mean(values(outcomes, each))) for each in ("cost", "cost_float64", "device_ms", "late")
        )
        done = share(outcomes, "done")
        return [
            Row("drive", case, "done", done, "%", 0.95 * exact, "higher", bound=exact),
            Row("drive", case, "cost", cost, "", 1.05 * cost_exact, "lower", bound=cost_exact),
            Row(
                "drive",
                case,
                "decisions a second, simulated device",
                1e3 / milliseconds,
                "Hz",
                None,
                "higher",
            ),
            Row("drive", case, "decisions that take longer than a period", late, "%", None, "lower"),
        ]

    @staticmethod
    def rows_of_deadline(outcomes: Sequence[Outcome], case: str) -> list[Row]:
        """Return success and cost with a deadline and in float64, and shares of late and cut decisions."""
        exact = share(outcomes, "done_float64")
        cost, cost_exact, missing, cut = (
            float(np.mean(values(outcomes, each)))
            for each in ("cost_hurried", "cost_float64", "missing", "cut")
        )
        return [
            Row("drive", case, "done", share(outcomes, "done_hurried"), "%", None, "higher", bound=exact),
            Row("drive", case, "cost", cost, "", None, "lower", bound=cost_exact),
            Row("drive", case, "decisions with fewer iterations", cut, "%", None, "lower"),
            Row("drive", case, "decisions missing", missing, "%", None, "lower"),
        ]

    def model_error(self, *, row_scales: bool = True, width: int = 0) -> float:
        """RMS error of the model due to 8 bits, relative to the RMS of its outputs, both normalised."""
        inputs, outputs = self._dynamics.inputs(self.lessons(1000, seed=1)[0]), self.network.outputs
        exact = outputs.normalise(self.network(inputs))
        quantised = quantise(self.network, row_scales=row_scales, width=width)
        lost = outputs.normalise(quantised.reference(inputs)) - exact
        return float(np.sqrt(np.mean(lost**2) / np.mean(exact**2)))

    @cached_property
    def network(self) -> Network:
        """The learned model, in float64."""
        questions, answers = self.lessons(6000, seed=0)
        return self._dynamics.learn(questions, answers, TrainingPlan((32, 32), epochs=40))

    @cached_property
    def _dynamics(self) -> LearnedDynamics:
        return LearnedDynamics(self.states, self.angles)

    @cached_property
    def _stick(self) -> Stick:
        return Stick(quantise(self.network, batch=self.mpc.samples))

    def _run(
        self, seed: int, network: Callable[[Array], Array], clock: Callable[[], float], *, paused: bool = True
    ) -> _Run:
        """Run a world. paused: whether the world waits for decisions.

        If not, the best decision found within a period of the clock counts. If there is none by then, it is
        missing, and the previous action continues; the first action is zero.
        """
        system, mpc = self.system(seed), SamplingMpc(self.mpc, self.cost, seed)
        action = np.clip(0.0, self.mpc.low, self.mpc.high)
        total, late, cut = 0.0, 0, 0
        states: States = []
        while len(states) < self.periods and not self.ended(states):
            began = clock()
            decision = solve_with(
                mpc,
                system.state,
                lambda questions: self._dynamics.predict(network, questions),
                deadline=np.inf if paused else began + _SHARE_OF_PERIOD * self.period,
                clock=clock,
            )
            missing = clock() - began > self.period
            late += missing
            cut += decision.iterations < self.mpc.iterations
            if paused or not missing:
                action = decision.action
            states.append(system.act(action))
            total += float(self.cost(states[-1][np.newaxis], action[np.newaxis])[0])
        return _Run(total, states, late, cut)
