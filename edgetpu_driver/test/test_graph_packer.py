"""The packer: uncompiled graphs in the compiler's container, with their layouts and programs."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import (
    DataType,
    Description,
    Direction,
    DmaHint,
    ExecutableType,
    FieldOffset,
    InstructionHint,
    InterruptHint,
    Layer,
    Position,
)
from edgetpu_driver.darwinn.output_tiles import TileGather
from edgetpu_driver.errors import InputError, ModelFormatError, ModelUnsupportedError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.virtual import graph_packer as packer
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.virtual.output_tile_assignment import output_layout, padded_elements, round_up
from edgetpu_driver.virtual.packed_program import bitstream
from edgetpu_driver.weights.packed_layout import parameters_of, with_parameters
from testdata import COMPILED_MODELS, ModelFolder

GRAPHS = (
    "bright_64x64",
    "color_red_64x64",
    "dense_256",
    "gabor_64x64_7k_4o_2s",
    "gabor_64x64_p4",
    "looming_64x64_3x3",
    "pattern_64x64_8x8_1ch",
    "pattern_64x64_16x16_1ch",
)
WEIGHTS = np.arange(-6, 6, dtype=np.int8).reshape(3, 1, 1, 4)
BIAS = np.array([1, -1, 256], np.int32)


def graph(
    weights: NDArray[np.int8] = WEIGHTS, bias: NDArray[np.int32] = BIAS, *, scale: float = 0.5
) -> bytes:
    """A 1 x 1 convolution of a 5 x 6 image, uint8 in and int8 out."""
    builder = GraphBuilder("test")
    image = builder.input("image", (1, 5, 6, 4), np.uint8, scale=1.0, zero_point=0)
    inner = builder.quantize(image, np.int8, scale=1.0, zero_point=-128)
    builder.output(
        builder.conv_2d(inner, weights, 0.1, bias=bias, scale=scale, zero_point=-5, name="features")
    )
    return builder.build()


def weightless(
    shape: tuple[int, ...] = (1, 4, 4, 2), dtype: DTypeLike = np.uint8, scale: float = 1.0
) -> bytes:
    builder = GraphBuilder("pool")
    image = builder.input("image", shape, dtype, scale=scale)
    builder.output(builder.custom("other", [image], [TensorSpec("out", shape, np.dtype(dtype), scale, 0)])[0])
    return builder.build()


def packed(source: bytes) -> CompiledModel:
    return CompiledModel.parse(pack(source, name="sample"), "sample")


def programs(model: CompiledModel) -> tuple[bytes, bytes]:
    """The instructions of the execution and caching programs."""
    assert model.caching is not None
    return model.execution.bitstreams[0].data, model.caching.bitstreams[0].data


@pytest.mark.parametrize("name", GRAPHS)
def test_a_packed_graph_has_the_tensors_of_the_graph(golden: ModelFolder, name: str) -> None:
    source = golden.model(f"{name}.tflite").read_bytes()
    model = packed(source)
    model.check_runnable()
    subgraph = parse_model(source).subgraphs[0]
    assert model.inputs == subgraph.input_specs
    assert model.outputs == subgraph.output_specs
    assert model.cpu_operators == ()


@pytest.mark.parametrize("name", GRAPHS[:6])
def test_parameters_are_those_that_the_real_compiler_writes(golden: ModelFolder, name: str) -> None:
    ours = packed(golden.model(f"{name}.tflite").read_bytes())
    real = CompiledModel.load(golden.model(f"{name}_edgetpu.tflite"))
    assert ours.caching is not None
    assert real.caching is not None
    assert ours.caching.parameters == real.caching.parameters


@pytest.mark.parametrize("name", GRAPHS[6:])
def test_parameters_whose_real_layout_is_unknown_are_the_plain_weights(
    golden: ModelFolder, name: str
) -> None:
    source = golden.model(f"{name}.tflite").read_bytes()
    caching = packed(source).caching
    assert caching is not None
    assert caching.parameters == parameters_of(source)


@pytest.mark.parametrize("name", GRAPHS[:6])
def test_layers_are_those_that_the_real_compiler_writes(golden: ModelFolder, name: str) -> None:
    ours = packed(golden.model(f"{name}.tflite").read_bytes())
    real = CompiledModel.load(golden.model(f"{name}_edgetpu.tflite"))
    assert [layer.size_bytes for layer in ours.input_layers] == [i.size_bytes for i in real.input_layers]
    assert ours.output_layers == real.output_layers


@pytest.mark.parametrize("name", COMPILED_MODELS)
def test_output_layouts_are_those_of_the_real_compiler(golden: ModelFolder, name: str) -> None:
    model = CompiledModel.load(golden.model(f"{name}_edgetpu.tflite"))
    for layer in model.execution.outputs:
        assert output_layout(layer.shape) == layer.layout
        assert round_up(padded_elements(layer.shape) * layer.data_type.size, 8) == layer.size_bytes


@pytest.mark.parametrize("shape", [(1, 1, 3000), (1, 1, 1), (2, 1, 3), (3, 5, 1), (1, 2, 130)])
def test_layouts_of_any_shape_place_every_element_once(shape: tuple[int, int, int]) -> None:
    size = round_up(padded_elements(shape), 8)
    layer = Layer("out", size, shape, DataType.FIXED_POINT8, 0, 1.0, output_layout(shape))
    tiles = TileGather(layer)
    values = np.random.default_rng(3).integers(1, 256, shape, np.uint8)
    wire = tiles.scatter(values)
    assert np.count_nonzero(wire) == values.size
    np.testing.assert_array_equal(tiles.gather(wire), values)


def test_transfers_of_a_packed_graph() -> None:
    model = packed(graph())
    assert model.execution.hints == (
        InstructionHint(0),
        DmaHint(Description.INPUT, Direction.INFEED, "image", 0, 120),
        DmaHint(Description.OUTPUT, Direction.OUTFEED, "features", 0, 120),
        InterruptHint(0),
    )
    assert model.caching is not None
    assert model.caching.hints == (
        InstructionHint(0),
        DmaHint(Description.PARAMETER, Direction.INFEED, "", 0, 32),
        InterruptHint(0),
    )


def test_layers_of_a_packed_graph_are_unsigned_on_the_wire() -> None:
    model = packed(graph())
    assert model.input_layers == (Layer("image", 120, (5, 6, 4), DataType.FIXED_POINT8, 0, 1.0),)
    expected = Layer(
        "features",
        size_bytes=120,
        shape=(5, 6, 3),
        data_type=DataType.SIGNED_FIXED_POINT8,
        zero_point=123,
        dequantization_factor=0.5,
        layout=output_layout((5, 6, 3)),
    )
    assert model.output_layers == (expected,)


def test_execution_comes_before_caching_as_in_real_files() -> None:
    model = packed(graph())
    assert model.execution.type is ExecutableType.EXECUTION_ONLY
    assert model.execution.name == "sample"
    assert model.parameter_caching_token != 0


def test_packing_is_reproducible() -> None:
    assert pack(graph(), name="sample") == pack(graph(), name="sample")


def test_other_weights_change_parameters_and_token_but_no_program() -> None:
    first, second = packed(graph()), packed(graph(-WEIGHTS, BIAS + 1))
    assert programs(first) == programs(second)
    assert first.parameter_caching_token != second.parameter_caching_token
    assert first.caching is not None
    assert second.caching is not None
    assert first.caching.parameters != second.caching.parameters


def test_another_quantisation_changes_the_execution_program_only() -> None:
    (execution, caching), (other_execution, other_caching) = (
        programs(packed(graph(scale=scale))) for scale in (0.5, 0.25)
    )
    assert execution != other_execution
    assert caching == other_caching


def test_another_number_of_weights_changes_both_programs() -> None:
    larger = np.ones((8, 1, 1, 4), np.int8)
    for ours, other in zip(
        programs(packed(graph())), programs(packed(graph(larger, np.zeros(8, np.int32)))), strict=True
    ):
        assert ours != other


def test_a_graph_without_weights_is_a_single_part() -> None:
    model = packed(weightless())
    assert model.caching is None
    assert model.execution.type is ExecutableType.STAND_ALONE
    assert (model.parameter_bytes, model.parameter_caching_token) == (0, 0)


def test_more_parameters_than_the_chip_holds_are_sent_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packer, "PARAMETER_MEMORY_BYTES", 31)
    model = packed(graph())
    assert model.caching is None
    assert model.execution.parameters == parameters_of(graph())
    assert DmaHint(Description.PARAMETER, Direction.INFEED, "", 0, 32) in model.execution.hints


def test_parameters_are_weights_then_bias_each_padded() -> None:
    flipped = "7a7b7c7d7e7f808182838485"  # -6..5 with the sign bit flipped
    assert parameters_of(graph()).hex() == flipped + "00000000" + "01000000ffffffff00010000" + "00000000"


def test_parameters_can_be_put_back() -> None:
    other = graph(-WEIGHTS, BIAS * 2)
    assert with_parameters(graph(), parameters_of(other)) == other
    assert with_parameters(graph(), parameters_of(graph())) == graph()


@pytest.mark.parametrize("name", GRAPHS)
def test_parameters_of_real_graphs_can_be_put_back(golden: ModelFolder, name: str) -> None:
    source = golden.model(f"{name}.tflite").read_bytes()
    parameters = parameters_of(source)
    emptied = with_parameters(source, bytes(len(parameters)))
    assert emptied != source
    assert with_parameters(emptied, parameters) == source


@pytest.mark.parametrize("size", [0, 31, 33])
def test_parameters_of_another_size_are_refused(size: int) -> None:
    with pytest.raises(InputError, match=f"expected 32 parameter bytes, got {size}"):
        with_parameters(graph(), bytes(size))


def test_the_frame_of_a_program_is_that_of_a_real_one(golden: ModelFolder) -> None:
    real = CompiledModel.load(golden.model("dense_256_edgetpu.tflite")).execution.bitstreams[0].data
    ours = bitstream(b"digest", len(real) // 16, ["in"], ["out"]).data
    assert len(ours) == len(real)
    assert ours[:16] == real[:16]
    assert ours[-5 * 16 :] == real[-5 * 16 :]


def test_a_program_names_the_addresses_it_loads() -> None:
    lower, upper = Position.LOWER_32BIT, Position.UPPER_32BIT
    program = bitstream(b"digest", 40, ["a", "b"], ["c"])
    expected = [
        (Description.PARAMETER, "", lower),
        (Description.PARAMETER, "", upper),
        (Description.SCRATCH, "", lower),
        (Description.SCRATCH, "", upper),
        (Description.INPUT, "a", upper),
        (Description.INPUT, "a", lower),
        (Description.INPUT, "b", upper),
        (Description.INPUT, "b", lower),
        (Description.OUTPUT, "c", upper),
        (Description.OUTPUT, "c", lower),
    ]
    assert program.field_offsets == tuple(
        FieldOffset(description, name, position, 128 * (1 + index) + 70)
        for index, (description, name, position) in enumerate(expected)
    )


def test_programs_of_different_digests_differ() -> None:
    assert len({bitstream(hashlib.sha256(bytes([i])).digest(), 67, (), ()).data for i in range(50)}) == 50


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (weightless(dtype=np.float32, scale=0.0), r"quantised uint8, int8 or int16; got 'image' float32"),
        (weightless(scale=0.0), "got 'image' uint8.* with scale 0.0"),
        (weightless(dtype=np.int32), "got 'image' int32"),
        (weightless((2, 4, 4, 2)), "a batch of 1; got 'image'"),
        (weightless((2, 4)), "a batch of 1; got 'image'"),
        (weightless((1, 2, 4, 4, 2)), "a batch of 1; got 'image'"),
        (pack(graph(), name="sample"), "compiled for the Edge TPU already"),
    ],
)
def test_what_cannot_be_packed_is_refused_with_the_reason(source: bytes, reason: str) -> None:
    with pytest.raises(ModelUnsupportedError, match=reason):
        pack(source, name="sample")


@pytest.mark.parametrize("source", [b"", b"not a model at all"])
def test_anything_but_a_graph_is_malformed(source: bytes) -> None:
    with pytest.raises(ModelFormatError):
        pack(source, name="sample")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((7,), (1, 1, 7)), ((1, 7), (1, 1, 7)), ((1, 6, 7), (1, 6, 7)), ((1, 5, 6, 7), (5, 6, 7))],
)
def test_shapes_lose_their_batch_on_the_wire(shape: tuple[int, ...], expected: tuple[int, int, int]) -> None:
    assert packed(weightless(shape)).input_layers[0].shape == expected


def test_16_bit_tensors_are_padded_and_unsigned() -> None:
    layer = packed(weightless((1, 3), np.int16)).output_layers[0]
    assert (layer.data_type, layer.zero_point, layer.size_bytes) == (DataType.SIGNED_FIXED_POINT16, 32768, 8)
