"""The definition of a scenario: its nodes, the events in each of its worlds, and its figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from demo.processes import Graph, Process
from drive.film import EVERY
from drive.simulated_robot_node import SimulatedRobot
from drive.truth import Record
from measured_figures.row import Row


@dataclass(frozen=True)
class Outcome:
    """Result of a run in one world."""

    seed: int
    values: dict[str, float]
    """Figures of the world by name."""
    trace: tuple[tuple[float, ...], ...]
    """Samples for the report: time, s, and the scenario's quantities."""
    record: Record = field(default_factory=Record)
    """Truth and results of the nodes, for figures and the report."""


class Scenario(ABC):
    """One task, repeated in worlds made from seeds."""

    name: ClassVar[str]
    nodes: ClassVar[tuple[str, ...]]
    """Nodes of the node table that run in addition to the driver."""
    watched: ClassVar[tuple[tuple[type[Any], str], ...]]
    """Types and topics of the results that the clock waits for."""
    cmd_vel: ClassVar[str]
    """Topic of the velocities that the robot obeys."""
    parameters: ClassVar[dict[str, dict[str, str]]] = {}
    """Parameters of nodes that differ from the defaults, as on a command line."""
    remappings: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Remappings of the nodes in addition to those of the camera's topics: (name in the node, name here)."""
    on_request: ClassVar[bool] = False
    """Whether the scenario runs only if it is named, because it takes long."""
    film_every: ClassVar[int] = EVERY
    """Images per picture of the film."""
    quantities: ClassVar[tuple[str, ...]]
    """Names of the quantities in the traces, with their units."""

    def prepare(self, folder: Path, model: Path | None) -> dict[str, dict[str, str]]:
        """Write the nodes' files to a folder; return the parameters of the nodes and the driver, `edgetpu`.

        model: file to use instead of the suite's model, for scenarios that support it.
        """
        del folder, model
        return self.parameters

    def start(self, processes: Sequence[Process], logs: Path) -> AbstractContextManager[Any]:
        """Start the nodes, the driver first; each writes a log to the folder."""
        return Graph(processes, logs)

    @abstractmethod
    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Run in the world of this seed."""

    @abstractmethod
    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the figures of all worlds."""


class SystemScenario(Scenario):
    """A task of a system other than the robot, which needs no ROS graph."""

    nodes = ()
    watched = ()
    cmd_vel = ""

    @abstractmethod
    def run_alone(self, seed: int) -> Outcome:
        """Run in the world of this seed."""

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Run in the world of this seed, without the robot."""
        del robot
        return self.run_alone(seed)


def share(outcomes: Sequence[Outcome], name: str) -> float:
    """Percentage of worlds in which the figure `name`, 0 or 1, is 1."""
    return 100 * float(np.mean([outcome.values[name] for outcome in outcomes]))


def values(outcomes: Sequence[Outcome], name: str) -> list[float]:
    """The figures `name` of all worlds."""
    return [outcome.values[name] for outcome in outcomes]
