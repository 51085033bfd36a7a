"""The weights a virtual stick computes with are those of the parameter bytes that crossed the bus."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import CompiledModel, CpuEngine, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.darwinn.executable import ExecutableType
from edgetpu_driver.darwinn.instructions.address_fields import write_field
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.constant_patch import replace_tensor
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.virtual.processor.simulated_parameter_memory import ParameterMemory
from edgetpu_driver.weights.compiler_layout import encode_parameters
from testdata import ModelFolder
from testdata.graphs.dense_graphs import compiled, matrix_graph

RNG = np.random.default_rng(7)
LAYOUT = DenseLayout(256)


class Real:
    """A real compiled model on a virtual stick, and the graph it was compiled from."""

    def __init__(self, golden: ModelFolder, name: str) -> None:
        self.graph = golden.model(f"{name}.tflite").read_bytes()
        self.model = CompiledModel.load(golden.model(f"{name}_edgetpu.tflite"))
        self.stick = VirtualEdgeTpu().register_model(self.model, self.graph)

    @property
    def parameters(self) -> NDArray[np.uint8]:
        assert self.model.caching is not None
        return np.frombuffer(self.model.caching.parameters, np.uint8).copy()

    def weights(self, name_part: str) -> tuple[str, NDArray[np.int8]]:
        """Name and values of the constant whose operator reads it first."""
        graph = parse_model(self.graph).subgraphs[0]
        operator = next(each for each in graph.operators if each.name == name_part)
        tensor = graph.tensors[operator.inputs[1]]
        return tensor.name, np.frombuffer(tensor.data, np.int8).reshape(tensor.shape)

    def on_the_stick(self, tpu: EdgeTpu, x: NDArray[np.uint8]) -> NDArray[Any]:
        (spec,) = self.model.inputs
        return next(iter(tpu.run(self.model, {spec.name: x}).values()))

    def on_the_cpu(self, graph: bytes, x: NDArray[np.uint8]) -> NDArray[Any]:
        cpu = CpuEngine(graph)
        return next(iter(cpu.run({cpu.inputs[0].name: x.reshape(cpu.inputs[0].shape)}).values()))

    def random_input(self) -> NDArray[np.uint8]:
        return RNG.integers(0, 256, self.model.inputs[0].shape, np.uint8)


@pytest.fixture
def dense(golden: ModelFolder) -> Real:
    return Real(golden, "dense_256")


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("dense_256", "FULLY_CONNECTED"),
        ("color_red_64x64", "CONV_2D"),
        ("gabor_64x64_p4", "DEPTHWISE_CONV_2D"),
        ("looming_64x64_3x3", "CONV_2D"),
        ("bright_64x64", "FULLY_CONNECTED"),
    ],
)
def test_other_weights_in_the_blob_are_computed_with(golden: ModelFolder, name: str, operator: str) -> None:
    real = Real(golden, name)
    tensor, weights = real.weights(operator)
    graph = replace_tensor(real.graph, tensor, np.roll(weights, 1))
    blob = encode_parameters(parse_model(graph)).cached
    x = real.random_input()
    with EdgeTpu.open(usb_backend=real.stick) as tpu:
        before = real.on_the_stick(tpu, x)
        tpu.upload(real.model, blob)
        after = real.on_the_stick(tpu, x)
    np.testing.assert_array_equal(after.ravel(), real.on_the_cpu(graph, x).ravel())
    assert (before != after).any()


def test_a_weight_matrix_is_uploaded_as_the_parameters_of_a_dense_model(dense: Real) -> None:
    matrix = RNG.integers(-127, 128, (256, 256), np.int8)
    tensor, _ = dense.weights("FULLY_CONNECTED")
    x = dense.random_input()
    with EdgeTpu.open(usb_backend=dense.stick) as tpu:
        tpu.upload(dense.model, matrix)
        assert tpu.info().uploads == 1
        result = dense.on_the_stick(tpu, x)
    expected = dense.on_the_cpu(replace_tensor(dense.graph, tensor, matrix), x)
    np.testing.assert_array_equal(result, expected)


def test_a_matrix_of_another_dtype_is_refused(dense: Real) -> None:
    refused = pytest.raises(InputError, match=r"expected weights int8\[256, 256\]; got float64\[256, 256\]")
    with EdgeTpu.open(usb_backend=dense.stick) as tpu, refused:
        tpu.upload(dense.model, np.zeros((256, 256)))  # type: ignore[arg-type]


def test_a_matrix_for_a_model_that_is_not_dense_is_refused(golden: ModelFolder) -> None:
    real = Real(golden, "gabor_64x64_p4")
    refused = pytest.raises(ModelUnsupportedError, match="expected a Dense model")
    with EdgeTpu.open(usb_backend=real.stick) as tpu, refused:
        tpu.upload(real.model, np.zeros((64, 64), np.int8))


def test_the_multipliers_of_the_blob_scale_the_rows(dense: Real) -> None:
    blob = dense.parameters
    multipliers = LAYOUT.decode_multipliers(blob)
    factors = np.linspace(0.25, 2.0, 256)
    LAYOUT.encode_multipliers(multipliers * factors, blob)
    x = dense.random_input()
    sums = LAYOUT.decode(blob).astype(int) @ (x.ravel().astype(int) - dense.model.input_layers[0].zero_point)
    scaled = np.rint(multipliers * factors * sums) + dense.model.output_layers[0].zero_point
    with EdgeTpu.open(usb_backend=dense.stick) as tpu:
        tpu.upload(dense.model, blob.tobytes())
        result = dense.on_the_stick(tpu, x)
    assert np.abs(result.ravel() - np.clip(scaled, 0, 255)).max() <= 1


def test_the_arithmetic_of_the_multipliers_is_that_of_the_graph(dense: Real) -> None:
    """Multipliers just outside what counts as the graph's own give what the graph gives."""
    blob = dense.parameters
    LAYOUT.encode_multipliers(LAYOUT.decode_multipliers(blob) * (1 + 3e-6), blob)
    differences = []
    with EdgeTpu.open(usb_backend=dense.stick) as tpu:
        tpu.upload(dense.model, blob.tobytes())
        for _ in range(50):
            x = dense.random_input()
            ours = dense.on_the_stick(tpu, x).astype(int)
            differences.append(np.abs(ours - dense.on_the_cpu(dense.graph, x)).max())
    assert max(differences) <= 1


def test_a_program_is_known_whatever_addresses_the_host_put_into_it(dense: Real) -> None:
    model = dense.model
    assert model.caching is not None

    def linked(executable: Any) -> Any:
        bitstreams = []
        for each in executable.bitstreams:
            data = bytearray(each.data)
            for field in each.field_offsets:
                write_field(data, field.bit, 0x1234_5678)
            bitstreams.append(replace(each, data=bytes(data)))
        return replace(executable, bitstreams=tuple(bitstreams))

    other = replace(model, execution=linked(model.execution), caching=linked(model.caching))
    assert other.execution.bitstreams[0].data != model.execution.bitstreams[0].data
    x = dense.random_input()
    with EdgeTpu.open(usb_backend=dense.stick) as tpu:
        result = next(iter(tpu.run(other, {model.inputs[0].name: x}).values()))
    np.testing.assert_array_equal(result, dense.on_the_cpu(dense.graph, x))


def test_registering_a_model_again_replaces_it(dense: Real) -> None:
    assert dense.model.caching is not None
    other = replace_tensor(dense.graph, dense.weights("FULLY_CONNECTED")[0], np.zeros((256, 256), np.int8))
    for graph in (dense.graph, other, dense.graph):
        dense.stick.register_model(dense.model, graph)
    program = dense.stick.library.find(dense.model.execution.bitstreams[0].data)
    assert program is not None
    assert len(program.models) == 2


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6"])
@pytest.mark.parametrize("biased", [False, True])
def test_other_multipliers_leave_activation_and_bias_alone(activation: str, biased: bool) -> None:
    """A stick that knows the graph computes what one does that runs the program from its bytes."""
    bias = np.arange(-100, 100, 2, dtype=np.int32) * 300 if biased else None
    graph = matrix_graph(100, 100, activation=activation, bias=bias, output_zero_point=-100)
    model = compiled(graph)
    blob, layout = np.frombuffer(model.parameters.cached, np.uint8).copy(), DenseLayout(256)
    layout.encode_multipliers(1.5 * layout.decode_multipliers(blob), blob)
    x = {"x": RNG.integers(0, 256, (1, 100), np.uint8)}
    outputs = []
    for stick in (VirtualEdgeTpu(), VirtualEdgeTpu().register_model(model, graph)):
        with EdgeTpu.open(usb_backend=stick) as tpu:
            tpu.upload(model, blob.tobytes())
            outputs.append(tpu.run(model, x)["y"])
    np.testing.assert_array_equal(outputs[0], outputs[1])


def test_nothing_is_kept_of_parameters_that_were_overwritten() -> None:
    memory = ParameterMemory()
    for number in range(100):
        program = Mock(type=ExecutableType.PARAMETER_CACHING, tokens={1}, region=1, upload=None)
        program.digest = bytes([number])
        memory.keep(program, bytearray([number]))
    assert (memory.uploaded_by(bytes([98])), memory.uploaded_by(bytes([99]))) == (None, bytes([99]))
    assert sum(len(each) for each in vars(memory).values() if isinstance(each, dict)) == 1
