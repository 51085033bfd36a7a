"""The tasks of batch MPC with MPPI and CEM, and with 64 to 1024 sequences at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

from drive.scenario import Outcome, SystemScenario
from drive.scenarios.mpc_scenario import MpcScenario
from drive.scenarios.slalom_scenario import Slalom
from drive.scenarios.swing_up_scenario import SwingUp
from edgetpu_control.mpc.sampling_mpc import Method
from measured_figures.row import Row

METHODS: tuple[Method, ...] = ("mppi", "cem")
SAMPLES = (64, 128, 256, 512, 1024)


class Samples(SystemScenario):
    """A task in the same worlds with both methods and each number of sequences.

    Deadlines are in the simulated device's time, so that the rows do not depend on the computer.
    """

    on_request = True
    task: ClassVar[type[MpcScenario]]

    def run_alone(self, seed: int) -> Outcome:
        """Run in the world of this seed with each plan; the trace is that of the last."""
        figures: dict[str, float] = {}
        for plan, task in self._tasks.items():
            found, states = task.compare(seed)
            found |= task.hurry(seed)
            figures |= {f"{plan} {name}": value for name, value in found.items()}
        return Outcome(seed, figures, task.trace(states))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the rows of each plan."""
        return [row for plan, task in self._tasks.items() for row in _rows(task, outcomes, f"{plan} ")]

    @cached_property
    def _tasks(self) -> dict[str, MpcScenario]:
        """The task with each plan, by the plan's name."""
        task = self.task()
        return {f"{how} {count}": task.planned(how, count) for how in METHODS for count in SAMPLES}


def _rows(task: MpcScenario, outcomes: Sequence[Outcome], prefix: str) -> Iterator[Row]:
    own = [
        replace(
            each,
            values={
                name.removeprefix(prefix): value
                for name, value in each.values.items()
                if name.startswith(prefix)
            },
        )
        for each in outcomes
    ]
    yield from task.rows_of_comparison(own)
    yield from task.rows_of_deadline(own, f"{task.case(own)}, within a period of the device's time")


class SwingUpSamples(Samples):
    """Swing a pole up."""

    name = "swing_up_samples"
    task = SwingUp
    quantities = SwingUp.quantities


class SlalomSamples(Samples):
    """Drive around poles."""

    name = "slalom_samples"
    task = Slalom
    quantities = Slalom.quantities
