"""The program of a compiled file with the requantisation of another graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.instructions.operations import Chunk, Operation, cut, join
from edgetpu_driver.darwinn.instructions.parameter_readers import UNIT, parameters_used, upload_places
from edgetpu_driver.darwinn.instructions.tensor_operation import (
    read_requantisation,
    requantises,
    write_requantisation,
)
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.toolchain.retargeting.addition_factors import (
    has_offset,
    rewritten_factors,
    with_offset,
)
from edgetpu_driver.toolchain.retargeting.execution_order import ExecutionOrder
from edgetpu_driver.toolchain.retargeting.graph_pairs import GraphPair
from edgetpu_driver.toolchain.retargeting.requantising_steps import CONSTANT_STEPS, LAYER, Step, steps_of
from edgetpu_driver.weights.section_search import NetworkSections

_Place = tuple[int, int]
"""The chunk of an operation and its position in it, which is the order of execution."""
_Steps = Sequence[tuple[Step, Step]]
"""Steps of the old graph, each with what it is in the new one."""


@dataclass(frozen=True)
class RewrittenProgram:
    """The bitstreams of a program, and what was found in it."""

    bitstreams: tuple[bytes, ...]
    operators: frozenset[int]
    """The operators of the graph whose steps were found."""
    obstacle: str
    """Why the program was not read to its end; empty if it was."""


def rewrite_program(compiled: CompiledModel, located: NetworkSections, pair: GraphPair) -> RewrittenProgram:
    """Replace the requantisation of every operation that an operator of the graph explains.

    An operation is explained by the steps of the old graph that have the fields it carries today. Where
    several do, the layer counts whose parameters are sent to the operation; next, only operators that can be
    under way between those around it. located: of the old graph. Raises ModelUnsupportedError, which names
    the operators, if it remains open which one an operation belongs to and the new graph tells them apart.
    """
    return _Rewriter(compiled, located, pair).run()


class _Rewriter:
    def __init__(self, compiled: CompiledModel, located: NetworkSections, pair: GraphPair) -> None:
        self._pair = pair
        self._chunks = cut(bitstream.data for bitstream in compiled.execution.bitstreams)
        self._steps = _steps(pair, {placed.section.operator for placed in located.placed})
        self._explained = {
            place: explained
            for place, today, owner in _requantisations(self._chunks, _users(compiled, located))
            if (explained := self._explanations(today, owner))
        }

    def run(self) -> RewrittenProgram:
        wanted = self._decided()
        bitstreams = tuple(
            join(self._rewritten(number, chunk, wanted)) + chunk.rest
            for number, chunk in enumerate(self._chunks)
        )
        found = {old.operator for steps in self._explained.values() for old, _ in steps}
        obstacle = next((chunk.obstacle for chunk in self._chunks if chunk.obstacle), "")
        return RewrittenProgram(bitstreams, frozenset(found), obstacle)

    def _explanations(self, today: Requantisation, owner: int | None) -> _Steps:
        """The steps with these fields; of several, that of the layer whose parameters the operation gets."""
        steps = self._steps.get(today, [])
        own = [(old, new) for old, new in steps if (old.operator, old.role) == (owner, LAYER)]
        return own or steps

    def _decided(self) -> dict[_Place, tuple[Step, Step]]:
        """The step that every operation belongs to that is explained, in both graphs."""
        order = ExecutionOrder(
            self._pair.old,
            [
                (place, steps[0][0].operator)
                for place, steps in self._explained.items()
                if len({old.operator for old, _ in steps}) == 1
            ],
        )
        decided = {}
        for place, steps in self._explained.items():
            possible = steps
            if len({_effect(new) for _, new in steps}) > 1:
                possible = [(old, new) for old, new in steps if order.allows(old.operator, place)]
                self._explained[place] = possible
            if len({_effect(new) for _, new in possible}) != 1:
                raise self._undecided(possible or steps)
            decided[place] = possible[0]
        return decided

    def _rewritten(
        self, number: int, chunk: Chunk, decided: Mapping[_Place, tuple[Step, Step]]
    ) -> Iterator[Operation]:
        others: dict[int, Operation] = {}
        for position in range(len(chunk.operations)):
            old, new = decided.get((number, position), (None, None))
            if old is not None and new is not None and old.factors != new.factors:
                others |= self._with_factors(chunk.operations, position, old, new)
        for position, before in enumerate(chunk.operations):
            operation = others.get(position, before)
            old, new = decided.get((number, position), (None, None))
            changes = old is not None and new is not None and new.requantisation != old.requantisation
            yield write_requantisation(operation, new.requantisation) if changes and new else operation

    def _with_factors(
        self, operations: Sequence[Operation], position: int, old: Step, new: Step
    ) -> Mapping[int, Operation]:
        """The operations of an addition with other factors; ModelUnsupportedError if they are not found."""
        if (
            old.factors is not None
            and new.factors is not None
            and has_offset(operations[position], old.factors)
        ):
            changed = rewritten_factors(operations, position, old.factors, new.factors)
            if changed is not None:
                return {**changed, position: with_offset(operations[position], new.factors)}
        raise ModelUnsupportedError(
            f"{self._pair.operator_name(old.operator)} cannot be retargeted: the factors of its inputs are "
            "not found in the program"
        )

    def _undecided(self, steps: _Steps) -> ModelUnsupportedError:
        operators = sorted({old.operator for old, _ in steps})
        names = [self._pair.operator_name(index) for index in operators]
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        return ModelUnsupportedError(
            f"{listed} cannot be retargeted: they requantise alike in the compiled file and not in the "
            "graph, and the program does not tell which of its operations are whose"
        )


def _effect(step: Step) -> tuple[Requantisation, object]:
    """What a step writes into an operation."""
    return step.requantisation, step.factors


def _steps(pair: GraphPair, placed: set[int]) -> dict[Requantisation, list[tuple[Step, Step]]]:
    """The steps of the old graph by their fields. placed: operators that have something in the parameters."""
    steps: dict[Requantisation, list[tuple[Step, Step]]] = defaultdict(list)
    for index in range(len(pair.old.operators)):
        old, new = (
            steps_of(graph, pair.options, index, has_section=index in placed)
            for graph in (pair.old, pair.new)
        )
        for ours, theirs in zip(old, new, strict=True):
            steps[ours.requantisation].append((ours, theirs))
    return steps


def _users(compiled: CompiledModel, located: NetworkSections) -> dict[tuple[int, int], int]:
    """The operator whose section of the parameters begins or continues at each place in the chip's memory."""
    if compiled.caching is None:
        return {}
    owners = {
        offset: placed.section.operator
        for placed in located.placed
        if not placed.streamed
        for offset in range(placed.offset, placed.offset + placed.size, UNIT)
    }
    uploads = cut(bitstream.data for bitstream in compiled.caching.bitstreams)
    places = upload_places(each for chunk in uploads for each in chunk.operations)
    return {place: owners[offset] for place, offset in places.items() if offset in owners}


def _requantisations(
    chunks: Sequence[Chunk], users: dict[tuple[int, int], int]
) -> Iterator[tuple[_Place, Requantisation, int | None]]:
    """Every requantisation that depends on a graph, with the operator whose parameters are sent to it."""
    for number, chunk in enumerate(chunks):
        owners = parameters_used(chunk.operations, users)
        for position, operation in enumerate(chunk.operations):
            if requantises(operation):
                today = read_requantisation(operation)
                if today not in CONSTANT_STEPS:
                    yield (number, position), today, owners.get(position)
