"""Real matrices on Dense models: padding, tiles, scales, clipping, passes, and accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.divisible_work import run_pieces
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import ClippingError, DeviceError, InputError, ModelUnsupportedError
from edgetpu_driver.matrix.engine_tiles import EngineTiles
from edgetpu_driver.matrix.matmul import MatMul
from edgetpu_driver.matrix.tile_plan import Tile
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.replaceable_weights import INT8_MAX
from edgetpu_driver.weights.sidecar_files import SidecarFiles

SIZE = 64
GRAPH = dense.build(SIZE)


def gaussian(*shape: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(shape)


def relative_error(outputs: NDArray[Any], expected: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean((outputs - expected) ** 2) / np.mean(expected**2)))


def ideal_error(matrix: NDArray[np.float64], vectors: NDArray[np.float64]) -> float:
    """With symmetric 8-bit weights, inputs and outputs, and the best static scale for each.

    Scales: one for all inputs, one for all outputs, one per row of weights.
    """

    def quantised(values: NDArray[np.float64]) -> NDArray[np.float64]:
        candidates = []
        for headroom in np.arange(2.0, 5.5, 0.1):
            scale = headroom * values.std() / 127
            candidates.append(np.clip(np.rint(values / scale), -127, 127) * scale)
        return min(candidates, key=lambda each: float(np.mean((each - values) ** 2)))

    weights = np.array([quantised(row) for row in matrix])
    return relative_error(quantised(quantised(vectors) @ weights.T), vectors @ matrix.T)


@pytest.fixture(scope="module")
def on_cpu() -> MatMul:
    return MatMul(size=SIZE)


@pytest.fixture
def stick() -> VirtualEdgeTpu:
    return VirtualEdgeTpu()


@pytest.fixture
def on_stick(stick: VirtualEdgeTpu) -> Iterator[MatMul]:
    model = CompiledModel.parse(pack(GRAPH, name="dense"), "dense")
    stick.register_model(model, GRAPH)
    with EdgeTpu.open(usb_backend=stick) as tpu:

        def another() -> StickEngine:
            return StickEngine(tpu, model, SidecarFiles(GRAPH))

        yield MatMul(another(), engine_factory=another)


@pytest.fixture(params=["cpu", "stick"])
def product(request: pytest.FixtureRequest) -> MatMul:
    """A MatMul with the model's own weights."""
    if request.param == "cpu":
        return MatMul(size=SIZE)
    matmul: MatMul = request.getfixturevalue("on_stick")
    return matmul


@pytest.mark.parametrize(
    ("size", "seed", "rescale_rows"),
    [(256, 0, False), (256, 3, True), (512, 0, False), (1024, 2, True)],
)
def test_it_is_as_exact_as_eight_bits_allow(size: int, seed: int, rescale_rows: bool) -> None:
    matrix, vectors = gaussian(size, size, seed=seed), gaussian(20, size, seed=100 + seed)
    ideal = ideal_error(matrix, vectors)
    if not rescale_rows:
        matrix /= np.abs(matrix).max()
    product = MatMul(size=size)
    product.set_weights(matrix, rescale_rows=rescale_rows)
    assert relative_error(product.multiply(vectors).outputs, vectors @ matrix.T) <= 1.2 * ideal


@pytest.mark.parametrize("size", [256, 512])
def test_rows_that_use_all_of_their_range_are_as_exact_as_others(size: int) -> None:
    matrix = np.random.default_rng(0).uniform(-1, 1, (size, size))
    vectors, product = gaussian(20, size, seed=1), MatMul(size=size)
    product.set_weights(matrix)
    assert relative_error(product.multiply(vectors).outputs, vectors @ matrix.T) < 0.0165


def test_a_matrix_of_the_largest_weights_is_as_exact_as_others() -> None:
    matrix = np.sign(gaussian(256, 256))
    vectors, product = gaussian(20, 256, seed=1), MatMul(size=256)
    product.set_weights(matrix)
    assert relative_error(product.multiply(vectors).outputs, vectors @ matrix.T) < 0.0165


def test_rows_are_as_exact_as_each_other_whatever_their_size(product: MatMul) -> None:
    sizes = np.logspace(-6, 0, SIZE)
    matrix, vectors = gaussian(SIZE, SIZE) * sizes[:, np.newaxis], gaussian(20, SIZE, seed=1)
    matrix /= np.abs(matrix).max()
    swap = product.set_weights(matrix)
    outputs, expected = product.multiply(vectors).outputs, vectors @ matrix.T
    errors = [relative_error(outputs[:, row], expected[:, row]) for row in range(SIZE)]
    assert max(errors) < 0.04
    assert swap.clipped == 0
    assert np.all(swap.row_scales <= 1.5 * np.abs(matrix).max(axis=1) / INT8_MAX)


def test_both_engines_give_the_same_products(on_cpu: MatMul, on_stick: MatMul) -> None:
    matrix, vectors = gaussian(SIZE, SIZE), gaussian(5, SIZE, seed=1)
    outputs = []
    for product in (on_cpu, on_stick):
        product.set_weights(matrix, rescale_rows=True)
        outputs.append(product.multiply(vectors))
    step = outputs[0].input_scale / (1 / INT8_MAX) * dense.output_scale(SIZE) * 30
    assert np.abs(outputs[0].outputs - outputs[1].outputs).max() <= step


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (64, 20), (20, 64), (65, 64), (100, 200)])
def test_any_shape_is_padded_or_cut_into_tiles(product: MatMul, shape: tuple[int, int]) -> None:
    matrix, vectors = gaussian(*shape), gaussian(6, shape[1], seed=1)
    product.set_weights(matrix, rescale_rows=True)
    result = product.multiply(vectors)
    assert product.shape == shape
    assert result.outputs.shape == (6, shape[0])
    assert result.outputs.dtype == np.float32
    assert relative_error(result.outputs, vectors @ matrix.T) < 0.03


def test_one_vector_gives_one_vector(on_cpu: MatMul) -> None:
    on_cpu.set_weights(np.eye(4), rescale_rows=True)
    result = on_cpu.multiply([1.0, -2.0, 0.0, 0.5])
    np.testing.assert_allclose(result.outputs, [1.0, -2.0, 0.0, 0.5], atol=0.05)
    assert not on_cpu.multiply(np.zeros(4)).outputs.any()


@pytest.mark.parametrize(("size", "inputs"), [(1e-24, 1e-6), (1e-12, 1e-12), (1e12, 1e12), (1e36, 1e-30)])
def test_rescaled_matrices_and_inputs_may_have_any_size(on_cpu: MatMul, size: float, inputs: float) -> None:
    matrix, vector = size * gaussian(SIZE, SIZE), inputs * gaussian(SIZE, seed=1)
    on_cpu.set_weights(matrix, rescale_rows=True)
    assert relative_error(on_cpu.multiply(vector).outputs, matrix @ vector) < 0.03


def test_a_product_beyond_float32_is_refused(on_cpu: MatMul) -> None:
    on_cpu.set_weights(1e30 * gaussian(SIZE, SIZE), rescale_rows=True)
    with pytest.raises(InputError, match=r"a product that float32 can represent; it is up to \d\.\d+e\+\d+"):
        on_cpu.multiply(1e20 * gaussian(SIZE))


def test_inputs_along_a_row_do_not_saturate_the_output(on_cpu: MatMul) -> None:
    matrix = gaussian(SIZE, SIZE)
    on_cpu.set_weights(matrix, rescale_rows=True)
    result = on_cpu.multiply(matrix[7])
    assert result.outputs[7] == pytest.approx(matrix[7] @ matrix[7], rel=0.03)
    assert (result.clipped, result.saturated) == (0, 0)


def test_a_given_input_scale_is_used_and_clips_only_when_that_is_accepted(on_cpu: MatMul) -> None:
    on_cpu.set_weights(np.eye(3), rescale_rows=True)
    assert on_cpu.multiply([0.1, 0.2, 0.3], input_scale=0.1).input_scale == 0.1
    with pytest.raises(ClippingError, match=r"with 0\.01, 1 inputs are out of range") as raised:
        on_cpu.multiply([1.0, 0.0, 2.0], input_scale=0.01)
    assert raised.value.clipped >= 1
    result = on_cpu.multiply([1.0, 0.0, 2.0], input_scale=0.01, accept_clipping=True)
    assert result.clipped == 1
    assert result.outputs[2] < 1.3


def test_outputs_that_saturate_are_reported(on_cpu: MatMul) -> None:
    on_cpu.set_weights(np.ones((1, SIZE)))
    with pytest.raises(ClippingError, match="0 inputs are out of range, and 1 outputs"):
        on_cpu.multiply(np.ones(SIZE), input_scale=1 / INT8_MAX)
    accepted = on_cpu.multiply(np.ones(SIZE), input_scale=1 / INT8_MAX, accept_clipping=True)
    assert (accepted.clipped, accepted.saturated) == (0, 1)
    # A scale that fits the output leaves three steps per input; passes compensate.
    assert on_cpu.multiply(np.ones(SIZE), passes=8).outputs[0] == pytest.approx(SIZE, rel=0.02)


def test_a_given_scale_holds_what_it_would_for_weights_as_they_are(product: MatMul) -> None:
    product.set_weights(np.full((1, 16), 8 / INT8_MAX))
    # Twelve times larger weights would use their range better but exceed the output range threefold.
    result = product.multiply(np.ones(16), input_scale=1 / INT8_MAX)
    assert result.outputs[0] == pytest.approx(16 * 8 / INT8_MAX, abs=0.02)
    assert (result.saturated, result.weights_version) == (0, 1)


def test_of_two_products_at_once_each_holds_what_it_would_alone(product: MatMul) -> None:
    product.set_weights(np.full((1, 16), 8 / INT8_MAX))
    vectors, scale = np.ones((2, 16)), 1 / INT8_MAX
    other = product.multiplying(vectors, input_scale=scale)
    next(other)  # its first vector has been multiplied
    alone = product.multiply(vectors, input_scale=scale)  # which sets smaller weights
    result = run_pieces(other)
    np.testing.assert_array_equal(result.outputs, alone.outputs)
    assert result.saturated == 0


def test_a_product_with_a_given_scale_leaves_later_ones_as_they_were(product: MatMul) -> None:
    product.set_weights(np.full((1, 16), 0.5 / INT8_MAX))  # without a gain it rounds to zeros
    before = product.multiply(np.ones(16)).outputs
    assert before[0] == pytest.approx(16 * 0.5 / INT8_MAX, rel=0.02)
    assert product.multiply(np.ones(16), input_scale=1 / INT8_MAX).outputs[0] == 0.0
    np.testing.assert_array_equal(product.multiply(np.ones(16)).outputs, before)


def test_products_with_a_given_scale_set_weights_without_gains_once(
    product: MatMul, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large, scale = np.eye(80)[0], (np.arange(80) < 16).astype(float), 1 / INT8_MAX
    product.set_weights(np.full((1, 80), 8 / INT8_MAX))  # two tiles
    of_small = product.multiply(small, input_scale=scale).outputs
    of_large = product.multiply(large, input_scale=scale).outputs
    set_tiles: list[int] = []
    set_tile = EngineTiles._set

    def recorded(tiles: EngineTiles, tile: Tile) -> Any:
        set_tiles.append(tile.index)
        return set_tile(tiles, tile)

    monkeypatch.setattr(EngineTiles, "_set", recorded)
    np.testing.assert_array_equal(product.multiply(large, input_scale=scale).outputs, of_large)
    assert set_tiles == []
    np.testing.assert_array_equal(product.multiply(small, input_scale=scale).outputs, of_small)
    assert set_tiles == [0, 1]
    product.set_weights(np.full((1, 80), 4 / INT8_MAX))
    halved = product.multiply(large, input_scale=scale).outputs
    assert halved[0] == pytest.approx(16 * 4 / INT8_MAX, abs=0.02)


def test_every_pass_lowers_the_error(on_cpu: MatMul) -> None:
    matrix, vectors = gaussian(SIZE, SIZE), gaussian(40, SIZE, seed=1)
    on_cpu.set_weights(matrix, rescale_rows=True)
    products = [on_cpu.multiply(vectors, passes=passes) for passes in (1, 2, 4, 8)]
    errors = [relative_error(product.outputs, vectors @ matrix.T) for product in products]
    assert errors[1] < 0.9 * errors[0]
    assert errors[2] < 0.9 * errors[1]
    assert errors[3] < errors[2]
    assert products[3].pass_rms.shape == (8,)
    assert products[3].pass_rms[0] == pytest.approx(np.sqrt(np.mean((vectors @ matrix.T) ** 2)), rel=0.01)
    assert np.all(np.diff(products[3].pass_rms) < 0)


def test_a_swap_reports_errors_in_units_of_the_matrix(product: MatMul) -> None:
    before = product.multiply(np.zeros(product.shape[1])).weights_version
    matrix = gaussian(100, 70)
    swap = product.set_weights(matrix, rescale_rows=True)
    assert swap.version == before + 1 == product.multiply(np.zeros(70)).weights_version
    assert swap.row_scales.shape == (100,)
    assert swap.row_scales == pytest.approx(np.abs(matrix).max(axis=1) / 127, rel=1e-5)
    assert swap.worst_error <= swap.row_scales.max() / 2 * 1.001
    assert swap.rms_error == pytest.approx(np.sqrt(np.mean(swap.row_scales**2) / 12), rel=0.1)
    assert swap.shape == product.largest_shape


def test_a_matrix_beyond_the_models_range_is_refused_without_rescaling(product: MatMul) -> None:
    product.set_weights(np.full((2, 2), 0.5))
    with pytest.raises(ClippingError, match="expected weights of at most 1"):
        product.set_weights(np.full((2, 2), 3.0))
    assert product.multiply([1.0, 0.0]).outputs == pytest.approx([0.5, 0.5], abs=0.03)
    assert product.set_weights(np.full((2, 2), 3.0), accept_clipping=True).clipped == 4


def test_a_matrix_of_too_many_tiles_is_refused_with_the_size_that_would_fit(on_cpu: MatMul) -> None:
    tile_bytes = SIZE * SIZE + 8 * SIZE
    assert on_cpu.most_tiles == 8_000_000 // tile_bytes
    assert on_cpu.largest_shape == (41 * SIZE, 41 * SIZE)
    message = r"at most 1736 tiles of 64 x 64, such as \[2624, 2624\]; got \[3000, 3000\]"
    with pytest.raises(InputError, match=message):
        on_cpu.set_weights(np.zeros((3000, 3000)))
    with pytest.raises(InputError, match=r"at most 64 x 64; got \[65, 1\]"):
        MatMul(CpuEngine(GRAPH)).set_weights(np.zeros((65, 1)))


@pytest.mark.parametrize(
    "matrix", [[["a"]], [[None]], [[1, 2], [3]], np.eye(2) * 1j, [], 1.0, [[np.nan]], [[1e300]], [[[1.0]]]]
)
@pytest.mark.parametrize("rescale_rows", [False, True])
def test_weights_that_are_not_a_matrix_are_refused(on_cpu: MatMul, matrix: Any, rescale_rows: bool) -> None:
    with pytest.raises(InputError):
        on_cpu.set_weights(matrix, rescale_rows=rescale_rows)


def test_products_use_the_clipped_matrix(on_cpu: MatMul) -> None:
    on_cpu.set_weights(np.diag([3e38, -2.0, 0.5]), accept_clipping=True)
    assert on_cpu.multiply([1.0, 1.0, 1.0]).outputs == pytest.approx([1.0, -1.0, 0.5], abs=0.05)


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        (np.zeros(5), {}),
        (np.zeros((2, 2, 4)), {}),
        (np.zeros((0, 4)), {}),
        ([np.nan, 0, 0, 0], {}),
        ([np.inf, 0, 0, 0], {}),
        ([1e300, 0, 0, 0], {}),
        (["a", "b", "c", "d"], {}),
        ([[1, 2, 3, 4], [5]], {}),
        (np.zeros(4), {"passes": 0}),
        (np.zeros(4), {"passes": 65}),
        (np.zeros(4), {"input_scale": -1.0}),
        (np.zeros(4), {"input_scale": np.nan}),
    ],
)
def test_invalid_inputs_are_refused(on_cpu: MatMul, inputs: Any, options: dict[str, Any]) -> None:
    on_cpu.set_weights(np.eye(4))
    with pytest.raises(InputError):
        on_cpu.multiply(inputs, **options)


def test_a_swap_that_fails_in_a_later_tile_leaves_the_whole_old_matrix(
    on_stick: MatMul, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, vector = gaussian(128, 128), gaussian(128, seed=1)
    on_stick.set_weights(old, rescale_rows=True)
    before = on_stick.multiply(vector)
    put, count = StickEngine.prepare_weights, iter(range(100))

    def fail_third(engine: StickEngine, *args: Any, **options: Any) -> Any:
        if next(count) == 2:
            raise DeviceError("lost")
        return put(engine, *args, **options)

    monkeypatch.setattr(StickEngine, "prepare_weights", fail_third)
    with pytest.raises(DeviceError):
        on_stick.set_weights(-old, rescale_rows=True)
    after = on_stick.multiply(vector)
    np.testing.assert_array_equal(before.outputs, after.outputs)
    assert after.weights_version == before.weights_version


def test_a_first_swap_that_fails_in_a_later_tile_leaves_the_models_own_weights(product: MatMul) -> None:
    vector = gaussian(SIZE, seed=1)
    before = product.multiply(vector)
    with pytest.raises(ClippingError):
        product.set_weights(np.repeat([0.5, 3.0], SIZE)[:, np.newaxis])
    after = product.multiply(vector)
    np.testing.assert_array_equal(before.outputs, after.outputs)
    assert (after.weights_version, product.shape) == (0, (SIZE, SIZE))


def test_a_refusal_counts_clipped_values_of_all_tiles() -> None:
    matrix = np.full((2 * SIZE, 3), 0.5)
    matrix[[0, SIZE - 1, SIZE, 2 * SIZE - 1], [0, 1, 2, 0]] = 3.0
    with pytest.raises(ClippingError, match="4 of 384 are beyond, by up to 2") as refusal:
        MatMul(size=SIZE).set_weights(matrix)
    assert refusal.value.clipped == 4


def test_a_model_that_is_not_a_matrix_is_refused() -> None:
    graph = GraphBuilder()
    x, z = (graph.input(name, (1, 4), np.int8, scale=1, zero_point=0) for name in "xz")
    graph.output(graph.add(x, z, scale=1, zero_point=0, name="y"))
    with pytest.raises(ModelUnsupportedError, match="one input and one output"):
        MatMul(CpuEngine(graph.build()))


@pytest.mark.parametrize(
    ("options", "zero_point", "reason"),
    [
        ({"bias": np.full(8, 100_000)}, 0, "does more, such as adding a bias"),
        ({"activation": "RELU"}, 0, "does more, such as adding a bias"),
        ({}, -127, "either side of zero"),
    ],
    ids=["a bias", "an activation", "outputs above zero only"],
)
def test_a_layer_that_gives_no_plain_product_is_refused(
    options: dict[str, Any], zero_point: int, reason: str
) -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 8), np.int8, scale=1 / 127, zero_point=0)
    weights = np.eye(8, dtype=np.int8)
    graph.output(graph.fully_connected(x, weights, 1 / 127, scale=0.1, zero_point=zero_point, **options))
    with pytest.raises(ModelUnsupportedError, match=reason):
        MatMul(CpuEngine(graph.build()))
