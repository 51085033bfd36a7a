"""A reset of the reservoir: samples received before it are not processed as if they came after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from builtin_interfaces.msg import Time
from rclpy.parameter import Parameter
from std_msgs.msg import Header
from std_srvs.srv import Trigger

from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.clients.matmul_in_progress import ProductResult
from edgetpu_matrix.nodes.reservoir_node import ReservoirNode

QUEUE_DEPTH = 3


class LateMatrix:
    """A client of an identity matrix that is not ready at first."""

    ready, problem, effective = False, "", np.eye(20)

    def multiply(self, vector: Any, done: Callable[[ProductResult], None]) -> bool:
        if self.ready:
            product: Any = SimpleNamespace(outputs=vector)
            done(ProductResult(product))
        return self.ready

    def close(self) -> None:
        pass


@pytest.fixture
def node(graph: Any, matrix_home: Path) -> Iterator[ReservoirNode]:
    """A reservoir that forecasts its signal by one sample, and whose samples wait."""
    values = {"driver": "/nobody", "model_dir": str(matrix_home), "model": "dense_64", "size": 20}
    values |= {"washout": 0, "horizon": 1, "qos_depth": QUEUE_DEPTH}
    parameters = [Parameter(name, value=value) for name, value in values.items()]
    node = ReservoirNode(parameter_overrides=parameters, namespace="/resets")
    node.client.close()
    node.client = LateMatrix()
    graph.add_node(node)
    yield node
    graph.remove_node(node)
    node.destroy_node()


def hear(node: ReservoirNode, second: int, sample: float) -> None:
    node.counters.received += 1
    node._on_input(Header(stamp=Time(sec=second)), np.array([sample]))


def become_ready(node: ReservoirNode) -> None:
    node.client.ready = True
    node.on_ready()


def numbers_of(node: ReservoirNode) -> list[int]:
    """The samples since the last reset, at each of the latest samples."""
    return [step.number for step in node._recent]


def test_samples_that_wait_across_a_jump_of_time_are_of_the_time_before_it(node: ReservoirNode) -> None:
    for second, sample in ((8, 0.8), (9, 0.9), (1, 0.1)):
        hear(node, second, sample)
    become_ready(node)
    assert numbers_of(node) == [1, 2, 1]
    alone = node._make_network()
    alone.bind(np.eye(20))
    alone.advance(np.zeros(20), [0.1])
    np.testing.assert_array_equal(node._network.state, alone.state)
    assert node._readout.samples == 1  # 0.9 follows 0.8, but 0.1 does not follow 0.9


def test_samples_that_wait_across_a_reset_are_of_the_time_before_it(node: ReservoirNode) -> None:
    hear(node, 1, 0.1)
    hear(node, 2, 0.2)
    assert node._on_reset(Trigger.Request(), Trigger.Response()).success
    hear(node, 3, 0.3)
    become_ready(node)
    assert numbers_of(node) == [1, 2, 1]


def drop_one_sample(node: ReservoirNode) -> None:
    """Have the node hear one sample more than wait while the driver is gone."""
    node.client.ready = False
    for second in range(1, QUEUE_DEPTH + 2):
        hear(node, second, 0.1 * second)


def test_a_jump_counts_even_if_the_first_sample_after_it_is_dropped(node: ReservoirNode) -> None:
    hear(node, 9, 0.9)
    become_ready(node)
    drop_one_sample(node)
    assert node.counters.dropped == 1
    become_ready(node)
    assert numbers_of(node) == list(range(1, QUEUE_DEPTH + 1))


def test_a_dropped_sample_is_not_replaced_by_another_as_a_target(node: ReservoirNode) -> None:
    hear(node, 0, 0.0)
    become_ready(node)
    drop_one_sample(node)
    become_ready(node)
    assert node.counters.dropped == 1
    assert node._readout.samples == QUEUE_DEPTH - 1  # 0.2 is not what followed 0.0


@pytest.mark.parametrize("message", ["NaN", "without the field"])
def test_a_refused_sample_is_not_replaced_by_another_as_a_target(node: ReservoirNode, message: str) -> None:
    become_ready(node)
    hear(node, 1, 0.1)
    hear(node, 2, 0.2)
    if message == "NaN":
        with pytest.raises(InputError, match="a sample of values that float32 can represent"):
            hear(node, 3, np.nan)
    else:
        node.counters.received += 1  # nothing could be read from it
    hear(node, 4, 0.4)
    hear(node, 5, 0.5)
    assert node._readout.samples == 2  # 0.2 after 0.1, 0.5 after 0.4; but 0.4 is not what followed 0.2
