"""Requantises layers of a graph whose zero points cannot be written into a compiled program.

A program has separate fields for the zero point of a softmax's input, and for the zero point with which
borders are padded. If these are not found, and a graph has another zero point, the layer before gets the
scale and zero point of the compiled file. Its multipliers follow from them, and the biases of the layers
after it are converted to the new scale.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.graph_edit import GraphEdit, TensorChange
from edgetpu_driver.tflite.model_reader import ABSENT
from edgetpu_driver.tflite.shared_quantisation import (
    CHOOSING,
    MOVING,
    ChipQuantisation,
    chip_quantisation,
    tensors_sharing_quantisation,
)
from edgetpu_driver.tflite.weighted_operators import WEIGHTED
from edgetpu_driver.toolchain.retargeting.border_sides import border_sides
from edgetpu_driver.toolchain.retargeting.graph_pairs import GraphPair, pair_graphs
from edgetpu_driver.toolchain.retargeting.operator_requantisation import RULES

_LARGEST = 255
"""Largest uint8, the type of the chip's outputs."""
_LARGEST_BIAS = 2**31 - 1
"""Largest int32."""


@dataclass(frozen=True)
class Requantised:
    """A layer that was given the scale and zero point of the compiled file."""

    layer: str
    own: ChipQuantisation
    given: ChipQuantisation

    @property
    def cost(self) -> str:
        """The loss of precision, as a sentence."""
        wider = self.given.scale / self.own.scale
        text = (
            f"{self.layer} is requantised to the compiled file's scale {self.given.scale:g} and zero point "
            f"{self.given.zero_point} instead of {self.own.scale:g} and {self.own.zero_point}: its steps are "
            f"{wider:.3g} times as wide"
        )
        (low, high), (own_low, own_high) = _range(self.given), _range(self.own)
        clipped = [f"below {low:g}"] if low > own_low else []
        clipped += [f"above {high:g}"] if high < own_high else []
        return f"{text}, and values {' and '.join(clipped)} are clipped" if clipped else text


def _range(quantisation: ChipQuantisation) -> tuple[float, float]:
    least, greatest = ((end - quantisation.zero_point) * quantisation.scale for end in (0, _LARGEST))
    return least, greatest


def adapt_graph(
    old: bytes, new: bytes, pair: GraphPair, operators: Iterable[int], found: Container[int] = ()
) -> tuple[bytes, tuple[Requantised, ...]]:
    """The new graph with zero points that a program of the old one can have, and the layers changed for it.

    operators: the operators that the chip runs. found: the operators whose zero points are found in the
    program. ModelUnsupportedError, which names the tensor or operator, if a layer cannot be requantised, for
    example because the tensor is an input of the graph.
    """
    adaptation = _Adaptation(pair, tuple(operators), found)
    changes, layers = adaptation.run()
    if not changes:
        return new, ()
    edit = GraphEdit(new)
    try:
        edit.change(changes)
    except InputError as error:
        raise ModelUnsupportedError(f"its layers cannot be requantised: {error}") from None
    adapted = edit.file()
    pair_graphs(old, adapted)
    return adapted, tuple(layers)


class _Adaptation:
    def __init__(self, pair: GraphPair, operators: tuple[int, ...], found: Container[int]) -> None:
        self._pair, self._operators, self._found = pair, operators, found
        self._changes: dict[int, TensorChange] = {}

    def run(self) -> tuple[dict[int, TensorChange], list[Requantised]]:
        pinned: dict[int, str] = {}
        for tensor, why in self._fixed():
            for each in self._alike(tensor):
                pinned.setdefault(each, why)
        layers = [self._layer(tensor, pinned) for tensor in pinned]
        for tensor in pinned:
            quantization = self._pair.old.tensors[tensor].quantization
            self._changes[self._pair.tensors[tensor]] = TensorChange(quantization=quantization)
        for index in self._operators:
            self._rescale_bias(index, pinned)
        return self._changes, [each for each in layers if each is not None]

    def _quantisations(self, tensor: int) -> tuple[ChipQuantisation | None, ChipQuantisation | None]:
        """The quantisation of a tensor in both graphs."""
        return chip_quantisation(self._pair.old.tensors[tensor]), chip_quantisation(
            self._pair.new.tensors[self._pair.tensors[tensor]]
        )

    def _fixed(self) -> Iterator[tuple[int, str]]:
        """The tensors whose zero point cannot be written into the program, each with the reason."""
        for index in self._operators:
            operator = self._pair.old.operators[index]
            if index in self._found:
                continue
            if operator.name == "SOFTMAX":
                why = "the zero point of its softmax is not found in the program"
            elif border_sides(self._pair.old, self._pair.options[index], index):
                why = "the value that borders are padded with is not found in the program"
            else:
                continue
            old, new = self._quantisations(operator.inputs[0])
            if old is not None and new is not None and old.zero_point != new.zero_point:
                yield operator.inputs[0], why

    def _alike(self, tensor: int) -> set[int]:
        """Tensors of the new graph that share its quantisation: operators only move values between them."""
        alike = tensors_sharing_quantisation(self._pair.new, self._pair.tensors[tensor])
        return {old for old, new in self._pair.tensors.items() if new in alike}

    def _layer(self, tensor: int, pinned: dict[int, str]) -> Requantised | None:
        """The change to the layer that computes a tensor; None if the operator only moves values."""
        why = pinned[tensor]
        old, new = self._quantisations(tensor)
        assert old is not None
        assert new is not None
        makers = [
            index for index, operator in enumerate(self._pair.old.operators) if tensor in operator.outputs
        ]
        if not makers:
            name = self._pair.new.tensors[self._pair.tensors[tensor]].name
            raise ModelUnsupportedError(
                f"'{name}' has the zero point {new.zero_point}, in the compiled file {old.zero_point}: {why}"
            )
        operator = self._pair.old.operators[makers[0]]
        if operator.name in (*MOVING, *CHOOSING) and any(each in pinned for each in operator.inputs):
            return None
        if makers[0] not in self._operators or operator.name not in RULES:
            raise ModelUnsupportedError(
                f"{self._pair.operator_name(makers[0])} cannot be requantised, and {why}"
            )
        return Requantised(self._pair.operator_name(makers[0]), new, old)

    def _rescale_bias(self, index: int, pinned: dict[int, str]) -> None:
        """Convert the bias of a layer to steps of the new scale of its input."""
        operator = self._pair.old.operators[index]
        if operator.name not in WEIGHTED or operator.inputs[0] not in pinned:
            return
        old, new = self._quantisations(operator.inputs[0])
        bias = operator.inputs[2] if len(operator.inputs) > 2 else ABSENT
        if bias == ABSENT or old is None or new is None or old.scale == new.scale:
            return
        tensor = self._pair.new.tensors[self._pair.tensors[bias]]
        finer = new.scale / old.scale
        values = np.rint(np.frombuffer(tensor.data, "<i4").astype(np.float64) * finer)
        if np.abs(values).max(initial=0) > _LARGEST_BIAS:
            raise self._pair.refusal(index, "its bias overflows in steps of the compiled file's scale")
        quantization = replace(
            tensor.quantization, scales=(tensor.quantization.scales / np.float32(finer)).astype(np.float32)
        )
        self._changes[self._pair.tensors[bias]] = TensorChange(
            quantization=quantization if quantization.scales.size else None,
            data=values.astype("<i4").tobytes(),
        )
