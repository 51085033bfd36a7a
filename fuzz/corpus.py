"""Valid inputs to mutate: real compiled models if available, and models built and packed here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import PACKAGE_KEY, CompiledModel
from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import EDGETPU_CUSTOM_OP, parse_model
from edgetpu_driver.virtual.graph_packer import pack
from testdata import GOLDEN

_LONGEST_BITSTREAM = 64 << 10  # longer ones repeat the same words
_SHORTEST_PAYLOAD = 64


@dataclass(frozen=True, eq=False)
class Sample:
    """A valid input and its structure."""

    name: str
    data: bytes = field(repr=False)
    payloads: tuple[bytes, ...] = field(default=(), repr=False)
    """Contents of arbitrary bytes, which are not worth mutating."""

    @cached_property
    def structure(self) -> NDArray[np.uint32]:
        """Positions of the bytes outside payloads and long runs of zeros, uint32 [n]."""
        mask = np.ones(len(self.data), bool)
        for payload in (*self.payloads, bytes(_SHORTEST_PAYLOAD)):
            start = self.data.find(payload) if len(payload) >= _SHORTEST_PAYLOAD else -1
            while start >= 0:
                mask[start : start + len(payload)] = False
                start = self.data.find(payload, start + len(payload))
        return np.flatnonzero(mask).astype(np.uint32)


def models() -> list[Sample]:
    """Whole .tflite files, some of them compiled."""
    return [*_built(), *_golden()]


def options(models: list[Sample]) -> list[Sample]:
    """The FlexBuffers of compiled models."""
    return [
        Sample(sample.name, bytes(operator.custom_options), sample.payloads)
        for sample in models
        for operator in parse_model(sample.data).subgraphs[0].operators
        if operator.custom_code == EDGETPU_CUSTOM_OP
    ]


def packages(models: list[Sample]) -> list[Sample]:
    """The DarwiNN packages of compiled models."""
    return [
        Sample(sample.name, flexbuffer.decode(sample.data)[PACKAGE_KEY], sample.payloads)
        for sample in options(models)
    ]


def bitstreams(models: list[Sample]) -> list[Sample]:
    """The instructions of compiled models."""
    return [
        Sample(sample.name, payload)
        for sample in models
        for payload in _bitstreams(sample.data)
        if len(payload) <= _LONGEST_BITSTREAM
    ]


def _golden() -> Iterator[Sample]:
    for name in GOLDEN.names("models/", ".tflite"):
        path = GOLDEN.find(name)
        if path is not None:
            data = path.read_bytes()
            yield Sample(Path(name).stem, data, _payloads(data))


def _built() -> Iterator[Sample]:
    for name, graph in (("dense", _dense(64)), ("image", _image())):
        yield Sample(name, graph, _payloads(graph))
        packed = pack(graph, name=name)
        yield Sample(f"{name}_edgetpu", packed, _payloads(packed))


def _dense(size: int) -> bytes:
    rng = np.random.default_rng(0)
    graph = GraphBuilder("dense")
    x = graph.input("x", (1, size), np.uint8, scale=1 / 128, zero_point=128)
    inner = graph.quantize(x, np.int8, scale=1 / 128, zero_point=0)
    weights = rng.integers(-127, 128, (size, size))
    scales = rng.uniform(0.001, 0.002, size)
    result = graph.fully_connected(inner, weights, weight_scale=scales, scale=1 / 64, zero_point=0)
    graph.output(graph.quantize(result, np.uint8, scale=1 / 64, zero_point=128, name="y"))
    return graph.build()


def _image() -> bytes:
    """A graph with a tiled output and a second input."""
    graph = GraphBuilder("image")
    first = graph.input("first", (1, 16, 16, 4), np.int8, scale=0.5, zero_point=0)
    second = graph.input("second", (1, 16, 16, 4), np.int8, scale=0.5, zero_point=0)
    graph.output(graph.add(first, second, scale=1.0, zero_point=0, name="sum"))
    return graph.build()


def _bitstreams(data: bytes) -> tuple[bytes, ...]:
    try:
        model = CompiledModel.parse(data)
    except ModelFormatError:  # a plain graph
        return ()
    executables = [model.execution] if model.caching is None else [model.caching, model.execution]
    return tuple(each.data for executable in executables for each in executable.bitstreams)


def _payloads(data: bytes) -> tuple[bytes, ...]:
    constants = tuple(tensor.data for graph in parse_model(data).subgraphs for tensor in graph.tensors)
    try:
        model = CompiledModel.parse(data)
    except ModelFormatError:  # a plain graph
        return constants
    executables = [model.execution] if model.caching is None else [model.caching, model.execution]
    parameters = tuple(bytes(executable.parameters) for executable in executables)
    return (*constants, *parameters, *_bitstreams(data))
