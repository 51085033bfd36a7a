"""Work on bytes: relayout of outputs, encoding of parameters, parsing. Baseline: a copy of the bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.models import golden, packed_dense
from bench.timing import milliseconds
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import DataType, Layer
from edgetpu_driver.darwinn.output_tiles import TileGather
from edgetpu_driver.darwinn.parameters.dense import DenseLayout
from edgetpu_driver.virtual.tile_layout import output_layout
from measured_figures.row import Row

AREA = "formats"


_PARSED: tuple[tuple[str, float | None], ...] = (
    ("gabor_64x64_7k_4o_2s", 0.4),
    ("dense_256", None),
    ("gabor_64x64_p4", None),
)


def rows() -> Iterator[Row]:
    """Measure."""
    yield _relayout(64, 0.03)
    yield _relayout(128, 0.12)
    yield _dense_blob(256, 0.03)
    yield _dense_blob(1024, 0.8)
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "dense_1024_edgetpu.tflite"
        packed.write_bytes(packed_dense(1024))
        yield _parse("dense_1024, packed", packed, 0.3)
    for case, reach in _PARSED:
        path = golden(case)
        if path is not None:
            yield _parse(case, path, reach)


def _relayout(side: int, reach: float) -> Row:
    shape = (side, side, 8)
    size = side * side * 8
    layer = Layer("output", size, shape, DataType.FIXED_POINT8, 0, 1.0, output_layout(shape))
    gather = TileGather(layer)
    wire = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    value, baseline = milliseconds(lambda: gather.gather(wire), wire.copy)
    return Row(AREA, f"relayout {side}x{side}x8", "time", value, "ms", reach, "lower", baseline)


def _dense_blob(size: int, reach: float) -> Row:
    rng = np.random.default_rng(0)
    layout = DenseLayout(size)
    blob = layout.new_blob(rng.uniform(1e-4, 2e-4, size))
    weights = rng.integers(-128, 128, (size, size), np.int8)
    value, baseline = milliseconds(lambda: layout.encode(weights, blob), weights.copy)
    return Row(AREA, f"Dense blob, N = {size}", "time", value, "ms", reach, "lower", baseline)


def _parse(case: str, path: Path, reach: float | None) -> Row:
    content = np.frombuffer(path.read_bytes(), np.uint8)
    value, baseline = milliseconds(lambda: CompiledModel.load(path), content.copy)
    return Row(AREA, f"parse {case}, file to model", "time", value, "ms", reach, "lower", baseline)
