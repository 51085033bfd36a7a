"""A bias or padding of a Dense graph compiled here is stored in inputs that the layer does not have."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver import EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout, PaddedDenseLayout
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import ModelFormatError, ModelUnsupportedError
from edgetpu_driver.toolchain.compiled_file_writer import write_compiled_file
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocations
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata.graphs.dense_graphs import chip_product, compiled, difference, litert_product, matrix_graph


@pytest.mark.parametrize(("rows", "columns", "size"), [(1, 3, 256), (100, 300, 512), (700, 513, 768)])
def test_a_smaller_matrix_is_padded(rows: int, columns: int, size: int) -> None:
    graph = matrix_graph(rows, columns)
    model = compiled(graph)
    assert (model.inputs[0].shape, model.outputs[0].shape) == ((1, columns), (1, rows))
    assert model.execution.inputs[0].size_bytes == model.execution.outputs[0].size_bytes == size
    assert f"{rows} x {columns} padded to {size} x {size}" in model.remark
    values = np.random.default_rng(1).integers(0, 256, columns, np.uint8)
    assert difference(chip_product(model, values), litert_product(graph, values)) <= 1


def test_a_bias_rides_on_inputs_that_the_layer_does_not_have() -> None:
    bias = np.random.default_rng(2).integers(-100_000, 100_000, 200, np.int32)
    graph = matrix_graph(200, 200, bias=bias)
    model = compiled(graph)
    assert "in 8 unused inputs, one of which the host keeps at one step, exactly" in model.remark
    assert model.input_padding == bytes([*bytes(7), 129])
    values = np.random.default_rng(1).integers(0, 256, 200, np.uint8)
    assert difference(chip_product(model, values), litert_product(graph, values)) <= 1


@pytest.mark.parametrize("input_zero_point", [-128, -127, -28, 0, 127])
def test_a_bias_is_exact_to_the_step(input_zero_point: int) -> None:
    """The bias is what comes of inputs that are all zero: in steps of the accumulator."""
    bias = np.arange(-300, 300, 3, dtype=np.int32)
    model = compiled(matrix_graph(200, 200, bias=bias, input_zero_point=input_zero_point))
    weights = DenseLayout(256).decode(np.frombuffer(model.parameters.cached, np.uint8))
    held = np.frombuffer(model.input_padding, np.uint8).astype(np.int64) - (input_zero_point + 128)
    columns = weights[:200, 200 : 200 + held.size].astype(np.int64)
    np.testing.assert_array_equal(columns @ held, bias)


def test_a_bias_of_multiples_needs_no_finer_input() -> None:
    model = compiled(matrix_graph(200, 200, bias=np.full(200, 1280, np.int32)))
    assert model.input_padding == bytes(1)
    assert "the bias is stored in 1 unused input, exactly" in model.remark


def test_no_larger_program_is_written_for_a_finer_bias() -> None:
    model = compiled(matrix_graph(255, 255, bias=np.full(255, 1000, np.int32)))
    assert (model.execution.inputs[0].size_bytes, model.input_padding) == (256, bytes(1))
    assert "the bias is stored in 1 unused input, rounded by up to 0.0" in model.remark


def test_after_a_relu_the_bias_rides_on_the_largest_value() -> None:
    """The zero point is the smallest value there, and zero bytes are worth nothing."""
    model = compiled(matrix_graph(200, 200, bias=np.full(200, 2550, np.int32), input_zero_point=-128))
    assert model.input_padding == bytes([255])
    assert "the bias is stored in 1 unused input, which the host keeps constant, exactly" in model.remark


def test_a_bias_of_less_than_half_a_step_that_has_no_room_is_said_to_be_left_out() -> None:
    model = compiled(matrix_graph(256, 256, bias=np.full(256, 60, np.int32)))
    assert (model.execution.inputs[0].size_bytes, model.input_padding) == (256, b"")
    assert model.remark.startswith("the bias, of at most 0.059 output steps, is left out; ")


@pytest.mark.parametrize("zero_point", [-128, 0])
def test_the_stick_gets_the_bytes_for_the_bias(zero_point: int) -> None:
    bias = np.arange(-100, 100, dtype=np.int32) * 37
    model = compiled(matrix_graph(200, 200, bias=bias, input_zero_point=zero_point))
    values = np.random.default_rng(1).integers(0, 256, (2, 200), np.uint8)
    with EdgeTpu.open(VirtualEdgeTpu()) as tpu:
        for row in values:  # what is sent after the inputs stays from run to run
            outputs = tpu.run(model, {model.inputs[0].name: row[np.newaxis]})
            np.testing.assert_array_equal(outputs[model.outputs[0].name][0], chip_product(model, row))


def test_padding_that_does_not_fit_is_refused() -> None:
    plan = compiled(matrix_graph(256, 256))
    file = write_compiled_file(
        "x", plan.inputs, plan.outputs, (plan.execution,), compiler="x", input_padding=bytes(1)
    )
    with pytest.raises(ModelFormatError, match="is not for the 0 bytes after one input"):
        CompiledModel.parse(file)


def test_a_bias_that_leaves_no_input_free_takes_the_next_size() -> None:
    graph = matrix_graph(256, 256, bias=np.full(256, 1000, np.int32))
    assert compiled(graph).execution.inputs[0].size_bytes == 512


def test_rows_with_a_bias_on_inputs_keep_their_scales() -> None:
    graph = matrix_graph(100, 100, bias=np.full(100, 1000, np.int32))
    for sidecars in (SidecarFiles(graph), SidecarFiles()):
        (location,) = WeightLocations(compiled(graph), sidecars).known
        assert location.requantisation is None
        assert not location.tensor.is_pure_matmul


@pytest.mark.parametrize("rescale_rows", [False, True])
def test_weights_next_to_a_bias_of_zeros_can_be_replaced(rescale_rows: bool) -> None:
    """Such a bias has no place in the program."""
    weights = np.random.default_rng(3).uniform(-0.4, 0.4, (100, 100))
    x = {"x": np.arange(100, dtype=np.uint8).reshape(1, 100)}
    outputs = []
    with EdgeTpu.open(VirtualEdgeTpu()) as tpu:
        for bias in (None, np.zeros(100, np.int32)):
            graph = matrix_graph(100, 100, bias=bias)
            engine = StickEngine(tpu, compiled(graph), SidecarFiles(graph))
            engine.set_weights(WeightRequest(weights, rescale_rows=rescale_rows))
            outputs.append(engine.run(x)["y"])
            with pytest.raises(ModelUnsupportedError, match="belongs to a layer without a bias"):
                engine.set_weights(WeightRequest(weights, bias=np.ones(100)))
    np.testing.assert_array_equal(outputs[0], outputs[1])


def test_padding_keeps_its_bias_and_refuses_other_bytes() -> None:
    layout = PaddedDenseLayout(3, 5, 256, np.full((3, 2), 7, np.int8))
    blob = layout.new_blob(np.ones(3, np.float32))
    weights = np.arange(15, dtype=np.int8).reshape(3, 5)
    layout.encode(weights, blob)
    whole = DenseLayout(256).decode(blob)
    np.testing.assert_array_equal(whole[:3, 5:7], 7)
    assert np.count_nonzero(whole) == 14 + 6
    np.testing.assert_array_equal(layout.decode(blob), weights)
    np.testing.assert_array_equal(layout.decode_multipliers(blob), [1, 1, 1])
    blob[-1] ^= 1
    with pytest.raises(ModelFormatError, match="the padding of a matrix"):
        layout.decode(blob)
