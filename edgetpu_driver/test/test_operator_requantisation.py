"""Requantisation of MAXIMUM, MAX_POOL_2D, PReLU and SOFTMAX, against the numbers in public compiled files."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver.darwinn.instructions.operations import Chunk, Operation
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.tflite.model_reader import Operator, Subgraph, Tensor, per_tensor
from edgetpu_driver.tflite.shared_quantisation import ChipQuantisation
from edgetpu_driver.toolchain.retargeting.border_sides import border_sides
from edgetpu_driver.toolchain.retargeting.operator_requantisation import Step, steps_of
from edgetpu_driver.toolchain.retargeting.scalar_softmax import (
    scalar_softmaxes,
    with_numbers,
    zero_point_location,
)
from edgetpu_driver.weights.network_layers import encode_network

INT8 = np.dtype(np.int8)


def tensor(scale: float, zero_point: int, shape: tuple[int, ...] = (1, 8, 8, 4), data: bytes = b"") -> Tensor:
    """zero_point: as the chip has it."""
    return Tensor("x", shape, INT8, data=data, quantization=per_tensor(scale, zero_point - 128))


def graph(operator: str, *tensors: Tensor) -> Subgraph:
    """One operator, whose result is the last tensor."""
    last = len(tensors) - 1
    operators = (Operator(operator, "", tuple(range(last)), (last,)),)
    return Subgraph("g", tensors, (0,), (last,), operators)


def steps(operator: str, *tensors: Tensor, has_section: bool = False) -> dict[str, Step]:
    """Those of the operator, by role."""
    found = steps_of(graph(operator, *tensors), ({},), 0, has_section=has_section)
    return {step.role: step for step in found}


@pytest.mark.parametrize(
    ("scale", "zero_point", "middle", "half", "least", "one", "limits", "offset"),
    [
        (0.09120363742113113, 100, 128, 0.5, -128.0, 1.0, (-100.0, 155.0), 156),
        (0.11074110865592957, 63, 127, 0.5, -127.0, 1.0, (-63.0, 192.0), 191),
        (0.1025097593665123, 27, 127, 0.5, -127.00000762939453, 1.0, (-27.000001907348633, 228.0), 227),
        (
            *(0.14345835149288177, 25, 128, 0.4999999701976776, -127.99999237060547),
            *(0.9999999403953552, (-24.999998092651367, 230.0), 231),
        ),
    ],
)
def test_a_maximum_is_half_a_difference_and_twice_that_added(
    scale: float,
    zero_point: int,
    middle: int,
    half: float,
    least: float,
    one: float,
    limits: tuple[float, float],
    offset: int,
) -> None:
    found = steps("MAXIMUM", *[tensor(scale, zero_point)] * 3)
    difference, larger = found[f"difference_{middle}"], found[f"larger_{middle}"]
    assert difference.requantisation == Requantisation(half, least, 0.0, 0, 1, middle)
    assert (larger.requantisation, larger.offset) == (
        Requantisation(one, *limits, 0, 2, zero_point),
        offset,
    )


def test_a_pooling_subtracts_its_zero_point_where_it_finds_the_largest_value() -> None:
    step = steps("MAX_POOL_2D", *[tensor(0.1025097593665123, 27)] * 2)["maximum_of_window"]
    assert step.requantisation == Requantisation(1.0, -27.000001907348633, 228.0, 27, 0, 27)
    assert step.offset == -27


def test_the_factors_of_a_prelu_are_multipliers_in_the_parameters() -> None:
    alpha = np.array([-18, 37, 90, 94], np.int8)
    source, factors, result = (
        tensor(0.09629753977060318, 108),
        tensor(0.008553369902074337, 128, (1, 1, 4), alpha.tobytes()),
        tensor(0.0848691537976265, 117),
    )
    (section,), _ = encode_network(graph("MUL", source, factors, result))
    row = section.data.view("<f4")
    expected = np.array([-0.17469282, 0.35909078, 0.8734641, 0.9122848], np.float32)
    np.testing.assert_array_equal(row[:4], expected)
    assert (row.size, np.count_nonzero(row[4:])) == (16, 0)
    step = steps("MUL", source, factors, result, has_section=True)["product"]
    assert step.requantisation == Requantisation(1.0, -117.0, 138.0, 108, 0, 117)


@pytest.mark.parametrize(("side", "sides"), [(8, 0), (16, 4)])
def test_a_resize_to_the_same_size_has_no_borders(side: int, sides: int) -> None:
    size = Tensor("size", (2,), np.dtype(np.int32), data=np.array([side, side], "<i4").tobytes())
    resize = graph("RESIZE_BILINEAR", tensor(0.5, 82), size, tensor(0.5, 82, (1, side, side, 4)))
    assert border_sides(resize, {}, 0) == sides


def test_padded_channels_have_no_borders() -> None:
    pads = np.array([[0, 0], [0, 0], [0, 0], [0, 4]], "<i4")
    padding = Tensor("pads", (4, 2), np.dtype(np.int32), data=pads.tobytes())
    pad = graph("PAD", tensor(0.5, 82), padding, tensor(0.5, 82, (1, 8, 8, 8)))
    assert border_sides(pad, {}, 0) == 0


SCALE = 0.13083283603191376
WORDS = (0x129880000000000800, 0x9400000000000800, 0x129D00000000000800)
"""Of MobileNet 0.25: to subtract the zero point, to make a float, to multiply by the scale."""


def pass_over_values(zero_point: int, scale: float) -> list[Operation]:
    """Words of the scalar core with these numbers at bit 70."""
    numbers = (zero_point, 9, int(np.float32(scale).view(np.uint32)))
    return [Operation.of(word | number << 70) for word, number in zip(WORDS, numbers, strict=True)]


@pytest.mark.parametrize(("passes", "found"), [(3, ((0, 2), (0, 5), (0, 8))), (2, None), (4, None)])
def test_a_softmax_on_the_scalar_core_has_its_numbers_three_times(
    passes: int, found: tuple[tuple[int, int], ...] | None
) -> None:
    softmax = graph("SOFTMAX", tensor(SCALE, 96), tensor(1 / 256, 0))
    chunk = Chunk(tuple(pass_over_values(96, SCALE) * passes), b"", "")
    assert scalar_softmaxes(softmax, [chunk]) == ({} if found is None else {0: found})


def test_numbers_of_another_softmax_are_not_taken() -> None:
    softmax = graph("SOFTMAX", tensor(SCALE, 96), tensor(1 / 256, 0))
    assert scalar_softmaxes(softmax, [Chunk(tuple(pass_over_values(95, SCALE) * 3), b"", "")]) == {}


def test_a_softmax_on_the_scalar_core_takes_other_numbers() -> None:
    words = pass_over_values(96, SCALE)
    position = zero_point_location((0, 2))[1]
    changed = with_numbers(words[position], words[2], ChipQuantisation(0.2, 120))
    expected = pass_over_values(120, 0.2)
    assert changed == (expected[0], expected[2])
