"""Pipelines on several virtual sticks, and a detector with the perception nodes on one: rates and uploads.

Figures are counts and simulated times of sticks on USB 3 ports, so the speed of this computer does not
matter. The detector is a graph with the size of a real one: 300x300 px, 6.3 MB of weights.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver import EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.backends.virtual import VirtualStickBackend, pack_for_virtual_stick
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.request_terms import Priority, RequestTerms
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.toolchain.graph_family import joint_name
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_perception.graphs.families import build
from measured_figures.row import Row
from testdata import GOLDEN
from testdata.graphs.pipelines import compile_pipeline

AREA = "pipelines"
PERCEPTION_MODELS = (
    "spot_bright_64x64",
    "looming_64x64",
    "features1_64x64",
    "features1_64x64",
    "pattern_64x64_16x16",
)
"""The models of the five perception nodes; optical flow and compass share one."""
FRAME_SECONDS = 1 / 30

_REQUESTS = 64
_IN_FLIGHT = 16
_FRAMES = 30
_SETTLING_FRAMES = 40
_SHARE = 0.75  # least throughput, relative to one stick's times the number of sticks
_DETECTOR_TERMS = RequestTerms("detector")

_Inputs = Mapping[str, NDArray[Any]]


def rows() -> Iterator[Row]:
    """Measure a chain of eight matrices and, if present, a MobileNet, each in four segments."""
    graphs = {"8 matrices of 512 x 512": _matrices(8, 512)}
    mobilenet = GOLDEN.find("vision/mobilenet_v1_1.0_224_quant_embedding_extractor.tflite")
    if mobilenet is not None:
        graphs["MobileNet v1 224"] = mobilenet.read_bytes()
    for title, graph in graphs.items():
        one, uploads = _throughput(graph, 1)
        case = f"{title} in 4 segments, 1 stick"
        yield Row(AREA, case, "requests per simulated second", one, "1/s", None, "higher")
        metric = f"uploads, {_REQUESTS} requests"
        yield Row(AREA, case, metric, uploads, "", _REQUESTS, "lower", 4 * _REQUESTS)
        for count in (2, 4):
            rate, uploads = _throughput(graph, count)
            case = f"{title} in 4 segments, {count} sticks"
            reach = _SHARE * count if count == 4 else None
            metric = "throughput / 1 stick"
            yield Row(AREA, case, metric, rate / one, "x", reach, "higher", one, baseline_unit="1/s")
        yield Row(AREA, case, f"uploads, {_REQUESTS} requests", uploads, "", 4, "lower")
    for compilation in _COMPILATIONS:
        yield from _with_perception(compilation)


def _throughput(graph: bytes, count: int) -> tuple[float, int]:
    """Results per simulated second, and the number of uploads."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "chain.tflite").write_bytes(graph)
        files = compile_pipeline(graph, 4, "chain")
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        sticks, _, host = _host(count, folder)
        loaded = host.load(list(files))
        inputs = _inputs(loaded.inputs)
        begun = [stick.clock.monotonic() for stick in sticks]
        lost = _run(host, [("chain", inputs, _DETECTOR_TERMS)] * _REQUESTS, _IN_FLIGHT)
        elapsed = max(stick.clock.monotonic() - begin for stick, begin in zip(sticks, begun, strict=True))
        uploads = loaded.uploads
        host.close()
    return (_REQUESTS - lost) / elapsed, uploads


@dataclass(frozen=True)
class _Compilation:
    """How the graphs of a detector and of the perception nodes are compiled."""

    title: str
    together: tuple[str, ...]
    """The graphs that are compiled together; the others are compiled separately."""
    share: bool
    """Whether the driver may run the models of the perception nodes as one graph."""
    uploads: int
    """Limit: the least possible number of uploads per frame."""


_JOINT = joint_name(sorted(set(PERCEPTION_MODELS)))
_COMPILATIONS = (
    _Compilation("compiled apart", (), share=False, uploads=len(set(PERCEPTION_MODELS)) + 1),
    _Compilation("compiled apart, perception run as one graph", (), share=True, uploads=2),
    _Compilation("compiled together", ("detector", *PERCEPTION_MODELS), share=True, uploads=0),
    _Compilation(
        "compiled together with the one graph of perception", ("detector", _JOINT), share=True, uploads=0
    ),
)


def _with_perception(compilation: _Compilation) -> Iterator[Row]:
    """Measure a detector and five perception nodes on one stick, each with one request per frame."""
    graphs = {name: build(name) for name in (*PERCEPTION_MODELS, _JOINT)} | {"detector": _detector()}
    with tempfile.TemporaryDirectory() as folder:
        for name, data in _packed(graphs, compilation.together).items():
            (Path(folder) / f"{name}.tflite").write_bytes(graphs[name])
            (Path(folder) / f"{name}_edgetpu.tflite").write_bytes(data)
        (stick,), (backend,), host = _host(1, folder, compilation.share)
        loaded = {name: host.load(name) for name in {*PERCEPTION_MODELS, "detector"}}
        frame = partial(_frame, loaded, np.random.default_rng(1))
        for _ in range(_SETTLING_FRAMES):  # uploads all; the host finds that nodes share an image
            _run(host, frame(), len(PERCEPTION_MODELS) + 1)
        lost, elapsed, counts = 0, 0.0, [backend.read().uploads]
        for _ in range(_FRAMES):
            begun = stick.clock.monotonic()
            lost += _run(host, frame(), len(PERCEPTION_MODELS) + 1)
            elapsed += stick.clock.monotonic() - begun
            counts.append(backend.read().uploads)  # this read occupies the stick
        host.close()
    # The stick may start the first request of a frame before the request for its resident model arrives.
    each = np.diff(counts)
    uploads = float(np.median(each)) if compilation.uploads else float(each.mean())
    case = f"detector and five perception nodes, {compilation.title}"
    yield Row(AREA, case, "uploads per frame", uploads, "", compilation.uploads, "lower")
    share = elapsed / _FRAMES / FRAME_SECONDS
    reach = None if compilation.uploads else 1.0
    yield Row(AREA, case, "simulated time per frame / 33 ms", share, "x", reach, "lower")
    yield Row(AREA, case, "requests without a result", lost, "", 0, "lower")


def _packed(graphs: Mapping[str, bytes], together: Sequence[str]) -> dict[str, bytes]:
    chosen = {name: graphs[name] for name in together}
    others = {name: data for name, data in graphs.items() if name not in chosen}
    return pack_for_virtual_stick(chosen, together=True) | pack_for_virtual_stick(others, together=False)


def _frame(
    models: Mapping[str, HostedModel], random: np.random.Generator
) -> list[tuple[str, _Inputs, RequestTerms]]:
    """Requests for one frame; the perception nodes are separate clients that share an image."""
    image = random.integers(0, 256, (1, 64, 64, 1), np.uint8)
    requests: list[tuple[str, _Inputs, RequestTerms]] = [
        (name, {models[name].inputs[0].name: image}, RequestTerms(f"perception {number}", Priority.REAL_TIME))
        for number, name in enumerate(PERCEPTION_MODELS)
    ]
    return [*requests, ("detector", _inputs(models["detector"].inputs), _DETECTOR_TERMS)]


def _run(host: ModelHost, requests: Sequence[tuple[str, _Inputs, RequestTerms]], in_flight: int) -> int:
    """Run all requests, `in_flight` at a time; return the number of those without a result."""
    answers: SimpleQueue[Any] = SimpleQueue()
    free = threading.Semaphore(in_flight)

    def done(answer: Any) -> None:
        free.release()
        answers.put(answer)

    for name, inputs, terms in requests:
        free.acquire()
        host.submit_invoke(name, inputs, done, terms)
    return sum(not isinstance(answers.get(), InferenceResult) for _ in requests)


def _host(
    count: int, folder: str, share_inferences: bool = True
) -> tuple[list[VirtualEdgeTpu], list[VirtualStickBackend], ModelHost]:
    sticks = [VirtualEdgeTpu(ports=(number + 1,)) for number in range(count)]
    backends = [
        VirtualStickBackend(partial(_open, stick), stick.library.register_model, pack) for stick in sticks
    ]
    host = ModelHost(backends, [folder], share_inferences=share_inferences)
    host.connect()
    return sticks, backends, host


def _open(stick: VirtualEdgeTpu, on_phase: Any) -> EdgeTpu:
    return EdgeTpu.open(stick, on_phase=on_phase)


def _inputs(specs: Sequence[TensorSpec]) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(0)
    return {
        spec.name: random.integers(0, 256, spec.shape, np.uint8).astype(spec.dtype, casting="unsafe")
        for spec in specs
    }


def _matrices(count: int, size: int) -> bytes:
    """A graph of `count` int8 matrix products in a row."""
    builder = GraphBuilder("matrices")
    value = builder.input("x0", (1, size), np.int8, scale=0.5, zero_point=0)
    for number in range(count):
        weights = np.random.default_rng(number).integers(-127, 128, (size, size))
        name = f"x{number + 1}"
        value = builder.fully_connected(value, weights, weight_scale=1e-3, scale=0.5, zero_point=0, name=name)
    builder.output(value)
    return builder.build()


def _detector() -> bytes:
    """A graph with the input of a detector, and about as many weights: 6.3 MB."""
    builder = GraphBuilder("detector")
    random = np.random.default_rng(0)
    image = builder.input("image", (1, 300, 300, 3), np.uint8, scale=1 / 128, zero_point=128)
    value = builder.quantize(image, np.int8, scale=1 / 128, zero_point=0)
    for channels in (32, 64, 128, 256, 512):
        kernels = random.integers(-127, 128, (channels, 3, 3, value.shape[3]))
        value = builder.conv_2d(value, kernels, 1e-3, scale=0.05, zero_point=0, stride=2)
    for _ in range(2):
        kernels = random.integers(-127, 128, (512, 3, 3, 512))
        value = builder.conv_2d(value, kernels, 1e-3, scale=0.05, zero_point=0)
    builder.output(value)
    return builder.build()
