"""Writes the requantisation of another graph into the program of a compiled file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgetpu_driver.darwinn.instructions.border_fill import with_border_value
from edgetpu_driver.darwinn.instructions.operations import Chunk, Operation, join
from edgetpu_driver.darwinn.instructions.tensor_operation import (
    has_offset,
    with_offset,
    write_requantisation,
)
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.shared_quantisation import chip_quantisation
from edgetpu_driver.toolchain.retargeting.addition_factors import rewritten_factors
from edgetpu_driver.toolchain.retargeting.execution_order import ExecutionOrder, Location
from edgetpu_driver.toolchain.retargeting.operator_requantisation import Step
from edgetpu_driver.toolchain.retargeting.program_explanation import ProgramExplanation, Steps
from edgetpu_driver.toolchain.retargeting.scalar_softmax import with_numbers, zero_point_location
from edgetpu_driver.toolchain.retargeting.zero_point_operations import ZeroPointOperations


@dataclass(frozen=True)
class RewrittenProgram:
    """The bitstreams of a program, and the operators that were found in it."""

    bitstreams: tuple[bytes, ...]
    operators: frozenset[int]
    """The operators of the graph with steps that were found."""
    obstacle: str
    """Why the program could not be read to its end; empty if it could."""


def rewrite_program(program: ProgramExplanation, zero_points: ZeroPointOperations) -> RewrittenProgram:
    """Replace the requantisation of every operation that an operator of the graph explains.

    zero_points: of that program. If the steps of several operators explain an operation, only operators count
    that can run at this place of the program. Raises ModelUnsupportedError, which names the operators, if
    several remain for an operation and their requantisation differs in the new graph.
    """
    return _Rewriter(program, zero_points).run()


class _Rewriter:
    def __init__(self, program: ProgramExplanation, zero_points: ZeroPointOperations) -> None:
        self._pair = program.pair
        self._chunks = program.chunks
        self._explained = dict(program.steps)
        self._borders = zero_points.borders
        self._scalar_softmaxes = zero_points.scalar_softmaxes

    def run(self) -> RewrittenProgram:
        wanted = self._decided()
        bitstreams = tuple(
            join(self._rewritten(number, chunk, wanted)) + chunk.rest
            for number, chunk in enumerate(self._chunks)
        )
        found = {old.operator for steps in self._explained.values() for old, _ in steps}
        found |= self._scalar_softmaxes.keys()
        obstacle = next((chunk.obstacle for chunk in self._chunks if chunk.obstacle), "")
        return RewrittenProgram(bitstreams, frozenset(found), obstacle)

    def _decided(self) -> dict[Location, tuple[Step, Step]]:
        """The step of every explained operation, in both graphs."""
        order = ExecutionOrder(
            self._pair.old,
            [
                (location, steps[0][0].operator)
                for location, steps in self._explained.items()
                if len({old.operator for old, _ in steps}) == 1
            ],
        )
        decided = {}
        for location, steps in self._explained.items():
            possible = steps
            if len({_effect(new) for _, new in steps}) > 1:
                possible = [(old, new) for old, new in steps if order.allows(old.operator, location)]
                self._explained[location] = possible
            if len({_effect(new) for _, new in possible}) != 1:
                raise self._undecided(possible or steps)
            decided[location] = possible[0]
        return decided

    def _rewritten(
        self, number: int, chunk: Chunk, decided: Mapping[Location, tuple[Step, Step]]
    ) -> Iterator[Operation]:
        others = dict(self._with_border_values(number, chunk.operations))
        others |= dict(self._with_softmaxes(number, chunk.operations))
        for position in range(len(chunk.operations)):
            old, new = decided.get((number, position), (None, None))
            if old is not None and new is not None and old.factors != new.factors:
                others |= self._with_factors(chunk.operations, position, old, new)
        for position, before in enumerate(chunk.operations):
            operation = others.get(position, before)
            old, new = decided.get((number, position), (None, None))
            if old is not None and new is not None and new.requantisation != old.requantisation:
                operation = self._requantised(operation, old, new)
            yield operation

    def _requantised(self, operation: Operation, old: Step, new: Step) -> Operation:
        """The operation with the requantisation, and perhaps the offset, of the new graph."""
        if old.offset is not None and new.offset is not None and old.offset != new.offset:
            if not has_offset(operation, old.offset):
                name = self._pair.operator_name(old.operator)
                raise ModelUnsupportedError(
                    f"{name} cannot be retargeted: its zero point is not found in the program"
                )
            operation = with_offset(operation, new.offset)
        return write_requantisation(operation, new.requantisation)

    def _with_border_values(
        self, number: int, operations: Sequence[Operation]
    ) -> Iterator[tuple[int, Operation]]:
        """The operations of a chunk that fill borders, with the zero points of the new graph."""
        for index, locations in self._borders.items():
            source = self._pair.tensors[self._pair.old.operators[index].inputs[0]]
            new = chip_quantisation(self._pair.new.tensors[source])
            for chunk, position in locations:
                if chunk == number and new is not None:
                    yield position, with_border_value(operations[position], new.zero_point)

    def _with_softmaxes(
        self, number: int, operations: Sequence[Operation]
    ) -> Iterator[tuple[int, Operation]]:
        """The words of a chunk with the numbers of a softmax on the scalar core, for the new graph."""
        for index, locations in self._scalar_softmaxes.items():
            source = self._pair.tensors[self._pair.old.operators[index].inputs[0]]
            new = chip_quantisation(self._pair.new.tensors[source])
            for location in locations:
                chunk, scale = location
                zero_point = zero_point_location(location)[1]
                if chunk == number and new is not None:
                    words = with_numbers(operations[zero_point], operations[scale], new)
                    yield from zip((zero_point, scale), words, strict=True)

    def _with_factors(
        self, operations: Sequence[Operation], position: int, old: Step, new: Step
    ) -> Mapping[int, Operation]:
        """The operations of an addition with new factors; ModelUnsupportedError if they are not found."""
        if (
            old.factors is not None
            and new.factors is not None
            and has_offset(operations[position], old.factors.offset)
        ):
            changed = rewritten_factors(operations, position, old.factors, new.factors)
            if changed is not None:
                return {**changed, position: with_offset(operations[position], new.factors.offset)}
        raise ModelUnsupportedError(
            f"{self._pair.operator_name(old.operator)} cannot be retargeted: the factors of its inputs are "
            "not found in the program"
        )

    def _undecided(self, steps: Steps) -> ModelUnsupportedError:
        operators = sorted({old.operator for old, _ in steps})
        names = [self._pair.operator_name(index) for index in operators]
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        alike = "its steps are" if len(names) == 1 else "they are"
        return ModelUnsupportedError(
            f"{listed} cannot be retargeted: {alike} requantised in the same way in the compiled file but "
            "not in the graph, and the program does not show which operations belong to which"
        )


def _effect(step: Step) -> tuple[Requantisation, object, int | None]:
    """The fields that a step writes into an operation."""
    return step.requantisation, step.factors, step.offset
