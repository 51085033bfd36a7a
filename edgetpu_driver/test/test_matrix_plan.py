"""Plans of real matrices on Dense models, run on a Dense model in eight bits that is written down here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.matrix import product_passes
from edgetpu_driver.matrix.dense_model import DenseModel
from edgetpu_driver.matrix.engine_tiles import EngineTiles
from edgetpu_driver.matrix.product_passes import RealProduct
from edgetpu_driver.matrix.scaling import ALWAYS, OUTPUT_HEADROOM, RowGains
from edgetpu_driver.matrix.tile_plan import MatrixPlan, PlanOptions, make_plan
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.replaceable_weights import WeightTensor
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

SIZE = 256
ROW_SCALES = np.random.default_rng(256).uniform(8.39e-4, 8.5e-4, SIZE).astype(np.float32)
RESCALED = pytest.mark.parametrize("rescale_rows", [False, True], ids=["compiled scales", "rescaled rows"])

Array = NDArray[np.float64]


def spec(name: str, scale: float, zero_point: int, size: int = SIZE, dtype: type = np.uint8) -> TensorSpec:
    return TensorSpec(name, (1, size), np.dtype(dtype), scale, zero_point)


def tensor(size: int = SIZE, pure: bool = True) -> WeightTensor:
    return WeightTensor(
        "w", "FULLY_CONNECTED", (size, size), ROW_SCALES[:size], has_row_scales=True, is_pure_matmul=pure
    )


def dense_model(output_scale: float = 0.01904886) -> DenseModel:
    """By default what Google's compiler made of a Dense(256) layer."""
    return DenseModel.of([spec("x", 0.00784303, 127)], [spec("y", output_scale, 129)], tensor())


class EightBitEngine:
    """A Dense model in int8 steps, rounded to nearest; counts what its outputs clip."""

    def __init__(self, dense: DenseModel) -> None:
        self.dense = dense
        self.inputs, self.outputs = (dense.input,), (dense.output,)
        self.set: list[tuple[int, ...]] = []
        """Shapes of the weights that were set."""
        self.clipped = 0

    def weight_tensor(self, tensor: str = "") -> WeightTensor:
        assert tensor == ""
        return self.dense.tensor

    def set_weights(self, request: WeightRequest) -> WeightResult:
        rows, columns = request.weights.shape
        gains = np.ones(rows) if request.row_gains is None else request.row_gains
        if request.rescale_rows:
            scales = np.abs(request.weights).max(axis=1) / 127
            scales[scales == 0] = 1.0
            steps, self._multipliers = np.rint(request.weights / scales[:, np.newaxis]), scales * gains
        else:
            scales = ROW_SCALES[:rows].astype(np.float64)
            steps = np.rint(request.weights * (gains / scales)[:, np.newaxis])
            self._multipliers = scales
        assert np.abs(steps).max() <= 127
        self._steps = np.zeros((rows, SIZE))
        self._steps[:, :columns] = steps
        self.set.append((rows, columns))
        return WeightResult(len(self.set), scales.astype(np.float32), 0, 0.0, 0.0)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        x, y = self.dense.input, self.dense.output
        sums = self._steps @ (inputs["x"][0].astype(np.float64) - x.zero_point)
        steps = np.rint(sums * self._multipliers * (x.scale / y.scale)) + y.zero_point
        self.clipped += int(((steps < 0) | (steps > 255)).sum())
        outputs = np.full(y.shape, y.zero_point, np.uint8)
        outputs[0, : len(steps)] = np.clip(steps, 0, 255)
        return {"y": outputs}


class Multiplier:
    """A matrix on as many such models as it has tiles."""

    def __init__(
        self,
        matrix: Any,
        headroom: float = OUTPUT_HEADROOM,
        rescale_rows: bool = False,
        dense: DenseModel | None = None,
    ) -> None:
        self.dense = dense or dense_model()
        self.plan: MatrixPlan = make_plan(matrix, self.dense, PlanOptions(rescale_rows, headroom=headroom))
        self.engines: list[EightBitEngine] = []
        self.tiles = EngineTiles([self.engine()], self.engine)
        self.tiles.hold(self.plan)

    def engine(self) -> EightBitEngine:
        self.engines.append(EightBitEngine(self.dense))
        return self.engines[-1]

    @property
    def clipped(self) -> int:
        return sum(engine.clipped for engine in self.engines)

    def multiply(self, vector: Any, passes: int = 1) -> RealProduct:
        values = self.plan.checked_vector(vector)
        return self.tiles.run(product_passes.multiply(self.plan, values[np.newaxis], passes)).only


def relative_error(model: Multiplier, matrix: Array, vectors: Array) -> float:
    errors = [model.multiply(vector).outputs - matrix @ vector for vector in vectors]
    return float(np.std(errors) / np.std(vectors @ matrix.T))


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(1)


class TestDenseModel:
    def test_it_has_the_size_and_the_ranges_of_its_tensors(self) -> None:
        dense = dense_model()
        assert (dense.rows, dense.columns) == (256, 256)
        assert dense.input_range == pytest.approx(127 * 0.00784303)
        assert dense.output_range == pytest.approx(126 * 0.01904886)

    @pytest.mark.parametrize(
        ("inputs", "outputs"),
        [
            ([spec("x", 0.0, 0, dtype=np.float32)], [spec("y", 0.02, 129)]),
            ([spec("x", 0.5, 127)], [spec("y", 0.0, 0, dtype=np.float32)]),
            ([spec("x", 0.5, 0)], [spec("y", 0.02, 129)]),
            ([spec("x", 0.5, 127)], [spec("y", 0.02, 0)]),
            ([spec("x", 0.5, 127)] * 2, [spec("y", 0.02, 129)]),
            ([spec("x", 0.5, 127)], [spec("y", 0.02, 129, size=64)]),
        ],
        ids=["float in", "float out", "one-sided in", "one-sided out", "two inputs", "other weights"],
    )
    def test_other_tensors_are_refused(self, inputs: list[TensorSpec], outputs: list[TensorSpec]) -> None:
        with pytest.raises(ModelUnsupportedError, match="expected a Dense model"):
            DenseModel.of(inputs, outputs, tensor())

    def test_a_model_that_does_more_than_multiply_is_refused(self) -> None:
        with pytest.raises(ModelUnsupportedError, match="adding a bias or an activation"):
            DenseModel.of([spec("x", 0.5, 127)], [spec("y", 0.02, 129)], tensor(pure=False))


class TestRows:
    """How rows are fitted into the weights of a model whose outputs hold whatever comes."""

    ROOMY = dense_model(output_scale=1e4)

    def steps(self, matrix: Array) -> Array:
        (tile,) = make_plan(matrix, self.ROOMY, PlanOptions()).tiles
        return np.asarray(tile.model_weights / ROW_SCALES[: len(matrix), np.newaxis])

    def test_each_fills_its_range_with_whole_steps(self, random: np.random.Generator) -> None:
        matrix = random.choice([-1.0, 0.5, 1.0], (10, 256)) * 10.0 ** np.arange(-5, 5)[:, np.newaxis]
        steps = self.steps(matrix)
        assert np.abs(steps).max(axis=1) == pytest.approx(np.full(10, 127))
        assert np.abs(steps - np.rint(steps)).max() < 1e-4

    def test_the_effective_matrix_is_off_by_half_a_step(self, random: np.random.Generator) -> None:
        matrix = random.normal(size=(256, 256))
        error = np.abs(make_plan(matrix, self.ROOMY, PlanOptions()).effective - matrix)
        assert np.median(error.max(axis=1) / np.abs(matrix).max(axis=1)) < 0.53 / 127

    def test_rows_of_any_size_have_the_exact_product_along_themselves(
        self, random: np.random.Generator
    ) -> None:
        matrix = random.normal(size=(256, 256)) * 10.0 ** np.linspace(-200, 100, 256)[:, np.newaxis]
        plan = make_plan(matrix, dense_model(), PlanOptions())
        along = np.einsum("ij,ij->i", plan.effective, matrix)
        assert along == pytest.approx(np.einsum("ij,ij->i", matrix, matrix), rel=1e-6)

    def test_it_is_known_how_much_of_each_row_rounding_took(self, random: np.random.Generator) -> None:
        matrix = random.normal(size=(256, 256))
        plan = make_plan(matrix, dense_model(), PlanOptions())
        lost = plan.tiles[0].rounding_lengths
        assert lost == pytest.approx(np.linalg.norm(plan.effective - matrix, axis=1), rel=1e-4)
        assert 0.0 < lost.max() < 0.02 * np.linalg.norm(matrix, axis=1).min()

    @RESCALED
    def test_a_row_of_zeros_stays_one(self, rescale_rows: bool) -> None:
        plan = make_plan([[0.0, 0.0], [1.0, -1.0]], dense_model(), PlanOptions(rescale_rows))
        assert plan.effective == pytest.approx(np.array([[0, 0], [1, -1]]))

    def test_gains_of_one_leave_weights_as_they_are(self) -> None:
        matrix = np.array([[0.05, 0.01], [0.001, 0.0]])
        (tile,) = make_plan(matrix, self.ROOMY, PlanOptions(gains=RowGains.ONE)).tiles
        assert tile.gains.tolist() == [1.0, 1.0]

    def test_a_row_beyond_the_range_stays_there_if_only_rows_in_range_get_gains(self) -> None:
        (tile,) = make_plan([[3.0], [0.01]], self.ROOMY, PlanOptions(gains=RowGains.IN_RANGE)).tiles
        assert tile.gains[0] == 1.0
        assert tile.gains[1] == pytest.approx(127 * ROW_SCALES[1] / 0.01)

    @pytest.mark.parametrize(("steps", "stays"), [(127.49, False), (127.51, True)])
    def test_a_row_is_beyond_the_range_where_it_would_be_clipped(self, steps: float, stays: bool) -> None:
        row = np.full((1, SIZE), steps * ROW_SCALES[0])
        (tile,) = make_plan(row, dense_model(), PlanOptions(gains=RowGains.IN_RANGE)).tiles
        assert (tile.row_gains[0] == 1.0) == stays

    @pytest.mark.parametrize("matrix", [[[np.nan]], [[np.inf]], [1.0], np.zeros((0, 3)), np.ones(3)])
    def test_anything_but_a_finite_matrix_is_refused(self, matrix: Any) -> None:
        with pytest.raises(InputError, match="expected a matrix"):
            make_plan(matrix, dense_model(), PlanOptions())


class TestAccuracy:
    @RESCALED
    @pytest.mark.parametrize("columns", [1, 16, 256])
    def test_with_full_headroom_no_input_whatsoever_clips_an_output(
        self, random: np.random.Generator, columns: int, rescale_rows: bool
    ) -> None:
        matrix = random.normal(size=(64, columns))
        model = Multiplier(matrix, ALWAYS, rescale_rows)
        for vector in (*matrix, np.ones(columns), np.eye(columns)[0] * 1e-6, random.normal(size=columns)):
            model.multiply(vector)
        assert model.clipped == 0

    @RESCALED
    def test_outputs_far_above_the_rms_are_right_too(
        self, random: np.random.Generator, rescale_rows: bool
    ) -> None:
        matrix = random.normal(size=(256, 256))
        model = Multiplier(matrix, rescale_rows=rescale_rows)
        for vector in matrix[:20]:
            product = model.multiply(vector)
            assert (
                np.abs(product.outputs - model.plan.effective @ product.inputs) <= product.errors.bound
            ).all()

    @pytest.mark.parametrize(
        ("rescale_rows", "reach"), [(False, 0.020), (True, 0.0135)], ids=["compiled scales", "rescaled rows"]
    )
    def test_random_products_are_nearly_as_good_as_eight_bits_allow(
        self, random: np.random.Generator, rescale_rows: bool, reach: float
    ) -> None:
        matrix = random.uniform(-1, 1, (256, 256))
        model = Multiplier(matrix, rescale_rows=rescale_rows)
        # Steps of 4.2 / 126 of the output's deviation, 3.5 / 127 of the input's and 1.7 / 127 of the weights'
        # make 0.0131 together; this model's own output range is half used.
        assert relative_error(model, matrix, random.normal(size=(50, 256))) < reach

    def test_where_outputs_are_narrow_rows_are_shortened_to_the_least_error(
        self, random: np.random.Generator
    ) -> None:
        narrow = dense_model(output_scale=0.01904886 / 20)
        matrix, vectors = random.normal(size=(64, 256)), random.normal(size=(30, 256))
        # With rows at full length 0.037, with outputs for which inputs need not be coarse 0.041.
        assert relative_error(Multiplier(matrix, dense=narrow), matrix, vectors) < 0.029

    def test_zeros_are_multiplied_at_the_scale_of_the_model(self) -> None:
        product = Multiplier(np.eye(4)).multiply(np.zeros(4))
        assert product.outputs.tolist() == product.inputs.tolist() == [0.0] * 4

    @pytest.mark.parametrize(("passes", "left"), [(2, 0.8), (8, 0.6)])
    def test_passes_average_rounding_out(self, random: np.random.Generator, passes: int, left: float) -> None:
        model = Multiplier(random.normal(size=(300, 300)))
        one, more, sigmas = [], [], []
        for vector in random.normal(size=(10, 300)):
            exact = model.plan.effective @ vector
            one.append(model.multiply(vector).outputs - exact)
            product = model.multiply(vector, passes)
            more.append(product.outputs - exact)
            sigmas.append(product.errors.sigma)
            assert (
                np.abs(product.outputs - model.plan.effective @ product.inputs) <= product.errors.bound
            ).all()
        assert np.std(more) < left * np.std(one)
        assert np.std(more) == pytest.approx(np.sqrt(np.mean(np.square(sigmas))), rel=0.4)


class TestTiles:
    @pytest.mark.parametrize("size", [(1, 1), (3, 256), (256, 3), (300, 256), (256, 300), (700, 600)])
    def test_the_sum_over_tiles_is_right_within_its_bound(
        self, random: np.random.Generator, size: tuple[int, int]
    ) -> None:
        model = Multiplier(random.normal(size=size))
        for vector in random.normal(size=(5, size[1])):
            product = model.multiply(vector)
            exact = model.plan.effective @ product.inputs
            assert product.outputs.shape == (size[0],)
            assert (np.abs(product.outputs - exact) <= product.errors.bound).all()
            assert np.std(product.outputs - exact) < 1.5 * product.errors.sigma.max()

    def test_all_rows_are_multiplied_by_the_same_rounded_vector(self, random: np.random.Generator) -> None:
        matrix = random.normal(size=(300, 64))
        matrix[256:] = np.eye(44, 64)
        plan = make_plan(matrix, dense_model(), PlanOptions())
        first, second = next(product_passes.multiply(plan, random.normal(size=(1, 64))))
        assert np.array_equal(first.inputs, second.inputs)

    def test_only_tiles_with_changed_rows_are_planned_again(self, random: np.random.Generator) -> None:
        matrix, dense, options = random.normal(size=(700, 300)), dense_model(), PlanOptions()
        before = make_plan(matrix, dense, options)
        matrix[300] = 1.0
        after = make_plan(matrix, dense, options, before, {300})
        assert [tile is old for tile, old in zip(after.tiles, before.tiles, strict=True)] == [
            *(True, True),
            *(False, False),
            *(True, True),
        ]
        assert after.effective[300] == pytest.approx(np.ones(300), abs=1e-2)

    def test_a_matrix_that_grows_or_shrinks_keeps_what_is_unchanged(
        self, random: np.random.Generator
    ) -> None:
        matrix, dense, options = random.normal(size=(600, 8)), dense_model(), PlanOptions()
        small = make_plan(matrix[:300], dense, options)
        grown = make_plan(matrix, dense, options, small, set(range(300, 600)))
        assert [tile in small.tiles for tile in grown.tiles] == [True, False, False]
        shrunk = make_plan(matrix[:500], dense, options, grown, set(range(500, 600)))
        assert [tile in grown.tiles for tile in shrunk.tiles] == [True, False]
        narrower = make_plan(matrix[:500, :4], dense, options, shrunk, set())
        assert [tile in shrunk.tiles for tile in narrower.tiles] == [False, False]

    def test_engines_keep_the_weights_of_unchanged_tiles(self, random: np.random.Generator) -> None:
        matrix = random.normal(size=(300, 8))
        model = Multiplier(matrix)
        matrix[280] = 1.0
        model.tiles.hold(make_plan(matrix, model.dense, model.plan.options, model.plan, {280}))
        assert [engine.set for engine in model.engines] == [[(256, 8)], [(44, 8), (44, 8)]]

    def test_where_engines_are_few_tiles_take_turns(self, random: np.random.Generator) -> None:
        dense = dense_model()
        engine = EightBitEngine(dense)
        tiles = EngineTiles([engine])
        plan = make_plan(random.normal(size=(500, 300)), dense, PlanOptions())
        tiles.hold(plan)
        batch = tiles.run(product_passes.multiply(plan, random.normal(size=(3, 300)), passes=2))
        # Each tile once, the one that was set last first, however many vectors and passes there are.
        assert engine.set == [(256, 256), (256, 44), (244, 256), (244, 44)]
        exact = batch.inputs @ plan.effective.T
        assert np.abs(batch.outputs - exact).max() < 0.1 * np.std(exact)

    @pytest.mark.parametrize("vector", [[1.0], [[1.0, 2.0]], [1.0, np.nan], [np.inf, 1.0], [1e300, 0.0]])
    def test_anything_but_a_finite_vector_is_refused(self, vector: Any) -> None:
        with pytest.raises(InputError, match="expected a vector"):
            Multiplier(np.eye(2)).multiply(vector)
