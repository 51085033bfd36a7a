"""A multilayer perceptron in float64, and its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import ArchiveError, InputError
from edgetpu_driver.files import npz_archive

Array = NDArray[np.float64]

MOST_UNITS = 1024
"""Most units of a layer; up to this size, the suite's programs were compared with the compiler's."""
MOST_LAYERS = 16
"""Uncritical: it limits the arrays of a file; networks of the suite have two or three."""
MOST_SAMPLES = 1024
"""Inputs in the file, for ranges and errors when the network is quantised."""


_KIND = "a learned network"
_RANGES = ("input_low", "input_high", "output_low", "output_high")


@dataclass(frozen=True, eq=False)
class Layer:
    """A Dense layer: outputs = weights @ inputs + bias."""

    weights: Array
    """float64[outputs, inputs]."""
    bias: Array
    """float64[outputs]."""


@dataclass(frozen=True, eq=False)
class Interval:
    """The ranges of several quantities, which `normalise` maps to -1 to 1."""

    low: Array
    """float64[n]."""
    high: Array
    """float64[n], above `low`."""

    @property
    def centre(self) -> Array:
        """float64[n]."""
        return 0.5 * (self.low + self.high)

    @property
    def half(self) -> Array:
        """Half of the width, float64[n]."""
        return 0.5 * (self.high - self.low)

    def normalise(self, values: Array) -> Array:
        """Map values, float64[.., n], to -1 to 1; values beyond the range are mapped beyond that."""
        return (values - self.centre) / self.half

    def restore(self, normal: Array) -> Array:
        """Undo `normalise`."""
        return normal * self.half + self.centre

    def clip(self, values: Array) -> Array:
        """Return the nearest values within the range."""
        return np.clip(values, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Network:
    """Dense layers with ReLU between them, from inputs in ranges to outputs in ranges.

    InputError for layers that do not fit each other, ranges or samples, and for numbers that are not finite.
    """

    layers: tuple[Layer, ...]
    inputs: Interval
    outputs: Interval
    samples: Array
    """Typical inputs, float64[count, n]."""

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError("expected a network of at least one layer; got none")
        width = self.inputs.low.size
        for number, layer in enumerate(self.layers, 1):
            rows = layer.weights.shape[0] if layer.weights.ndim == 2 else 0
            fits = layer.weights.shape == (rows, width) and layer.bias.shape == (rows,)
            if not (fits and 0 < rows <= MOST_UNITS):
                raise InputError(
                    f"layer {number}: expected weights [1 to {MOST_UNITS}, {width}] and a bias a row; "
                    f"got {list(layer.weights.shape)} and {list(layer.bias.shape)}"
                )
            width = rows
        for name, interval, size in (
            ("inputs", self.inputs, self.sizes[0]),
            ("outputs", self.outputs, width),
        ):
            low, high = interval.low, interval.high
            if low.shape != (size,) or high.shape != (size,):
                raise InputError(
                    f"{name}: expected {size} ranges; got lows {list(low.shape)} and highs {list(high.shape)}"
                )
            empty = np.flatnonzero(~(interval.half > 0))  # NaN, too
            if empty.size:
                number = empty[0]
                raise InputError(
                    f"{name}: expected ranges with low below high; got {low[number]:g} to {high[number]:g} "
                    f"as number {number + 1}"
                )
        if self.samples.ndim != 2 or self.samples.shape[1] != self.sizes[0] or not len(self.samples):
            raise InputError(f"expected samples [count, {self.sizes[0]}]; got {list(self.samples.shape)}")
        if not all(np.all(np.isfinite(array)) for array in self._arrays().values()):
            raise InputError("expected a network of finite numbers; got NaN or infinity")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of inputs, then of the units of every layer."""
        return (self.inputs.low.size, *(layer.bias.size for layer in self.layers))

    def __call__(self, inputs: ArrayLike) -> Array:
        """Return the outputs, float64[.., outputs], of inputs, float64[.., inputs], within the ranges."""
        values = self.inputs.clip(np.asarray(inputs, np.float64))
        normal = self.activations(self.inputs.normalise(values))[-1]
        return self.outputs.clip(self.outputs.restore(normal))

    def sample_activations(self) -> list[Array]:
        """Return the activations of the samples, within the ranges."""
        return self.activations(self.inputs.normalise(self.inputs.clip(self.samples)))

    def activations(self, normal: Array) -> list[Array]:
        """Return the normalised inputs and the outputs of every layer after its ReLU; the last has none."""
        found = [normal]
        for number, layer in enumerate(self.layers, 1):
            sums = found[-1] @ layer.weights.T + layer.bias
            found.append(sums if number == len(self.layers) else np.maximum(sums, 0.0))
        return found

    def save(self, path: str | Path) -> None:
        """Write the network to an .npz file; ArchiveError if it cannot be written."""
        sizes = np.array(self.sizes, np.int64)
        # Not the ranges: those of a quantity that hardly changes end at the same float32.
        arrays = {
            name: each.astype(np.float32) if name.startswith(("weights_", "bias_")) else each
            for name, each in self._arrays().items()
        }
        npz_archive.save(path, _KIND, {"sizes": sizes, **arrays})

    def _arrays(self) -> dict[str, Array]:
        arrays = {
            "input_low": self.inputs.low,
            "input_high": self.inputs.high,
            "output_low": self.outputs.low,
            "output_high": self.outputs.high,
            "samples": self.samples,
        }
        for number, layer in enumerate(self.layers, 1):
            arrays |= {f"weights_{number}": layer.weights, f"bias_{number}": layer.bias}
        return arrays


def load_network(path: str | Path) -> Network:
    """Read a network that was saved; InputError, with the reason, for anything else."""
    path = Path(path)
    try:
        count = npz_archive.load(path, _KIND, ("sizes",))["sizes"].size - 1
        if not 1 <= count <= MOST_LAYERS:
            raise ArchiveError(f"{path.name}: expected 1 to {MOST_LAYERS} layers; got {count}")
        names = [f"{part}_{n}" for n in range(1, count + 1) for part in ("weights", "bias")]
        loaded = npz_archive.load(path, _KIND, (*_RANGES, "samples", *names))
    except ArchiveError as error:
        raise InputError(str(error)) from None
    if text := [name for name, each in loaded.items() if each.dtype.kind == "U"]:
        raise InputError(f"{path.name}: expected numbers as {text[0]}; got text")
    arrays = {name: np.asarray(each, np.float64) for name, each in loaded.items()}
    layers = tuple(Layer(arrays[f"weights_{n}"], arrays[f"bias_{n}"]) for n in range(1, count + 1))
    try:
        return Network(
            layers,
            Interval(arrays["input_low"], arrays["input_high"]),
            Interval(arrays["output_low"], arrays["output_high"]),
            arrays["samples"],
        )
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None


def random_network(
    sizes: Sequence[int], inputs: Interval, outputs: Interval, samples: Array, random: np.random.Generator
) -> Network:
    """Return an untrained network with the initial weights of He et al. (2015) for ReLU."""
    layers = tuple(
        Layer(random.standard_normal((rows, columns)) * np.sqrt(2.0 / columns), np.zeros(rows))
        for columns, rows in pairwise(sizes)
    )
    return Network(layers, inputs, outputs, samples)
