"""Weights at run time: the error of products, and the host's cost of a swap.

Products are compared with ideal 8 bits: symmetric 8-bit weights, inputs and outputs with the best static
scales. All inputs share a scale, and all outputs; the weights have one scale per row or, for a less strict
comparison, one in all. A swap is compared with a user's simplest code: quantisation with NumPy, and the same
transfers by pyusb.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.areas.link import InstantStick, bare_transfers
from bench.ideal_8_bits import ideally_rounded, relative_error
from bench.timing import compare
from edgetpu_driver import CompiledModel, EdgeTpu, MatMul, VirtualEdgeTpu
from edgetpu_driver.backends.virtual import VirtualStickBackend
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.network_layers import encode_network
from edgetpu_driver.weights.replaceable_weights import INT8_MAX, weight_tensors
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_request import WeightRequest
from measured_figures.row import Row
from testdata import GOLDEN

AREA = "weights"
_SWAPS = 2000
_TILE = 256
_MOBILENET = "models/mobilenet_v1_0.25_128_quant"
_MOBILENET_GRAPH = "vision/mobilenet_v1_0.25_128_quant.tflite"
_CLASSES = 1001
_VECTORS = 30
_SWAP_REACH = {256: (6.0, 15.0), 512: (6.0, 12.0), 1024: (5.0, 7.0)}
"""Limits of the time of a swap, as multiples of a plain swap, by matrix size: (engine, MatMul)."""


def rows() -> Iterator[Row]:
    """Measure random Gaussian matrices and vectors, seed 0."""
    for size in _SWAP_REACH:
        yield from _exactness(size)
    for size in _SWAP_REACH:
        yield from _swap(size)
    yield from _layers()
    yield _tiles()
    yield _swaps_in_a_row()


def _exactness(size: int) -> Iterator[Row]:
    """Measure on the CPU; the virtual stick differs by at most one step of the output."""
    rng = np.random.default_rng(0)
    matrix, vectors = rng.standard_normal((size, size)), rng.standard_normal((_VECTORS, size))
    by_row = _ideal_error(matrix, vectors, np.array([ideally_rounded(row) for row in matrix]))
    by_matrix = _ideal_error(matrix, vectors, ideally_rounded(matrix))
    product = MatMul(size=size)
    case = f"product, N = {size}"
    for rescale, form in ((False, "scales as compiled"), (True, "rows rescaled")):
        used = matrix if rescale else matrix / np.abs(matrix).max()
        product.set_weights(used, rescale_rows=rescale)
        error = relative_error(product.multiply(vectors).outputs, vectors @ used.T)
        for ideal, metric in ((by_row, "error / ideal"), (by_matrix, "error / ideal, one weight scale")):
            yield Row(
                AREA, f"{case}, {form}", metric, error / ideal, "x", 1.2, "lower", ideal, baseline_unit=""
            )
    for passes in (2, 4, 8):
        error = relative_error(product.multiply(vectors, passes=passes).outputs, vectors @ matrix.T)
        name = f"{case}, {passes} passes"
        yield Row(AREA, name, "error / ideal", error / by_row, "x", None, "lower", by_row, baseline_unit="")


def _ideal_error(
    matrix: NDArray[np.float64], vectors: NDArray[np.float64], weights: NDArray[np.float64]
) -> float:
    """Relative error with rounded weights, and with inputs and outputs at their best static scales."""
    outputs = ideally_rounded(ideally_rounded(vectors) @ weights.T)
    return relative_error(outputs, vectors @ matrix.T)


class _ZerosStick(InstantStick):
    """A stick whose products are all 0."""

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: array[int], timeout: int) -> int:
        """Fill the buffer with zero points, then behave like an InstantStick."""
        buff[:] = array("B", [128]) * len(buff)
        return super().bulk_read(dev_handle, ep, intf, buff, timeout)


def _swap(size: int) -> Iterator[Row]:
    """Measure the time from real weights to the first result, on a stick that answers at once."""
    graph = dense.build(size)
    model = CompiledModel.parse(pack(graph, name="dense"), "dense")
    weights = np.random.default_rng(0).uniform(-1, 1, (size, size)).astype(np.float32)
    inputs = {"x": np.zeros((1, size), np.uint8)}
    stick = _ZerosStick(model.output_layers[0].size_bytes)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        engine = StickEngine(tpu, model, SidecarFiles(graph))
        product, vector = MatMul(engine), np.linspace(-1, 1, size)

        def swap() -> None:
            engine.set_weights(WeightRequest(weights))
            engine.run(inputs)

        def swap_matrix() -> None:
            product.set_weights(weights)
            product.multiply(vector)

        swap()
        plain = _plain_swap(weights, stick.recorded(swap))
        for how, work, reach in zip(
            ("", " in real numbers"), (swap, swap_matrix), _SWAP_REACH[size], strict=True
        ):
            case = f"swap to first result{how}, N = {size}"
            yield compare(work, plain).row(AREA, case, "plain swap", reach)


def _layers() -> Iterator[Row]:
    """Measure a MobileNet's classifier, from real weights to parameters that are ready for the upload.

    Baselines: a copy of all parameters, and encoding every layer of the network.
    """
    path, source = GOLDEN.find(_MOBILENET + "_edgetpu.tflite"), GOLDEN.find(_MOBILENET_GRAPH)
    if path is None or source is None:
        return
    model, graph = CompiledModel.load(path), source.read_bytes()
    part = parse_model(model.source_part(graph)).subgraphs[0]
    parameters = np.frombuffer(model.parameters.cached, np.uint8)
    with EdgeTpu.open(usb_backend=_ZerosStick(model.output_layers[0].size_bytes)) as tpu:
        engine = StickEngine(tpu, model, SidecarFiles(graph))
        name = next(each.name for each in weight_tensors(parse_model(graph)) if each.shape[0] == _CLASSES)
        tensor = engine.weight_tensor(name)
        least, most = (end * float(tensor.scales[0]) for end in tensor.limits)
        weights = np.random.default_rng(0).uniform(least, most, tensor.shape).astype(np.float32)
        request = WeightRequest(weights, name)

        def swap() -> None:
            engine.prepare_weights(request)

        case = "swap of a MobileNet's classifier, 1001 x 256, on the host"
        yield compare(swap, parameters.copy).row(AREA, case, "copy of all parameters", None)
        yield compare(swap, lambda: encode_network(part)).row(AREA, case, "encoding every layer", 1.0)


def _plain_swap(weights: NDArray[np.float32], transfers: list[tuple[int, int]]) -> Callable[[], None]:
    """Work that quantises weights with NumPy, not in the chip's layout, and transfers them with pyusb."""
    transfer = bare_transfers(transfers)

    def swap() -> None:
        scale = np.abs(weights).max() / INT8_MAX
        np.clip(np.rint(weights / scale), -INT8_MAX, INT8_MAX).astype(np.int8)
        transfer()

    return swap


def _tiles() -> Row:
    """Measure a matrix whose tiles stay on the stick, in simulated time; baseline: tiles uploaded in turn."""
    case = f"product, 16 tiles of {_TILE} x {_TILE}, one vector"
    resident, uploaded = _tiled_product(resident=True), _tiled_product(resident=False)
    ratio = resident / uploaded
    return Row(AREA, case, "time / uploaded", ratio, "x", 0.5, "lower", 1e6 * uploaded, baseline_unit="us")


def _tiled_product(*, resident: bool) -> float:
    """Simulated time of a tiled product on a USB 3 port, s."""
    stick = VirtualEdgeTpu()
    tpu = EdgeTpu.open(stick)
    backend = VirtualStickBackend(lambda _: tpu, stick.library.register_model, pack)
    backend.open()
    model = backend.parse(Path("dense.tflite"), dense.build(_TILE))
    shared = partial(StickEngine, tpu, model.source, model.sidecars)
    attach = partial(backend.attach, model) if resident else shared
    product = MatMul(attach(), engine_factory=attach)
    product.set_weights(np.ones((4 * _TILE, 4 * _TILE)), rescale_rows=True)
    for _ in range(2):  # in the second run, the parameters may already be on the stick
        start = stick.clock.monotonic()
        product.multiply(np.ones(4 * _TILE), input_scale=1.0, accept_clipping=True)
        elapsed = stick.clock.monotonic() - start
    backend.close()
    return elapsed


def _swaps_in_a_row() -> Row:
    """Count results that do not match the weights just set, while another model runs in a thread."""
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
    with EdgeTpu.open(usb_backend=stick) as tpu, ThreadPoolExecutor(1) as pool:
        engine, other_engine = StickEngine(tpu, models[0], SidecarFiles(graph)), StickEngine(tpu, models[1])
        constant = other_engine.run(z)["y"]

        def run_other() -> None:
            while not done.is_set():
                wrong[1] += not np.array_equal(other_engine.run(z)["y"], constant)

        running = pool.submit(run_other)
        try:
            for steps in np.random.default_rng(0).integers(-127, 128, _SWAPS):
                engine.set_weights(WeightRequest(np.array([[steps / INT8_MAX]], np.float32)))
                result = int(engine.run(x)["y"][0, 0]) - 128
                wrong[0] += abs(result - steps / INT8_MAX / dense.output_scale(size)) > 1
        finally:
            done.set()
        running.result()
    case = f"{_SWAPS} swaps, another model running"
    return Row(AREA, case, "wrong results", int(wrong.sum()), "", 0, "lower", 0)
