"""Graphs of thousands of operators: each operator is looked at a few times, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from edgetpu_driver.tflite.graph_matching import match_tensors
from edgetpu_driver.tflite.model_reader import NOT_QUANTIZED, Operator, Subgraph, Tensor, per_tensor
from edgetpu_driver.tflite.quantised_inputs import quantised_inputs
from edgetpu_driver.tflite.shared_quantisation import tensors_sharing_quantisation
from edgetpu_driver.toolchain.retargeting.execution_order import ExecutionOrder
from edgetpu_driver.weights import network_layers


class Operators(tuple[Operator, ...]):
    """Operators that count how often all of them are gone through."""

    passes = 0

    def __iter__(self) -> Iterator[Operator]:
        Operators.passes += 1
        return super().__iter__()


def tensor(name: str) -> Tensor:
    return Tensor(name, (1, 8), np.dtype(np.int8), quantization=per_tensor(0.1, 0))


def chain(length: int, prefix: str = "t") -> Subgraph:
    """A graph that quantises again and again to the same scale."""
    steps = [Operator("QUANTIZE", "", (before,), (after,)) for before, after in pairwise(range(length + 1))]
    tensors = tuple(tensor(f"{prefix}{index}") for index in range(length + 1))
    return Subgraph("", tensors, (0,), (length,), Operators(steps))


def parallel(length: int) -> Subgraph:
    """A graph that quantises each of its inputs."""
    real = replace(tensor("x"), dtype=np.dtype(np.float32), quantization=NOT_QUANTIZED)
    inputs = tuple(replace(real, name=f"x{index}") for index in range(length))
    steps = [Operator("QUANTIZE", "", (index,), (length + index,)) for index in range(length)]
    results = tuple(tensor(f"y{index}") for index in range(length))
    numbers = tuple(range(2 * length))
    return Subgraph("", inputs + results, numbers[:length], numbers[length:], Operators(steps))


def passes(work: Callable[[], object]) -> int:
    Operators.passes = 0
    work()
    return Operators.passes


@pytest.mark.parametrize(
    "work",
    [
        lambda length: tensors_sharing_quantisation(chain(length), 0),
        lambda length: match_tensors(chain(length), chain(length, "other")),
        lambda length: quantised_inputs(parallel(length)),
    ],
    ids=["tensors_sharing_quantisation", "match_tensors", "quantised_inputs"],
)
def test_operators_are_gone_through_no_more_often_in_a_larger_graph(work: Callable[[int], object]) -> None:
    assert passes(lambda: work(40)) == passes(lambda: work(4))


def test_the_tensors_of_a_whole_chain_share_their_quantisation() -> None:
    assert tensors_sharing_quantisation(chain(5), 2) == {0, 1, 2, 3, 4, 5}


def test_operators_of_a_chain_run_between_those_around_them() -> None:
    order = ExecutionOrder(chain(100), [((0, 10 * index), index) for index in (0, 50, 99)])
    assert [order.allows(25, (0, place)) for place in (0, 1, 499, 500)] == [False, True, True, False]


def test_softmaxes_that_share_constants_get_sections_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    values = replace(tensor("t"), shape=(1, 4096))
    steps = tuple(Operator("SOFTMAX", "", (0,), (1,)) for _ in range(100))
    graph = Subgraph("", (values, values), (0,), (1,), steps)
    monkeypatch.setattr(network_layers, "_MOST_BYTES", 1 << 20)
    sections, _ = network_layers.encode_network(graph)
    assert [section.data.size for section in sections] == 6 * [196_672]


def test_a_layer_beyond_the_limit_of_sections_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = replace(tensor("w"), shape=(8, 8), data=bytes(64))
    steps = tuple(Operator("FULLY_CONNECTED", "", (0, 1), (2,)) for _ in range(3))
    graph = Subgraph("", (tensor("x"), weights, tensor("y")), (0,), (2,), steps)
    monkeypatch.setattr(network_layers, "_MOST_BYTES", 200)
    sections, unknown = network_layers.encode_network(graph)
    assert [each.data.size for each in sections] == [128, 128]
    assert [each.reason for each in unknown] == ["expected parameters of at most 200 bytes"]
