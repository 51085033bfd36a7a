"""The kinds of foreign clients, and their process: `soak.node_settings soak.foreign_client_kinds KIND ..`.

Three kinds only invoke models, one also replaces weights, and one multiplies by matrices.
"""

from __future__ import annotations

import array
import contextlib
import functools
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from numpy.typing import NDArray
from rclpy.executors import ExternalShutdownException

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_msgs.srv import MatMul, SetWeights
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.graphs.families import write_model
from soak.checks.request_checks import (
    DenseScales,
    ExpectedResults,
    compare,
    judge_product,
    judge_version,
    judge_version_in_use,
    product_bound,
)
from soak.foreign_client import ClientRun, ForeignClient, arrays_of, invoke_request
from soak.outcome_journal import Journal, Judgement, Outcome
from testdata.graphs.compiled_graphs import compiled_graph, segments, source_graph

SWAPPED, MULTIPLIED = 64, 128
"""Numbers of rows of the Dense models whose weights the clients set."""
_MATRIX = 200, 150
"""Rows and columns of the matrix of the multiplying client, which takes four tiles."""
_TILES_ALONG_K = -(-_MATRIX[1] // MULTIPLIED)
_KEPT_VERSIONS = 8
"""Number of versions of weights that a client keeps instead of drawing them again for each answer."""
_INPUTS = 32
"""Number of different inputs of a client that only invokes."""
_PARTS, _SEGMENTS = "parts", tuple(f"chain_segment_{number}_of_3" for number in range(3))
"""Names of a model with parts for the CPU around two for the Edge TPU, and of a pipeline's segments."""


def write_models(directory: Path) -> None:
    """Write the graphs that the clients load."""
    write_model(features.name(), directory)
    for size in (SWAPPED, MULTIPLIED):
        write_model(dense.name(size), directory, dense.build(size))
    chain, compiled = segments(len(_SEGMENTS))
    (directory / "parts.tflite").write_bytes(source_graph(2))
    (directory / "chain.tflite").write_bytes(chain)
    for name, data in zip((_PARTS, *_SEGMENTS), (compiled_graph(2), *compiled), strict=True):
        (directory / f"{name}_edgetpu.tflite").write_bytes(data)


def _graph(directory: Path, name: str) -> bytes:
    return (directory / f"{name}.tflite").read_bytes()


class _UnchangingClient(ForeignClient):
    """A client that invokes a model whose weights never change."""

    used_services = ("invoke",)

    def __init__(self, name: str, model: str | Sequence[str], graph: bytes, run: ClientRun) -> None:
        """graph: the whole model, not compiled."""
        super().__init__(name, model, run)
        engine = CpuEngine(graph)
        self._spec = engine.inputs[0]
        low, high = np.iinfo(self._spec.dtype).min, np.iinfo(self._spec.dtype).max
        shape = (_INPUTS, *self._spec.shape)
        self._inputs = self.random.integers(low, high, shape, self._spec.dtype, endpoint=True)
        self._expected = [dict(engine.run({self._spec.name: each})) for each in self._inputs]

    def next_request(self) -> None:
        """Invoke with one of the inputs."""
        index = int(self.random.integers(_INPUTS))
        request = invoke_request(self.random, self.model, self._inputs[index], self._spec.name)

        def check(answer: Any) -> Judgement:
            if answer.weights_version:
                return Outcome.WRONG, f"version {answer.weights_version} of weights that were never set"
            return compare(arrays_of(answer.outputs), self._expected[index], f"input {index}")

        self.send("invoke", request, check)


class InvokingClient(_UnchangingClient):
    """A client of a model that runs completely on a stick."""

    def __init__(self, run: ClientRun) -> None:
        super().__init__("foreign_invoking", features.name(), _graph(run.models, features.name()), run)


class WholeClient(_UnchangingClient):
    """A client of a model some of whose parts run in a LiteRT process."""

    def __init__(self, run: ClientRun) -> None:
        super().__init__("foreign_whole", f"{_PARTS}_edgetpu", source_graph(2), run)


class PipelineClient(_UnchangingClient):
    """A client of a pipeline whose segments are on different sticks."""

    def __init__(self, run: ClientRun) -> None:
        super().__init__("foreign_pipeline", _SEGMENTS, segments(len(_SEGMENTS))[0], run)


class _SettingClient(ForeignClient):
    """A client that sets the weights of its model: `weights_of(version)` becomes that version."""

    swap_share = 0.05
    """Share of the requests that set weights."""

    def __init__(self, name: str, size: int, shape: tuple[int, int], run: ClientRun) -> None:
        super().__init__(name, dense.name(size), run)
        self.version = 0
        self.newest = 0
        """The highest version that was requested."""
        self._shape, self._seed = shape, run.seed
        # Most answers name one of the latest versions.
        self.weights_of = functools.lru_cache(maxsize=_KEPT_VERSIONS)(self._draw_weights)

    def _draw_weights(self, version: int) -> NDArray[np.float32]:
        """The weights of a version from 1, within the model's range, as a read-only array."""
        random = np.random.default_rng((self._seed, version))
        weights = random.uniform(-0.95, 0.95, self._shape).astype(np.float32)
        weights.setflags(write=False)
        return weights

    def on_loaded(self, version: int) -> None:
        """Continue from the version that the driver has."""
        self.version = version

    def next_request(self) -> None:
        """Send a request that sets weights, or one that uses them."""
        setting = self.in_flight("set_weights")
        if not setting and (self.version == 0 or self.random.random() < self.swap_share):
            self._set()
        elif self.version:
            self.use()

    def use(self) -> None:
        """Send a request that uses the weights; to be overridden."""
        raise NotImplementedError

    def possible_versions(self, acknowledged: int) -> range:
        """The versions that a result may name. acknowledged: the version when its request was sent."""
        return range(acknowledged, self.newest + 1)

    def _set(self) -> None:
        version = self.version + 1
        self.newest = max(self.newest, version)
        weights = self.weights_of(version)
        request = SetWeights.Request(model=self.model, shape=list(weights.shape))
        request.weights = array.array("f", weights.tobytes())

        def check(answer: Any) -> Judgement:
            self.version = answer.weights_version
            self.newest = max(self.newest, self.version)
            return judge_version(answer.weights_version, version)

        self.send("set_weights", request, check)


class SwappingClient(_SettingClient):
    """A client that sets weights and invokes the model with them."""

    used_services = ("set_weights", "invoke")

    def __init__(self, run: ClientRun) -> None:
        super().__init__("foreign_swapping", SWAPPED, (SWAPPED, SWAPPED), run)
        self._expected = ExpectedResults(_graph(run.models, dense.name(SWAPPED)), self.weights_of)

    def use(self) -> None:
        """Invoke with random inputs."""
        inputs, acknowledged = self.random.integers(0, 256, (1, SWAPPED), np.uint8), self.version
        request = invoke_request(self.random, self.model, inputs, "x")

        def check(answer: Any) -> Judgement:
            outputs = arrays_of(answer.outputs)
            possible = self.possible_versions(acknowledged)
            return self._expected.judge(answer.weights_version, possible, {"x": inputs}, outputs)

        self.send("invoke", request, check)


class MultiplyingClient(_SettingClient):
    """A client that sets matrices larger than its model, which the driver tiles, and multiplies by them."""

    used_services = ("set_weights", "matmul")

    def __init__(self, run: ClientRun) -> None:
        super().__init__("foreign_multiplying", MULTIPLIED, _MATRIX, run)
        engine = CpuEngine(_graph(run.models, dense.name(MULTIPLIED)))
        smallest = float(dense.weight_scales(MULTIPLIED).min())
        self._scales = DenseScales(engine.inputs[0].scale, engine.outputs[0].scale, smallest)

    def use(self) -> None:
        """Multiply by a batch of random vectors."""
        batch, passes = int(self.random.choice([1, 1, 4, 16])), int(self.random.choice([1, 1, 1, 3]))
        vectors = self.random.normal(size=(batch, _MATRIX[1])).astype(np.float32)
        request = MatMul.Request(model=self.model, batch=batch, passes=passes)
        request.inputs = array.array("f", vectors.tobytes())
        self.send("matmul", request, partial(self._check, vectors, self.version))

    def _check(self, vectors: NDArray[np.float32], acknowledged: int, answer: Any) -> Judgement:
        judgement = judge_version_in_use(answer.weights_version, self.possible_versions(acknowledged))
        if judgement[0] is Outcome.WRONG:
            return judgement
        matrix = self.weights_of(answer.weights_version)
        outputs = np.frombuffer(answer.outputs, np.float32)
        bound = product_bound(matrix, vectors, answer.input_scale, self._scales, _TILES_ALONG_K)
        return judge_product(outputs, matrix, vectors, bound)


CLIENTS: Mapping[str, Callable[[ClientRun], ForeignClient]] = {
    "invoking": InvokingClient,
    "swapping": SwappingClient,
    "multiplying": MultiplyingClient,
    "whole": WholeClient,
    "pipeline": PipelineClient,
}
"""The clients by the name that `python -m soak.foreign_client_kinds` takes."""


def main() -> int:
    """Run the client KIND until a signal; the other arguments are those of ClientRun, then ROS arguments."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # so that the outcomes are written at the end
    kind, journal, models, seed = sys.argv[1:5]
    period, begin, seconds = map(float, sys.argv[5:8])
    rclpy.init(args=sys.argv[8:])
    node = CLIENTS[kind](ClientRun(Journal(Path(journal)), Path(models), int(seed), period, begin, seconds))
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)
    node.close()
    return 0
