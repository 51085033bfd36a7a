"""Finds the operator of a graph that each operation of its program belongs to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.instructions.operations import LARGEST_OPERATION, Operation, split
from edgetpu_driver.darwinn.instructions.parameter_uses import (
    UNIT,
    TileRow,
    parameters_used,
    uploaded_offsets,
)
from edgetpu_driver.darwinn.instructions.tensor_operation import has_offset, read_requantisation, requantises
from edgetpu_driver.darwinn.parameters.layer_layout import LayerLayout
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.toolchain.retargeting.execution_order import ExecutionOrder, Location
from edgetpu_driver.toolchain.retargeting.graph_pairs import GraphPair
from edgetpu_driver.toolchain.retargeting.operator_requantisation import (
    CONSTANT_STEPS,
    LARGEST,
    LARGEST_OF_WINDOW,
    LAYER,
    Step,
    steps_of,
)
from edgetpu_driver.weights.section_search import NetworkSections

Steps = Sequence[tuple[Step, Step]]
"""Steps of the old graph, each with its counterpart in the new one."""

_LARGEST = (LARGEST, LARGEST_OF_WINDOW)
"""Roles of operations that find the largest of several values."""


class ProgramExplanation:
    """The operations of a program that depend on the graph, and the steps that may explain them.

    A step explains an operation if it has the fields that the operation has now. If several do, the layer
    whose parameters are sent to the operation is taken. An operation without parameters is not assigned to a
    layer with parameters at positions where that layer cannot run.
    """

    def __init__(self, compiled: CompiledModel, located: NetworkSections, pair: GraphPair) -> None:
        """located: the sections of the old graph in the parameters."""
        self.pair = pair
        self.chunks = split(bitstream.data for bitstream in compiled.execution.bitstreams)
        self._steps = _steps(pair, located)
        today = list(self._requantisations(_users(compiled, located)))
        with_parameters = [(location, owner) for location, _, owner in today if owner is not None]
        self._layers = {owner for _, owner in with_parameters}
        self._order = ExecutionOrder(pair.old, with_parameters)
        self.steps: dict[Location, Steps] = {}
        """The possible steps of every explained operation, in execution order."""
        self.unexplained: list[tuple[Requantisation, int | None]] = []
        """The requantisations of the other operations, with the operator whose parameters each receives."""
        for location, operation, owner in today:
            if explained := self._explanations(location, operation, owner):
                self.steps[location] = explained
            else:
                self.unexplained.append((read_requantisation(operation), owner))

    def operation(self, location: Location) -> Operation:
        """The operation at a location."""
        chunk, position = location
        return self.chunks[chunk].operations[position]

    def _explanations(self, location: Location, operation: Operation, owner: int | None) -> Steps:
        steps = self._steps.get(read_requantisation(operation), [])
        finds_largest = operation.opcode == LARGEST_OPERATION
        if any(old.role in _LARGEST for old, _ in steps):
            steps = [each for each in steps if (each[0].role in _LARGEST) == finds_largest]
        with_offset = [each for each in steps if _has_own_offset(operation, each[0])]
        steps = with_offset or steps
        own = [each for each in steps if each[0].role == LAYER and each[0].operator == owner]
        return own or [each for each in steps if self._may_lack_parameters(location, each[0])]

    def _may_lack_parameters(self, location: Location, step: Step) -> bool:
        if step.role != LAYER or step.operator not in self._layers:
            return True
        return self._order.allows(step.operator, location)

    def _requantisations(
        self, users: Mapping[TileRow, int]
    ) -> Iterator[tuple[Location, Operation, int | None]]:
        """Every operation whose requantisation depends on the graph, and the operator of its parameters."""
        for number, chunk in enumerate(self.chunks):
            owners = parameters_used(chunk.operations, dict(users))
            for position, operation in enumerate(chunk.operations):
                if requantises(operation) and read_requantisation(operation) not in CONSTANT_STEPS:
                    yield (number, position), operation, owners.get(position)


def _has_own_offset(operation: Operation, step: Step) -> bool:
    return step.offset is None or has_offset(operation, step.offset)


def _steps(pair: GraphPair, located: NetworkSections) -> dict[Requantisation, list[tuple[Step, Step]]]:
    """The steps of the old graph by their fields. located: its sections in the parameters."""
    sections = {placed.section.operator: placed.section.layout for placed in located.placed}
    with_multipliers = {
        operator
        for operator, layout in sections.items()
        if isinstance(layout, LayerLayout) and layout.header.multipliers
    }
    steps: dict[Requantisation, list[tuple[Step, Step]]] = defaultdict(list)
    for index in range(len(pair.old.operators)):
        old, new = (
            steps_of(
                graph,
                pair.options,
                index,
                has_section=index in sections,
                own_multipliers=index in with_multipliers,
            )
            for graph in (pair.old, pair.new)
        )
        for ours, theirs in zip(old, new, strict=True):
            steps[ours.requantisation].append((ours, theirs))
    return steps


def _users(compiled: CompiledModel, located: NetworkSections) -> dict[tuple[int, int], int]:
    """The operator whose section begins or continues at each address of the chip's parameter memory."""
    if compiled.caching is None:
        return {}
    owners = {
        offset: placed.section.operator
        for placed in located.placed
        if not placed.streamed
        for offset in range(placed.offset, placed.offset + placed.size, UNIT)
    }
    uploads = split(bitstream.data for bitstream in compiled.caching.bitstreams)
    offsets = uploaded_offsets(each for chunk in uploads for each in chunk.operations)
    return {rows: owners[offset] for rows, offset in offsets.items() if offset in owners}
