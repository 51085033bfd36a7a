"""The order of the weights of a model's layers in its parameter bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import Parameters
from edgetpu_driver.darwinn.parameters.layer_layout import LayerLayout
from edgetpu_driver.darwinn.parameters.routing_layout import RoutingLayout
from edgetpu_driver.errors import ModelFormatError


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The weights of one layer and the layout of its section of the parameter bytes."""

    layout: LayerLayout
    tensor: int
    """Index of the weight tensor in the graph."""
    weights: NDArray[np.int8]
    """In the shape of the TFLite tensor."""
    multipliers: NDArray[np.float32] | None = None
    """float32[rows]: input scale * weight scale / output scale; None if the layer has one weight scale."""

    @property
    def size(self) -> int:
        """Bytes of the section."""
        return self.layout.size

    def encode(self, out: NDArray[np.uint8]) -> None:
        """Write the section, uint8[size]."""
        self.layout.encode_header(out, multipliers=self.multipliers)
        self.layout.encode(self.weights, out)

    def decode(self, data: NDArray[np.uint8]) -> LayerWeights:
        """The layer with the weights in uint8[size]; ModelFormatError if the bytes do not fit the layout."""
        multipliers = None
        weights = self.layout.decode(data)
        if self.layout.header.multipliers:
            multipliers = self.layout.decode_multipliers(data)
        return replace(self, weights=weights, multipliers=multipliers)


Part = LayerWeights | RoutingLayout


@dataclass(frozen=True, eq=False)
class ParameterLayout:
    """The layers of a model in the order of their sections, which follow each other without gaps."""

    cached: tuple[Part, ...]
    streamed: tuple[Part, ...] = ()

    @property
    def layers(self) -> tuple[LayerWeights, ...]:
        """The layers, those with cached parameters first."""
        return tuple(part for part in (*self.cached, *self.streamed) if isinstance(part, LayerWeights))

    def offsets(self) -> Iterator[tuple[LayerWeights, int, bool]]:
        """Each layer, the byte offset of its section, and whether that is in the streamed parameters."""
        for parts, streamed in ((self.cached, False), (self.streamed, True)):
            offset = 0
            for part in parts:
                if isinstance(part, LayerWeights):
                    yield part, offset, streamed
                offset += part.size

    def encode(self) -> Parameters:
        """The parameter bytes with the weights of the layers."""
        return Parameters(_encode(self.cached), _encode(self.streamed))

    def decode(self, parameters: Parameters) -> ParameterLayout:
        """The layout with the weights in the parameter bytes; ModelFormatError if the bytes do not fit."""
        return ParameterLayout(
            _decode(self.cached, parameters.cached, "cached"),
            _decode(self.streamed, parameters.streamed, "streamed"),
        )


def _encode(parts: tuple[Part, ...]) -> bytes:
    blob = np.zeros(sum(part.size for part in parts), np.uint8)
    offset = 0
    for part in parts:
        part.encode(blob[offset : offset + part.size])
        offset += part.size
    return blob.tobytes()


def _decode(parts: tuple[Part, ...], data: bytes | memoryview, kind: str) -> tuple[Part, ...]:
    expected = sum(part.size for part in parts)
    if len(data) != expected:
        raise ModelFormatError(f"expected {expected} {kind} parameter bytes, got {len(data)}")
    blob = np.frombuffer(data, np.uint8)
    decoded: list[Part] = []
    offset = 0
    for part in parts:
        source = blob[offset : offset + part.size]
        try:
            if isinstance(part, RoutingLayout):
                part.check(source)
                decoded.append(part)
            else:
                decoded.append(part.decode(source))
        except ModelFormatError as error:
            raise ModelFormatError(f"{kind} parameters from byte {offset}: {error}") from error
        offset += part.size
    return tuple(decoded)
