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
from drive.robot_node import SimulatedRobot
from drive.truth import Record
from measured_figures.row import Row


@dataclass(frozen=True)
class Outcome:
    """How one world ended."""

    seed: int
    values: dict[str, float]
    """Figures of it, by name."""
    trace: tuple[tuple[float, ...], ...]
    """For the report: time, s, and the scenario's quantities."""
    record: Record = field(default_factory=Record)
    """Also for the report."""


class Scenario(ABC):
    """One task, repeated in worlds made from seeds."""

    name: ClassVar[str]
    nodes: ClassVar[tuple[str, ...]]
    """Nodes of the node table that run in addition to the driver."""
    watched: ClassVar[tuple[tuple[type[Any], str], ...]]
    """Results that the clock waits for: their types and topics."""
    cmd_vel: ClassVar[str]
    """Topic of the velocities that the robot obeys."""
    parameters: ClassVar[dict[str, dict[str, str]]] = {}
    """Parameters of nodes that differ from the defaults, as on a command line."""
    remappings: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Topics of the nodes, in addition to those of the camera, and their names here."""
    on_request: ClassVar[bool] = False
    """Whether it runs only if it is named, because it takes long."""
    film_every: ClassVar[int] = EVERY
    """Images per picture of the film."""
    quantities: ClassVar[tuple[str, ...]]
    """Of the traces, with their units."""

    def prepare(self, folder: Path, model: Path | None) -> dict[str, dict[str, str]]:
        """Write what the nodes need into a folder; the parameters of the nodes and of the driver, `edgetpu`.

        model: to be used instead of one of the suite, where a scenario has any.
        """
        del folder, model
        return self.parameters

    def start(self, processes: Sequence[Process], logs: Path) -> AbstractContextManager[Any]:
        """Start the nodes, the driver first, with a log each in a folder."""
        return Graph(processes, logs)

    @abstractmethod
    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Run in the world of this seed."""

    @abstractmethod
    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the figures of all worlds."""


class SystemScenario(Scenario):
    """A task of another system than the robot, without its graph."""

    nodes = ()
    watched = ()
    cmd_vel = ""

    @abstractmethod
    def run_alone(self, seed: int) -> Outcome:
        """Run in the world of this seed."""

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Run without the robot."""
        del robot
        return self.run_alone(seed)


def share(outcomes: Sequence[Outcome], name: str) -> float:
    """Percentage of worlds in which the figure of this name is true."""
    return 100 * float(np.mean([outcome.values[name] for outcome in outcomes]))


def values(outcomes: Sequence[Outcome], name: str) -> list[float]:
    """The figures of this name."""
    return [outcome.values[name] for outcome in outcomes]
