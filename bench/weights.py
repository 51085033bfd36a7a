"""Weights at run time: how exact products are, and what a swap costs the host. Baseline: ideal 8 bits.

Ideal are symmetric 8-bit weights, inputs and outputs with the best static scales: one for all inputs, one for
all outputs, and for the weights one for each row or, which is easier to reach, one for all.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.link import InstantStick
from bench.timing import milliseconds
from edgetpu_driver import CompiledModel, EdgeTpu, MatMul, VirtualEdgeTpu
from edgetpu_driver.backends.virtual import VirtualStickBackend
from edgetpu_driver.engines.stick import StickEngine
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.replacement import WeightRequest
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from measured_figures.row import Row

AREA = "weights"
_SWAPS = 2000
_TILE = 256
_VECTORS = 30
_SWAP_REACH = {256: 1.5, 512: None, 1024: 4.0}  # ms
_KNOWN_SWAP = {256: 0.94, 512: None, 1024: 22.9}
"""ms that the best known library needs for the swap alone."""


def rows() -> Iterator[Row]:
    """Measure random Gaussian matrices and vectors, seed 0."""
    for size in _SWAP_REACH:
        yield from _exactness(size)
    for size, reach in _SWAP_REACH.items():
        yield from _swap(size, reach)
    yield _tiles()
    yield _swaps_in_a_row()


def _exactness(size: int) -> Iterator[Row]:
    """On the CPU; the virtual stick gives the same within one step of the output."""
    rng = np.random.default_rng(0)
    matrix, vectors = rng.standard_normal((size, size)), rng.standard_normal((_VECTORS, size))
    by_row = _ideal_error(matrix, vectors, np.array([_ideally_rounded(row) for row in matrix]))
    by_matrix = _ideal_error(matrix, vectors, _ideally_rounded(matrix))
    product = MatMul(size=size)
    case = f"product, N = {size}"
    for rescale, form in ((False, "scales as compiled"), (True, "rows rescaled")):
        used = matrix if rescale else matrix / np.abs(matrix).max()
        product.set_weights(used, rescale_rows=rescale)
        error = _error(product.multiply(vectors).outputs, vectors @ used.T)
        for ideal, metric in ((by_row, "error to ideal"), (by_matrix, "error to ideal, one weight scale")):
            yield Row(AREA, f"{case}, {form}", metric, error / ideal, "", 1.2, "lower", 1.0)
    for passes in (2, 4, 8):
        error = _error(product.multiply(vectors, passes=passes).outputs, vectors @ matrix.T)
        yield Row(AREA, f"{case}, {passes} passes", "error to ideal", error / by_row, "", None, "lower", 1.0)


def _ideal_error(
    matrix: NDArray[np.float64], vectors: NDArray[np.float64], weights: NDArray[np.float64]
) -> float:
    """Of weights as they were rounded; inputs and outputs each at the static scale that is best for them."""
    outputs = _ideally_rounded(_ideally_rounded(vectors) @ weights.T)
    return _error(outputs, vectors @ matrix.T)


def _ideally_rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    scales = values.std() / 127 * np.arange(2.0, 5.5, 0.1)
    rounded = (np.clip(np.rint(values / scale), -127, 127) * scale for scale in scales)
    return min(rounded, key=lambda each: float(np.mean((each - values) ** 2)))


def _error(outputs: NDArray[Any], expected: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean((outputs - expected) ** 2) / np.mean(expected**2)))


class _ZerosStick(InstantStick):
    """Answers with products of 0."""

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: array[int], timeout: int) -> int:
        """Fill the buffer with zero points first."""
        buff[:] = array("B", [128]) * len(buff)
        return super().bulk_read(dev_handle, ep, intf, buff, timeout)


def _swap(size: int, reach: float | None) -> Iterator[Row]:
    """From real weights to the first result, over a backend that answers at once."""
    graph = dense.build(size)
    model = CompiledModel.parse(pack(graph, name="dense"), "dense")
    weights = np.random.default_rng(0).uniform(-1, 1, (size, size)).astype(np.float32)
    inputs = {"x": np.zeros((1, size), np.uint8)}
    with EdgeTpu.open(usb_backend=_ZerosStick(model.output_layers[0].size_bytes)) as tpu:
        engine = StickEngine(tpu, model, SidecarFiles(graph))
        product, vector = MatMul(engine), np.linspace(-1, 1, size)

        def swap() -> None:
            engine.set_weights(WeightRequest(weights))
            engine.run(inputs)

        def swap_matrix() -> None:
            product.set_weights(weights)
            product.multiply(vector)

        for how, work in (("", swap), (" in real numbers", swap_matrix)):
            case = f"swap to first result{how}, N = {size}"
            (value,) = milliseconds(work)
            yield Row(AREA, case, "time", value, "ms", reach, "lower", _KNOWN_SWAP[size])


def _tiles() -> Row:
    """A matrix in tiles that stay in memory; baseline: uploaded in turn."""
    case = f"product, 16 tiles of {_TILE} x {_TILE}, one vector"
    value, baseline = _tiled_product(own_places=True), _tiled_product(own_places=False)
    return Row(AREA, case, "simulated time", value, "ms", None, "lower", baseline)


def _tiled_product(*, own_places: bool) -> float:
    """Simulated milliseconds on a USB 3 port."""
    stick = VirtualEdgeTpu()
    tpu = EdgeTpu.open(stick)
    backend = VirtualStickBackend(lambda _: tpu, stick.register_model, pack)
    backend.open()
    model = backend.parse(Path("dense.tflite"), dense.build(_TILE))
    shared = partial(StickEngine, tpu, model.source, model.sidecars)
    attach = partial(backend.attach, model) if own_places else shared
    product = MatMul(attach(), engine_factory=attach)
    product.set_weights(np.ones((4 * _TILE, 4 * _TILE)), rescale_rows=True)
    for _ in range(2):  # the second finds in memory what the first left there
        start = stick.clock.monotonic()
        product.multiply(np.ones(4 * _TILE), input_scale=1.0, accept_clipping=True)
        elapsed = stick.clock.monotonic() - start
    backend.close()
    return 1e3 * elapsed


def _swaps_in_a_row() -> Row:
    """Results not of the weights they were asked with, while another model runs in a thread."""
    size = 64
    graph, other = dense.build(size), dense.build(2 * size)
    stick = VirtualEdgeTpu()
    models = [CompiledModel.parse(pack(each, name="dense"), "dense") for each in (graph, other)]
    for model, source in zip(models, (graph, other), strict=True):
        stick.register_model(model, source)
    x = {"x": np.full((1, size), 255, np.uint8)}
    z = {"x": np.full((1, 2 * size), 200, np.uint8)}
    done = threading.Event()
    wrong = np.zeros(2, int)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        engine, beside = StickEngine(tpu, models[0], SidecarFiles(graph)), StickEngine(tpu, models[1])
        constant = beside.run(z)["y"]

        def run_beside() -> None:
            while not done.is_set():
                wrong[1] += not np.array_equal(beside.run(z)["y"], constant)

        thread = threading.Thread(target=run_beside)
        thread.start()
        for steps in np.random.default_rng(0).integers(-127, 128, _SWAPS):
            engine.set_weights(WeightRequest(np.array([[steps / dense.INT8_MAX]], np.float32)))
            result = int(engine.run(x)["y"][0, 0]) - 128
            wrong[0] += abs(result - steps / dense.INT8_MAX / dense.output_scale(size)) > 1
        done.set()
        thread.join()
    case = f"{_SWAPS} swaps, another model beside"
    return Row(AREA, case, "wrong results", int(wrong.sum()), "", 0, "lower", 0)
