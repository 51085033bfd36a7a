"""Work on bytes: relayout of outputs, encoding of parameters, parsing of models.

Baseline: a copy of the same bytes; for parsing, opening the same file with LiteRT.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from bench.models import golden, packed_dense
from bench.timing import compare
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import DataType, Layer
from edgetpu_driver.darwinn.output_tiles import TileGather
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout
from edgetpu_driver.virtual.output_tile_assignment import output_layout
from measured_figures.row import Row

AREA = "formats"
_PARSED = ("gabor_64x64_7k_4o_2s", "dense_256", "gabor_64x64_p4")


def rows() -> Iterator[Row]:
    """Measure."""
    yield _relayout(64, 4.0)
    yield _relayout(128, 2.0)
    yield _dense_parameters(256, 15.0)
    yield _dense_parameters(1024, 15.0)
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "dense_1024_edgetpu.tflite"
        packed.write_bytes(packed_dense(1024))
        yield _parse("dense_1024, packed", packed)
    for case in _PARSED:
        path = golden(case)
        if path is not None:
            yield _parse(case, path)


def _relayout(side: int, reach: float) -> Row:
    """Measure converting a tiled output of the chip to an array in the model's order."""
    shape = (side, side, 8)
    size = side * side * 8
    layer = Layer("output", size, shape, DataType.FIXED_POINT8, 0, 1.0, output_layout(shape))
    gather = TileGather(layer)
    wire = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    return compare(lambda: gather.gather(wire), wire.copy).row(
        AREA, f"relayout {side}x{side}x8", "copy", reach
    )


def _dense_parameters(size: int, reach: float) -> Row:
    """Measure encoding an int8 matrix as the parameters of a Dense model of that size."""
    rng = np.random.default_rng(0)
    layout = DenseLayout(size)
    blob = layout.new_blob(rng.uniform(1e-4, 2e-4, size))
    weights = rng.integers(-128, 128, (size, size), np.int8)
    return compare(lambda: layout.encode(weights, blob), weights.copy).row(
        AREA, f"Dense parameters, N = {size}", "copy", reach
    )


def _parse(case: str, path: Path) -> Row:
    """Measure parsing a file into a CompiledModel."""
    return compare(lambda: CompiledModel.load(path), lambda: Interpreter(str(path))).row(
        AREA, f"parse {case}", "LiteRT", None
    )
