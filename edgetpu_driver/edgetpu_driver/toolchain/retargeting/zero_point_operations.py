"""The zero points that a program holds apart from requantisations: for borders and for softmaxes.

Operations of the mesh bus before a layer write the values beyond its borders; operations of a 1x1 convolution
may come between them and the layer. A softmax subtracts its zero point where it finds the maximum.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from edgetpu_driver.darwinn.instructions.border_fill import fills_border, has_border_value
from edgetpu_driver.darwinn.instructions.operations import RESIZING_OPERATION, Operation
from edgetpu_driver.darwinn.instructions.tensor_operation import has_offset
from edgetpu_driver.tflite.shared_quantisation import chip_quantisation
from edgetpu_driver.toolchain.retargeting.border_sides import RESIZING, border_sides, padding_operator
from edgetpu_driver.toolchain.retargeting.execution_order import Location
from edgetpu_driver.toolchain.retargeting.operator_requantisation import LARGEST, LAYER
from edgetpu_driver.toolchain.retargeting.program_explanation import ProgramExplanation
from edgetpu_driver.toolchain.retargeting.scalar_softmax import scalar_softmaxes


class ZeroPointOperations:
    """The operations with the zero points of operators that pad, resize or compute a softmax.

    An operator is left out if its operations have another zero point than the old graph, or do not cover
    every padded side.
    """

    def __init__(self, program: ProgramExplanation) -> None:
        self._program, self._pair = program, program.pair
        self._unknown: set[int] = set()
        self._found: dict[int, list[Location]] = defaultdict(list)
        self._find_borders()
        self.borders: dict[int, tuple[Location, ...]] = {
            index: tuple(locations) for index, locations in self._found.items() if self._is_complete(index)
        }
        """Operations that fill the borders of an operator's input, by operator."""
        self.scalar_softmaxes = scalar_softmaxes(self._pair.old, program.chunks)
        """Locations of the scales of operators that run on the scalar core."""
        self.softmaxes = self._find_softmaxes() | set(self.scalar_softmaxes)
        """Operators with a zero point that is an offset, or part of the scalar core's program."""

    @property
    def operators(self) -> frozenset[int]:
        """The operators whose zero points were found.

        If several layers read a tensor, its borders are filled once, for the first of them.
        """
        graph = self._pair.old
        sides = {
            (graph.operators[each].inputs[0], border_sides(graph, self._pair.options[each], each))
            for each in self.borders
        }
        sharing = {
            index
            for index in range(len(graph.operators))
            if index not in self._found
            and index not in self._unknown
            and (graph.operators[index].inputs[0], border_sides(graph, self._pair.options[index], index))
            in sides
        }
        return frozenset(self.borders) | sharing | self.softmaxes

    def _find_borders(self) -> None:
        resizes = deque(self._resizes())
        waiting: list[Location] = []
        resizing = False
        for location, operation in self._operations():
            if fills_border(operation):
                waiting.append(location)
            elif operation.opcode == RESIZING_OPERATION:
                if not resizing:
                    self._claim_for_resize(resizes, waiting)
                waiting = []
            elif location in self._program.steps:
                operators = self._padding_layers(location)
                if operators != {None}:
                    self._claim(operators, waiting)
                    waiting = []
            resizing = operation.opcode == RESIZING_OPERATION
        self._unknown.update(resizes)

    def _operations(self) -> Iterator[tuple[Location, Operation]]:
        for number, chunk in enumerate(self._program.chunks):
            for position, operation in enumerate(chunk.operations):
                if operation.numbered:
                    yield (number, position), operation

    def _resizes(self) -> list[int]:
        graph, options = self._pair.old, self._pair.options
        return [
            index
            for index, each in enumerate(graph.operators)
            if each.name == RESIZING and border_sides(graph, options[index], index)
        ]

    def _padding_layers(self, location: Location) -> set[int | None]:
        """The operators that may determine the values beyond borders for the operation at a location.

        Contains None for a layer without borders; empty if the operation is not of a layer, which ends the
        search.
        """
        steps = self._program.steps[location]
        return {
            padding_operator(self._pair.old, self._pair.options, old.operator)
            for old, _ in steps
            if old.role == LAYER
        }

    def _claim_for_resize(self, resizes: deque[int], locations: list[Location]) -> None:
        """Assign operations to the next resize of the graph; if none is left, no resize counts as known."""
        if resizes:
            self._claim({resizes.popleft()}, locations)
        else:
            self._unknown.update(self._resizes())

    def _claim(self, operators: set[int | None], locations: list[Location]) -> None:
        """Assign operations to the one operator that they may belong to."""
        if not locations:
            return
        owners = [each for each in operators if each is not None]
        if (
            len(operators) != 1
            or not owners
            or not all(self._has_zero_point(owners[0], each) for each in locations)
        ):
            self._unknown.update(owners)
            return
        self._found[owners[0]] += locations

    def _has_zero_point(self, index: int, location: Location) -> bool:
        source = chip_quantisation(self._pair.old.tensors[self._pair.old.operators[index].inputs[0]])
        return source is not None and has_border_value(self._program.operation(location), source.zero_point)

    def _is_complete(self, index: int) -> bool:
        directions = {self._program.operation(location).opcode for location in self._found[index]}
        sides = border_sides(self._pair.old, self._pair.options[index], index)
        return index not in self._unknown and len(directions) == sides

    def _find_softmaxes(self) -> frozenset[int]:
        found: dict[int, set[bool]] = defaultdict(set)
        for location, steps in self._program.steps.items():
            for old, _ in steps:
                if old.role == LARGEST:
                    operation = self._program.operation(location)
                    found[old.operator].add(
                        len(steps) == 1 and has_offset(operation, -old.requantisation.output_zero_point)
                    )
        return frozenset(operator for operator, each in found.items() if each == {True})
