"""Arbitrary weights on a compiled Dense model: the location of each byte, and agreement with LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import Description, Direction, DmaHint, InstructionHint, InterruptHint
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.stick.loaded_model import LoadedModel
from edgetpu_driver.tflite.constant_patch import replace_scales, replace_tensor
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.replaceable_weights import select_tensor, weight_tensors
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocations
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata import ModelFolder

StickOf = Callable[..., tuple[StickEngine, list[bytes]]]
INPUTS = 3
SATURATING = 255.0
"""A multiplier with which every nonzero sum saturates; LiteRT accepts less than 256."""

RNG = np.random.default_rng(0)
CASES: dict[str, Callable[[int, float], NDArray[np.float64]]] = {
    "Gaussian": lambda n, limit: RNG.standard_normal((n, n)) * limit / 4,
    "zeros": lambda n, _: np.zeros((n, n)),
    "extremes": lambda n, limit: RNG.choice([-limit, limit], (n, n)),
    "one sign": lambda n, limit: np.full((n, n), limit),
    "all -1": lambda n, _: np.full((n, n), -1.0),
    "a chessboard": lambda n, limit: np.where(np.indices((n, n)).sum(0) % 2 == 0, limit, -limit),
    "rows of all sizes": lambda n, limit: (
        RNG.uniform(-limit, limit, (n, n)) * np.logspace(-9, 0, n)[:, np.newaxis]
    ),
    "one huge row": lambda n, limit: (
        np.where(np.arange(n)[:, np.newaxis] == n // 3, 1e6, 1e-3 * limit) * RNG.standard_normal((n, n))
    ),
    "one value": lambda n, limit: np.where(np.arange(n * n).reshape(n, n) == n * n // 2 + 7, limit, 0.0),
    "a column": lambda n, limit: np.where(np.arange(n) == n - 1, RNG.uniform(-limit, limit, (n, 1)), 0.0),
    "beyond all scales": lambda n, _: np.where(RNG.random((n, n)) < 0.5, 3e38, -1e-42),
    "small": lambda n, limit: RNG.uniform(-limit, limit, (n // 5, n // 3)),
}


@dataclass(frozen=True, eq=False)
class Dense:
    """A compiled matrix and the graph it was compiled from."""

    model: CompiledModel
    graph: bytes
    size: int


TRAINED = {
    512: ((0.00784308, 127), (0.0188786, 127), (0.0764, 0.9918, 1.0016)),
    1024: ((0.00784311, 128), (0.0208383, 128), (0.0541, 0.9946, 1.0006)),
}
"""Layers trained with TensorFlow and accepted by Google's compiler: scale and zero point of inputs and of
outputs, range of the weights, and the finest and coarsest scale of a row in terms of the first."""


def trained(size: int) -> bytes:
    """A graph quantised like such a layer, with its own weights."""
    source, result, (limit, finest, coarsest) = TRAINED[size]
    scales = limit / 127 * np.random.default_rng(size).uniform(finest, coarsest, size)
    weights = np.random.default_rng(1).integers(-127, 128, (size, size), np.int8)
    graph = GraphBuilder("sequential")
    x = graph.input("keras_tensor", (1, size), np.uint8, scale=source[0], zero_point=source[1])
    steps = graph.quantize(x, np.int8, scale=source[0], zero_point=source[1] - 128)
    y = graph.fully_connected(steps, weights, scales, scale=result[0], zero_point=result[1] - 128)
    graph.output(graph.quantize(y, np.uint8, scale=result[0], zero_point=result[1], name="Identity"))
    return graph.build()


@cache
def packed(size: int, as_trained: bool = False) -> Dense:
    graph = trained(size) if as_trained else dense.build(size)
    return Dense(CompiledModel.parse(pack(graph, name="dense"), "dense"), graph, size)


@pytest.fixture(params=["golden 256", "golden 256 in pieces", 64, 192, "trained 512", "trained 1024"])
def compiled(request: pytest.FixtureRequest) -> Dense:
    if isinstance(request.param, int):
        return packed(request.param)
    if "trained" in request.param:
        return packed(int(request.param.split()[1]), as_trained=True)
    golden: ModelFolder = request.getfixturevalue("golden")
    model = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    if "pieces" in request.param:
        model = in_pieces(model)
    return Dense(model, golden.model("dense_256.tflite").read_bytes(), 256)


def in_pieces(model: CompiledModel) -> CompiledModel:
    """The same with its parameters sent in three transfers that do not end where rows or groups do."""
    assert model.caching is not None
    cuts = (0, 1000, 40_000, len(model.caching.parameters))
    parts = [
        DmaHint(Description.PARAMETER, Direction.INFEED, "", start, end - start)
        for start, end in pairwise(cuts)
    ]
    return replace(
        model, caching=replace(model.caching, hints=(InstructionHint(0), *parts, InterruptHint(0)))
    )


@pytest.fixture
def stick_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[StickOf]:
    """Engines on virtual sticks, with their uploads."""
    opened: list[EdgeTpu] = []

    def make(compiled: Dense, sidecars: SidecarFiles) -> tuple[StickEngine, list[bytes]]:
        stick = VirtualEdgeTpu().register_model(compiled.model, compiled.graph)
        opened.append(EdgeTpu.open(usb_backend=stick))
        uploaded: list[bytes] = []
        upload = LoadedModel.upload
        monkeypatch.setattr(
            LoadedModel, "upload", lambda loaded, blob: (uploaded.append(bytes(blob)), upload(loaded, blob))
        )
        return StickEngine(opened[-1], compiled.model, sidecars), uploaded

    yield make
    for tpu in opened:
        tpu.close()


def weight_offsets(size: int) -> NDArray[np.intp]:
    """[row, column]: groups of 64 rows, each a header of 512 bytes and cells of 64 rows by 4 columns."""
    row, column = np.ogrid[:size, :size]
    return row // 64 * (512 + 64 * size) + 512 + column // 4 * 256 + row % 64 * 4 + column % 4


def multiplier_offsets(size: int) -> NDArray[np.intp]:
    """[row]: the first of the four bytes of each multiplier."""
    row = np.arange(size)
    return row // 64 * (512 + 64 * size) + row % 64 * 4


def litert(compiled: Dense, steps: NDArray[np.int8], scales: NDArray[np.float32]) -> CpuEngine:
    """The source graph with these weights."""
    parsed = parse_model(compiled.graph)
    name = select_tensor(weight_tensors(parsed), "").name
    operator = parsed.subgraphs[0].operators[1]
    tensors = parsed.subgraphs[0].tensors
    per_multiplier = tensors[operator.outputs[0]].spec.scale / tensors[operator.inputs[0]].spec.scale
    usable = np.minimum(scales, np.float32(SATURATING * per_multiplier))
    return CpuEngine(replace_scales(replace_tensor(compiled.graph, name, steps), name, usable))


def run(engine: StickEngine | CpuEngine, x: NDArray[np.uint8]) -> NDArray[np.int64]:
    (values,) = engine.run({engine.inputs[0].name: x}).values()
    return values.astype(np.int64).ravel()


@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize("rescale_rows", [False, True])
def test_any_weights_change_only_their_bytes_and_give_what_litert_gives(
    compiled: Dense, stick_of: StickOf, with_graph: bool, rescale_rows: bool
) -> None:
    size = compiled.size
    assert compiled.model.caching is not None
    own = np.frombuffer(compiled.model.caching.parameters, np.uint8)
    engine, uploaded = stick_of(compiled, SidecarFiles(compiled.graph if with_graph else b""))
    on_cpu = CpuEngine(compiled.graph)
    limit = 127 * float(engine.weight_tensor().scales.min())
    (source,), (result,) = compiled.model.inputs, compiled.model.outputs
    for make in CASES.values():
        weights = make(size, limit).astype(np.float32)
        swap = engine.set_weights(WeightRequest(weights, accept_clipping=True, rescale_rows=rescale_rows))
        steps = np.zeros((size, size), np.int8)
        rows, columns = weights.shape
        with np.errstate(over="ignore"):
            exact = weights / swap.row_scales[:, np.newaxis]
        scales = engine.weight_tensor().scales.copy()
        scales[:rows] = swap.row_scales
        steps[:rows, :columns] = np.clip(np.rint(exact), -127, 127)
        expected = own.copy()
        expected[weight_offsets(size)] = steps.view(np.uint8) ^ 0x80
        if rescale_rows:
            multipliers = np.float32(source.scale) * scales / np.float32(result.scale)
            blob = np.frombuffer(uploaded[-1], np.uint8)
            header = multiplier_offsets(size)[:, np.newaxis] + np.arange(4)
            np.testing.assert_allclose(blob[header].view("<f4").ravel(), multipliers, rtol=3e-7)
            expected[header] = blob[header]
        assert uploaded[-1] == expected.tobytes()
        reference = litert(compiled, steps, scales)
        on_cpu.set_weights(WeightRequest(weights, accept_clipping=True, rescale_rows=rescale_rows))
        for _ in range(INPUTS):
            x = RNG.integers(0, 256, source.shape).astype(source.dtype)
            expected_outputs = run(reference, x)
            assert np.abs(run(engine, x) - expected_outputs).max() <= 1
            assert np.abs(run(on_cpu, x) - expected_outputs).max() <= 1


@pytest.mark.parametrize(
    ("change", "name"), [(1.0, "tfl.pseudo_qconst"), (1.0 + 1.2e-7, "weights"), (1.001, "weights")]
)
def test_multipliers_are_those_of_the_graph_to_the_last_bit(
    golden: ModelFolder, change: float, name: str
) -> None:
    """Otherwise only the headers define the scales, and the matrix has no name."""
    model = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    assert model.caching is not None
    blob = np.frombuffer(model.caching.parameters, np.uint8).copy()
    multipliers = DenseLayout(256).decode_multipliers(blob)
    multipliers[7] *= np.float32(change)
    DenseLayout(256).encode_multipliers(multipliers, blob)
    sidecars = SidecarFiles(golden.model("dense_256.tflite").read_bytes())
    changed = replace(model, caching=replace(model.caching, parameters=blob.tobytes()))
    (location,) = WeightLocations(changed, sidecars).known
    assert location.tensor.name == name
