"""Programs of matrices on a virtual stick that was told of no graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from edgetpu_driver import EdgeTpu, MatMul, VirtualEdgeTpu, dense_model
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.instructions.operations import join, split_by_length
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import TransferTimeoutError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain.dense_compiler import compile_dense
from edgetpu_driver.virtual.matrix_programs.operation_roles import execution_roles
from edgetpu_driver.virtual.runnable_programs import runs_from_bytes
from testdata import ModelFolder


@pytest.fixture
def tpu() -> Iterator[EdgeTpu]:
    with EdgeTpu.open(VirtualEdgeTpu()) as device:
        yield device


def random_graph(rows: int, columns: int, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    source, result = (int(each) for each in rng.integers(-128, 128, 2))
    graph = GraphBuilder("random")
    x = graph.input("x", (1, columns), np.uint8, scale=0.01, zero_point=source + 128)
    x = graph.quantize(x, np.int8, scale=0.01, zero_point=source)
    weights, scales = rng.integers(-127, 128, (rows, columns)), rng.uniform(0.001, 0.01, rows)
    y = graph.fully_connected(x, weights, scales, scale=0.05, zero_point=result)
    graph.output(graph.quantize(y, np.uint8, scale=0.05, zero_point=result + 128, name="y"))
    return graph.build()


@pytest.mark.parametrize(
    ("rows", "columns"), [(256, 256), (512, 512), (768, 768), (1024, 1024), (10, 700), (300, 3)]
)
def test_an_untaught_stick_computes_what_litert_does(rows: int, columns: int, tpu: EdgeTpu) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    from edgetpu_driver import CpuEngine

    graph = random_graph(rows, columns, seed=rows)
    model, reference = CompiledModel.parse(compile_dense(graph).file, "random"), CpuEngine(graph)
    for seed in range(3):
        x = np.random.default_rng(seed).integers(0, 256, (1, columns), np.uint8)
        actual, expected = tpu.run(model, {"x": x})["y"], reference.run({"x": x})["y"]
        assert np.abs(actual.astype(int) - expected).max() <= 1


def test_models_of_one_program_keep_their_own_weights(tpu: EdgeTpu) -> None:
    graphs = [random_graph(100, 100, seed=1), random_graph(100, 100, seed=1)]
    models = [CompiledModel.parse(compile_dense(graph).file) for graph in graphs]
    x = {"x": np.arange(100, dtype=np.uint8).reshape(1, 100)}
    before = tpu.run(models[0], x)["y"]
    tpu.run(CompiledModel.parse(compile_dense(random_graph(100, 100, seed=2)).file), x)
    np.testing.assert_array_equal(tpu.run(models[1], x)["y"], before)


def test_the_matrix_engine_runs_on_an_untaught_stick(tpu: EdgeTpu) -> None:
    rng = np.random.default_rng(0)
    matrix, vector = rng.standard_normal((200, 300)), rng.standard_normal(300)
    product = MatMul(StickEngine(tpu, dense_model(512)))
    for rescale_rows in (False, True):
        product.set_weights(matrix / np.abs(matrix).max(), rescale_rows=rescale_rows)
        outputs = product.multiply(vector).outputs
        exact = matrix @ vector / np.abs(matrix).max()
        assert np.linalg.norm(outputs - exact) / np.linalg.norm(exact) < 0.03


def test_golden_programs_run_from_their_bytes_if_they_are_of_a_matrix(golden: ModelFolder) -> None:
    assert runs_from_bytes(CompiledModel.load(golden.model("dense_256_edgetpu.tflite")))
    assert not runs_from_bytes(CompiledModel.load(golden.model("looming_64x64_3x3_edgetpu.tflite")))


def test_a_program_with_a_wrong_mask_hangs_and_the_driver_recovers() -> None:
    stick = VirtualEdgeTpu()
    graph = random_graph(256, 256, seed=5)
    whole = compile_dense(graph).file
    model = CompiledModel.parse(whole)
    x = {"x": np.arange(256, dtype=np.uint8).reshape(1, 256)}
    stream = model.execution.bitstreams[0].data
    damaged = CompiledModel.parse(whole.replace(stream, changed(stream, "g10", "tiles", 2)))
    with EdgeTpu.open(stick) as tpu:
        before = tpu.run(model, x)["y"]
        with pytest.raises(TransferTimeoutError):
            tpu.run(damaged, x)
        assert stick.hang_reason == "operation g13 number 0: tiles is 0x1 instead of 0x2"
        np.testing.assert_array_equal(tpu.run(model, x)["y"], before)
        assert tpu.info().recoveries == 2


def changed(stream: bytes, role: str, name: str, value: int) -> bytes:
    """A program with another value in a field of the first operation of a role."""
    operations = split_by_length(stream)
    roles = execution_roles(operations)
    assert roles is not None
    part = roles.all(role)[0]
    position = operations.index(part.operation)
    operations[position] = part.operation.with_field(*part.fields[name], value)
    return join(operations)
