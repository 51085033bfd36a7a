"""Splits a graph into steps: parts for the Edge TPU, custom operators, and parts for LiteRT between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.cpu_operators.known_operators import is_known, make_operator
from edgetpu_driver.engines.whole_model.model_plan import EdgeTpuStep, LiteRtStep, Operand, OperatorStep, Step
from edgetpu_driver.errors import ModelFormatError, ModelUnsupportedError
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.checks.graph_checks import check_order
from edgetpu_driver.tflite.model_reader import ABSENT, EDGETPU_CUSTOM_OP, Operator, Subgraph, parse_model
from edgetpu_driver.tflite.subgraph_extraction import extract_operators
from edgetpu_driver.tflite.tensor import TensorSpec

_DETECTIONS = "TFLite_Detection_PostProcess"
_MOST_COPIED = 1 << 30
"""Bytes of all parts for LiteRT, each of which is a copy of the file. Chosen: half of what a node may use."""
_LITERT_OPERATORS = (_DETECTIONS, "Mfcc", "AudioSpectrogram", "NumericVerify")
"""The custom operators that LiteRT includes."""


class GraphSteps:
    """One graph as steps.

    A part for LiteRT contains all operators that can run at that point, so there is at most one between two
    steps of other kinds. A graph that LiteRT can run unchanged is a single part, the file itself.
    """

    def __init__(
        self, data: bytes, name: str, path: Path | None, segment: int, numbers: Iterator[int]
    ) -> None:
        """numbers: source of value numbers. Raises ModelFormatError, ModelUnsupportedError."""
        self._data, self._name, self._path, self._segment = data, name, path, segment
        self._graph = graph = parse_model(data).subgraphs[0]
        check_order("model.subgraphs[0]", graph)
        self._values = [next(numbers) for _ in graph.tensors]
        self._specs = _specs_with_shapes(graph)
        self.steps: tuple[Step, ...]
        """In execution order."""
        self.missing = ""
        """See ModelPlan."""
        unknown = sorted({each.custom_code for each in graph.operators if _is_unknown(each)})
        if unknown:
            codes = ", ".join(f"'{code}'" for code in unknown)
            self.missing = f"'{name}' needs {codes}, which neither LiteRT nor this package implements"
        if all(_is_for_litert(operator) for operator in graph.operators):
            names = tuple(map(_code, graph.operators))
            operands = self._operands(graph.inputs), self._operands(graph.outputs)
            self.steps = (
                LiteRtStep(name, *operands, names, segment, data, self._keeps_state(graph.operators)),
            )
        else:
            self.steps = tuple(self._partition())
        self.inputs = self._operands(graph.inputs)
        self.outputs = self._operands(graph.outputs)
        self.constants = self._constants()

    def _operands(self, indices: Sequence[int]) -> tuple[Operand, ...]:
        names = self._graph.specs_of(indices)
        return tuple(
            Operand(self._values[index], replace(self._specs[index], name=spec.name))
            for index, spec in zip(indices, names, strict=True)
        )

    def _partition(self) -> Iterator[Step]:
        """Yield the steps: an operator for another engine if it can run, else all that LiteRT can run."""
        graph = self._graph
        waiting = list(range(len(graph.operators)))
        copied = 0
        known = {index for index, tensor in enumerate(graph.tensors) if tensor.data or tensor.is_variable}
        known |= {index for index, tensor in enumerate(graph.tensors) if prod(tensor.shape) == 0}
        known |= {ABSENT, *graph.inputs}
        while waiting:
            ready = [each for each in waiting if known.issuperset(graph.operators[each].inputs)]
            special = next((each for each in ready if not _is_for_litert(graph.operators[each])), None)
            batch = [special] if special is not None else self._runnable(waiting, known)
            taken = set(batch)
            waiting = [each for each in waiting if each not in taken]
            known.update(index for each in batch for index in graph.operators[each].outputs)
            if special is None:
                copied += len(self._data)
                if copied > _MOST_COPIED:
                    raise ModelUnsupportedError(
                        f"'{self._name}' has too many parts for the CPU between those for the Edge TPU; "
                        f"expected at most {_MOST_COPIED // len(self._data)} in a file of this size"
                    )
                yield self._litert_step(batch, waiting)
            elif graph.operators[special].custom_code == EDGETPU_CUSTOM_OP:
                yield self._edge_tpu_step(special)
            else:
                yield self._operator_step(special)

    def _runnable(self, waiting: Sequence[int], known: set[int]) -> list[int]:
        """The waiting operators that LiteRT can run now, in order."""
        have, batch = set(known), []
        for index in waiting:
            operator = self._graph.operators[index]
            if _is_for_litert(operator) and have.issuperset(operator.inputs):
                batch.append(index)
                have.update(operator.outputs)
        return batch

    def _litert_step(self, batch: Sequence[int], later: Sequence[int]) -> Step:
        graph = self._graph
        operators = [graph.operators[index] for index in batch]
        made = dict.fromkeys(index for operator in operators for index in operator.outputs)
        needed = {index for each in later for index in graph.operators[each].inputs} | set(graph.outputs)
        outputs = [index for index in made if index in needed]
        taken = dict.fromkeys(index for operator in operators for index in operator.inputs)
        inputs = [index for index in taken if index not in made and not self._is_given(index)]
        name = f"{self._name} ({', '.join(dict.fromkeys(map(_code, operators)))})"
        part = extract_operators(self._data, batch, inputs, outputs)
        operands = self._operands(inputs), self._operands(outputs)
        names, keeps_state = tuple(map(_code, operators)), self._keeps_state(operators)
        return LiteRtStep(name, *operands, names, self._segment, part, keeps_state)

    def _keeps_state(self, operators: Sequence[Operator]) -> bool:
        tensors = self._graph.tensors
        return any(
            index != ABSENT and tensors[index].is_variable for each in operators for index in each.inputs
        )

    def _edge_tpu_step(self, index: int) -> Step:
        operator = self._graph.operators[index]
        parts = self._graph.edgetpu_operators
        name = self._name if len(parts) == 1 else f"{self._name} part {parts.index(index) + 1}"
        model = replace(CompiledModel.of_operator(self._data, self._graph, index, name), path=self._path)
        states = [each for each in operator.inputs if self._graph.tensors[each].is_variable]
        if states and not self.missing:
            tensors = ", ".join(f"'{self._graph.tensors[each].name}'" for each in states)
            self.missing = (
                f"'{name}' keeps a state between its runs ({tensors}), for which the compiled file has no "
                "transfer"
            )
        # The names of `model` are those of the tensors, which `CompiledModel` has checked to differ.
        sources = [Operand(self._values[each], self._specs[each]) for each in operator.inputs]
        results = [Operand(self._values[each], self._specs[each]) for each in operator.outputs]
        return EdgeTpuStep(name, tuple(sources), tuple(results), (EDGETPU_CUSTOM_OP,), self._segment, model)

    def _operator_step(self, index: int) -> Step:
        operator = self._graph.operators[index]
        if ABSENT in operator.inputs:
            raise ModelFormatError(f"an input of '{operator.custom_code}' is absent; it has no optional ones")
        made = make_operator(
            operator.custom_code,
            operator.custom_options,
            [self._specs[each] for each in operator.inputs],
            len(operator.outputs),
        )
        for each, shape in zip(operator.outputs, made.output_shapes, strict=True):
            self._specs[each] = replace(self._specs[each], shape=shape)
        sources, results = self._operands(operator.inputs), self._operands(operator.outputs)
        name = f"{self._name} ({operator.custom_code})"
        return OperatorStep(name, sources, results, (operator.custom_code,), self._segment, made)

    def _is_given(self, index: int) -> bool:
        """Whether LiteRT has the tensor without receiving it as an input."""
        if index == ABSENT or index in self._graph.inputs:
            return index == ABSENT
        tensor = self._graph.tensors[index]
        return bool(tensor.data) or tensor.is_variable or prod(tensor.shape) == 0

    def _constants(self) -> dict[int, NDArray[Any]]:
        """Constants for outputs and for steps outside LiteRT, without the variables of a part."""
        wanted = {each.value for step in self.steps for each in step.inputs}
        wanted |= {operand.value for operand in self.outputs}
        found: dict[int, NDArray[Any]] = {}
        for index, tensor in enumerate(self._graph.tensors):
            value = self._values[index]
            if value in wanted and self._is_given(index) and not tensor.is_variable:
                data = np.frombuffer(tensor.data, tensor.dtype.newbyteorder("<"))
                found[value] = data.astype(tensor.dtype).reshape(tensor.shape)
        return found


def _is_for_litert(operator: Operator) -> bool:
    return operator.custom_code != EDGETPU_CUSTOM_OP and not is_known(operator.custom_code)


def _is_unknown(operator: Operator) -> bool:
    code = operator.custom_code
    return bool(code) and code != EDGETPU_CUSTOM_OP and not is_known(code) and code not in _LITERT_OPERATORS


def _code(operator: Operator) -> str:
    return operator.custom_code or operator.name


def _specs_with_shapes(graph: Subgraph) -> list[TensorSpec]:
    """The specification of each tensor, with shapes inferred from options where the file has none."""
    specs = [tensor.spec for tensor in graph.tensors]
    for operator in graph.operators:
        if operator.custom_code == _DETECTIONS:
            for index, shape in zip(operator.outputs, _detection_shapes(operator), strict=False):
                if specs[index].shape == ():
                    specs[index] = replace(specs[index], shape=shape)
    return specs


def _detection_shapes(operator: Operator) -> Sequence[tuple[int, ...]]:
    """Shapes of the outputs of LiteRT's detection decoder; empty if its options are unclear.

    The outputs are boxes, classes, scores and count.
    """
    options = flexbuffer.decode(operator.custom_options)
    if not isinstance(options, dict):
        return ()
    boxes = [options.get("max_detections"), options.get("max_classes_per_detection")]
    if not all(isinstance(each, int) and 0 < each < 1 << 16 for each in boxes):
        return ()
    total = prod(each for each in boxes if isinstance(each, int))
    return ((1, total, 4), (1, total), (1, total), (1,))
