"""Programs of matrices on a virtual stick that was told of no graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from edgetpu_driver import EdgeTpu, MatMul, VirtualEdgeTpu, dense_model
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.instructions.address_fields import write_field
from edgetpu_driver.darwinn.instructions.operation_fields import named_bits
from edgetpu_driver.darwinn.instructions.operations import cut
from edgetpu_driver.darwinn.programs.dense import (
    SIZES,
    DenseProgram,
    recognise_caching,
    recognise_execution,
)
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain.dense_compiler import compile_dense
from edgetpu_driver.virtual.dense_execution import runs_from_bytes
from testdata import ModelFolder

READS = Requantisation(1.0, -100.0, 101.0, 127, 0, 129)
CACHING = DenseProgram(256, READS).caching()
EXECUTION = DenseProgram(256, READS).execution("x", "y")


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


def test_a_golden_program_is_understood(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    program = recognise_execution(model.execution.bitstreams[0].data)
    assert program is not None
    assert (program.size, program.requantisation.output_zero_point) == (256, 129)
    assert runs_from_bytes(model)
    assert not runs_from_bytes(CompiledModel.load(golden.model("looming_64x64_3x3_edgetpu.tflite")))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("converts_output", [True, False])
def test_programs_are_told_from_their_bytes(size: int, converts_output: bool) -> None:
    program = DenseProgram(size, READS, converts_output)
    assert recognise_caching(program.caching().data) == size
    assert recognise_execution(program.execution("x", "y").data) == program
    assert len(program.execution("x", "y").data) == program.execution_bytes


def test_inserted_addresses_change_nothing() -> None:
    linked = bytearray(EXECUTION.data)
    for field in EXECUTION.field_offsets:
        write_field(linked, field.bit, 0x1234_5678)
    assert recognise_execution(bytes(linked)) == DenseProgram(256, READS)


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def understood_bits(data: bytes, addresses: set[int]) -> set[int]:
    """Bits of a program that may be anything: addresses; and numbers that are read from it."""
    free = {first + bit for first in addresses for bit in range(32)}
    position = 0
    for operation in cut([data])[0].operations:
        for bits in named_bits(operation.kind):
            if bits.name in ("minimum", "maximum", "input_zero_point", "output_zero_point"):
                free |= set(range(position + bits.first, position + bits.last + 1))
        position += 128 * operation.words
    return free


def test_every_single_changed_bit_of_an_upload_is_found() -> None:
    free = understood_bits(CACHING.data, {field.bit for field in CACHING.field_offsets})
    missed = {bit for bit in range(8 * len(CACHING.data)) if recognise_caching(flipped(CACHING.data, bit))}
    assert missed == free


def test_changed_bits_of_an_execution_are_found_in_every_word() -> None:
    """Two bits of every word, and all of the fields that are read."""
    free = understood_bits(EXECUTION.data, {field.bit for field in EXECUTION.field_offsets})
    bits = {128 * word + (37 * word + each) % 128 for word in range(264) for each in (0, 64)} | free
    expected = DenseProgram(256, READS)
    for bit in sorted(bits):
        found = recognise_execution(flipped(EXECUTION.data, bit))
        if bit not in free:
            assert found is None, f"bit {bit}"
        elif found is not None and any(0 <= bit - field.bit < 32 for field in EXECUTION.field_offsets):
            assert found == expected
        elif found is not None:
            assert found.requantisation != READS
