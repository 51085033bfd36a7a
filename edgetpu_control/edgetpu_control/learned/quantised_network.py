"""A network in 8 bits: one graph for the stick, the conversion of its data, and the errors of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from edgetpu_control.learned.network import MOST_UNITS, Array, Layer, Network
from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.weights.replaceable_weights import INT8_MAX

INPUT, OUTPUT = "observation", "command"
"""Names of the graph's input and output."""
_IN_SCALE = 1 / INT8_MAX
_LEAST_RANGE = 1e-6
"""Least range for commands that hardly change, as a share of the range of commands."""
_NOTHING = 1e-30
"""Largest value of a layer that counts as 0; its square would leave the range of float32."""
_EXPONENTS = (0.0, 0.5, 1.0)
"""Exponents of the equalisation of ranges in a layer: none, the root, full. The best is used."""
_DAMPING = 0.01
"""Share of the mean square of the inputs that is added to the square of each, as GPTQ proposes."""
_LARGEST_BIAS = 2**30
"""Largest bias in steps; it leaves room for the products in 32-bit sums."""
_HIDDEN_HEADROOM = 1.25
"""Range of a hidden layer over that of the samples, because other inputs have larger values. The error
on other observations is least from 1.2 to 1.35 (`make accuracy ALGORITHMS=policy`)."""
_OUTPUT_HEADROOM = 1.02
"""Range of the last layer over that of the commands, so that rounding does not cut off its ends."""


@dataclass(frozen=True)
class LayerError:
    """The error due to 8 bits in a layer, relative to the RMS of its outputs."""

    units: int
    own: float
    """Of this layer alone, with the exact outputs of the previous one."""
    total: float
    """Of this layer and all before it."""


@dataclass(frozen=True, eq=False)
class QuantisedLayer:
    """A layer as it is on the stick."""

    weights: NDArray[np.int8]
    """int8[outputs, inputs], with copies."""
    scales: Array
    """Real value of one step of the weights, float64[outputs]."""
    bias: NDArray[np.int32]
    """In steps of the inputs times those of the weights, int32[outputs]."""
    scale: float
    """Real value of one step of the outputs."""
    zero_point: int


@dataclass(frozen=True, eq=False)
class QuantisedNetwork:
    """A network whose layers are 8-bit, run for `batch` inputs at a time as one graph.

    Where the program's layer has room for several copies of a unit, each copy is rounded with another offset.
    The next layer adds them up, so that rounding errors cancel.
    """

    network: Network
    """In float64, with its units rescaled to use their range; it computes the same."""
    layers: tuple[QuantisedLayer, ...]
    copies: tuple[int, ...]
    """Number of copies of each input, then of each unit of every layer."""
    widths: tuple[int, ...]
    """Size of the input, then of every layer, with copies and padding."""
    batch: int

    def encode(self, inputs: Array) -> NDArray[np.uint8]:
        """Return the graph's input for inputs, float64[batch, n]; those beyond their range are clipped."""
        encoded = (self.input_steps(inputs) + 128).astype(np.uint8)
        return encoded.reshape(self.shape_of(self.widths[0]))

    def input_steps(self, inputs: Array) -> Array:
        """Return inputs, float64[count, n], as the first layer takes them, with copies and padding.

        Whole steps of -127 to 127, float64[count, widths[0]]; inputs beyond their range are clipped.
        """
        exact = np.clip(self.network.inputs.normalise(inputs), -1, 1) * INT8_MAX
        copies = self.copies[0]
        fractions = np.repeat(_fractions(copies), exact.shape[1])
        rounded = np.rint(np.tile(exact, (1, copies)) + fractions)
        steps = np.zeros((len(inputs), self.widths[0]))
        steps[:, : rounded.shape[1]] = np.clip(rounded, -INT8_MAX, INT8_MAX)
        return steps

    def decode(self, output: NDArray[np.uint8]) -> Array:
        """Return the outputs, float64[batch, m], within their ranges, of the graph's output."""
        steps = output.reshape(self.batch, self.widths[-1]).astype(np.float64) - 128
        return self._restored(steps)

    def shape_of(self, channels: int) -> tuple[int, ...]:
        """Shape of the graph's tensors: [1, channels], or an image with a pixel per input of the batch."""
        if self.batch == 1:
            return (1, channels)
        height = next(n for n in range(isqrt(self.batch), 0, -1) if self.batch % n == 0)
        return (1, height, self.batch // height, channels)

    def graph(self) -> bytes:
        """Return the .tflite graph: uint8 in, Dense layers or 1x1 convolutions on int8, uint8 out."""
        graph = GraphBuilder("network")
        shape = self.shape_of(self.widths[0])
        x = graph.input(INPUT, shape, np.uint8, scale=_IN_SCALE, zero_point=128)
        x = graph.quantize(x, np.int8, scale=_IN_SCALE, zero_point=0, name="steps")
        for number, layer in enumerate(self.layers, 1):
            multiply = graph.fully_connected if self.batch == 1 else graph.conv_2d
            weights = layer.weights if self.batch == 1 else layer.weights[:, np.newaxis, np.newaxis, :]
            x = multiply(
                x,
                weights,
                layer.scales,
                scale=layer.scale,
                zero_point=layer.zero_point,
                bias=layer.bias,
                activation="NONE" if number == len(self.layers) else "RELU",
                name=f"layer_{number}",
            )
        graph.output(graph.quantize(x, np.uint8, scale=self.layers[-1].scale, zero_point=128, name=OUTPUT))
        return graph.build()

    def reference(self, inputs: Array) -> Array:
        """Return what the stick computes for inputs, float64[count, n], by the documented arithmetic."""
        steps = self.input_steps(inputs)
        scale, zero_point = _IN_SCALE, 0
        for layer in self.layers:
            steps = _run(layer, steps - zero_point, scale)
            scale, zero_point = layer.scale, layer.zero_point
        return self._restored(steps)

    @cached_property
    def layer_errors(self) -> tuple[LayerError, ...]:
        """The errors of every layer, over the network's samples."""
        exact = self.network.sample_activations()
        steps = self.input_steps(self.network.samples)
        scale, zero_point = _IN_SCALE, 0
        errors = []
        for number, layer in enumerate(self.layers, 1):
            ideal = np.zeros((len(steps), self.widths[number - 1]))
            spread = np.tile(exact[number - 1], (1, self.copies[number - 1])) / scale
            ideal[:, : spread.shape[1]] = spread
            own = _run(layer, ideal, scale)
            steps = _run(layer, steps - zero_point, scale)
            scale, zero_point = layer.scale, layer.zero_point
            limit = 1.0 if number == len(self.layers) else np.inf  # commands end at their range
            wanted, *found = (
                np.clip(each, -limit, limit)
                for each in (
                    exact[number],
                    *(self._mean(each - zero_point, number) * scale for each in (own, steps)),
                )
            )
            errors.append(
                LayerError(self.network.sizes[number], *(_relative(each, wanted) for each in found))
            )
        return tuple(errors)

    def _mean(self, steps: Array, number: int) -> Array:
        """Mean of the copies of each unit of a layer."""
        units, copies = self.network.sizes[number], self.copies[number]
        mean: Array = steps[:, : units * copies].reshape(-1, copies, units).mean(axis=1)
        return mean

    def _restored(self, steps: Array) -> Array:
        normal = self._mean(steps, len(self.layers)) * self.layers[-1].scale
        outputs = self.network.outputs
        return outputs.clip(outputs.restore(normal))


def quantise(
    network: Network, *, width: int = 0, batch: int = 1, row_scales: bool = True
) -> QuantisedNetwork:
    """Quantise a network to 8 bits, with ranges from its samples.

    width: units of every layer of the program; free units are filled with copies of the layer's units, the
    rest are zero. 0: no copies. batch: inputs run at a time. row_scales: one scale for each row of the
    weights instead of one for the layer. InputError for a width below the largest layer.
    """
    widest = max(network.sizes)
    if width and not widest <= width <= MOST_UNITS:
        raise InputError(f"expected a width of {widest} to {MOST_UNITS}, or 0; got {width}")
    if batch < 1:
        raise InputError(f"expected a batch of at least 1; got {batch}")
    copies = tuple(max(1, width // size) for size in network.sizes)
    widths = tuple(width or size for size in network.sizes)
    found = [
        QuantisedNetwork(each, _layers(each, copies, widths, row_scales=row_scales), copies, widths, batch)
        for each in _distinct(_equalised(network, exponent) for exponent in _EXPONENTS)
    ]
    return min(found, key=lambda each: each.layer_errors[-1].total)


def _distinct(networks: Iterable[Network]) -> list[Network]:
    """The networks to try: without hidden layers there is nothing to scale, so only one of them."""
    found = list(networks)
    return found if len(found[0].layers) > 1 else found[:1]


def _equalised(network: Network, exponent: float) -> Network:
    """Scale hidden units, and the weights on them, so that their largest values become more alike, 1 at most.

    ReLU preserves positive factors, so the outputs stay the same (Nagel et al., 2019).
    """
    largest = _largest(network)
    layers, before = [], np.ones(network.sizes[0])
    for number, layer in enumerate(network.layers):
        last, most = number == len(network.layers) - 1, largest[number].max()
        gain = np.ones(layer.bias.size) if last else (most / largest[number]) ** exponent / most
        layers.append(Layer(gain[:, np.newaxis] * layer.weights / before, gain * layer.bias))
        before = gain
    return replace(network, layers=tuple(layers))


def _largest(network: Network) -> list[Array]:
    """Largest magnitudes of the units of every layer over the samples."""
    found = [np.abs(each).max(axis=0) for each in network.sample_activations()[1:]]
    # Units that are rarely active need no smaller range than this; 1 for a layer that is never active.
    return [np.maximum(each, 1e-2 * float(each.max()) if each.max() > _NOTHING else 1.0) for each in found]


def _layers(
    network: Network, copies: Sequence[int], widths: Sequence[int], *, row_scales: bool
) -> tuple[QuantisedLayer, ...]:
    ranges = [float(each.max()) for each in _largest(network)]
    steps = QuantisedNetwork(network, (), tuple(copies), tuple(widths), 1).input_steps(network.samples)
    layers, in_scale = [], _IN_SCALE
    for number, layer in enumerate(network.layers):
        last = number == len(network.layers) - 1
        if last:
            scale = _OUTPUT_HEADROOM * float(np.clip(ranges[number], _LEAST_RANGE, 1.0)) / INT8_MAX
        else:
            scale = _HIDDEN_HEADROOM * ranges[number] / 255
        form = copies[number], copies[number + 1], widths[number + 1]
        found = _quantised(layer, form, steps, (in_scale, scale), row_scales=row_scales)
        layers.append(replace(found, zero_point=0 if last else -128))
        steps, in_scale = _run(layers[-1], steps, in_scale) - layers[-1].zero_point, scale
    return tuple(layers)


def _quantised(
    layer: Layer, form: tuple[int, int, int], steps: Array, ends: tuple[float, float], *, row_scales: bool
) -> QuantisedLayer:
    """Quantise a layer.

    form: copies of its inputs and outputs, then the outputs with padding. steps: typical inputs, with copies
    and padding, float64[count, columns]. ends: real values of a step of the inputs and of the outputs.
    """
    sources, results, rows = form
    units, inputs = layer.weights.shape
    real_bias, least = _bias_within_reach(layer, ends)
    # With larger steps than these, one step of an input would already exceed the range of the outputs.
    most = 255 * ends[1] / ends[0]
    sizes = np.clip(np.abs(layer.weights).max(axis=1) / sources / INT8_MAX, least, most)
    if not row_scales:
        sizes = np.full(units, sizes.max())
    weights = np.zeros((rows, steps.shape[1]), np.int8)
    bias = np.zeros(rows, np.int32)
    scales = np.full(rows, sizes.max())
    exact = np.tile(layer.weights / (sources * sizes[:, np.newaxis]), (1, sources))
    used = steps[:, : sources * inputs]
    rounded = _rounded(exact, used)
    lost = ((exact - rounded) @ used.mean(axis=0)).T
    for result, offset in enumerate(_fractions(results)):
        out = slice(result * units, (result + 1) * units)
        weights[out, : sources * inputs] = rounded
        shift = (real_bias + offset * ends[1]) / (ends[0] * sizes) + lost
        bias[out] = np.clip(np.rint(shift), -_LARGEST_BIAS, _LARGEST_BIAS)
        scales[out] = sizes
    return QuantisedLayer(weights, scales, bias, ends[1], 0)


def _bias_within_reach(layer: Layer, ends: tuple[float, float]) -> tuple[Array, Array]:
    """Return the biases, and the least steps of weights with which they fit into 32 bits, float64[outputs].

    A bias so large that no input brings the unit back into its range is reduced to the least such bias; the
    outputs stay the same. ends: real values of a step of the inputs and of the outputs.
    """
    reach = 256 * (ends[1] + ends[0] * np.abs(layer.weights).sum(axis=1))
    bias: Array = np.clip(layer.bias, -reach, reach)
    return bias, (np.abs(bias) + ends[1]) / (ends[0] * _LARGEST_BIAS)


def _rounded(exact: Array, inputs: Array) -> Array:
    """Round weights, in steps, column by column; later columns compensate for the errors of earlier ones.

    inputs: typical ones, for which the errors compensate. After Frantar et al., "GPTQ" (2022).
    """
    products = inputs.T @ inputs
    products += _DAMPING * max(float(np.mean(np.diag(products))), 1.0) * np.eye(len(products))
    feedback = np.linalg.cholesky(np.linalg.inv(products)).T
    left, rounded = exact.copy(), np.empty_like(exact)
    for column in range(exact.shape[1]):
        rounded[:, column] = np.clip(np.rint(left[:, column]), -INT8_MAX, INT8_MAX)
        lost = (left[:, column] - rounded[:, column]) / feedback[column, column]
        left[:, column + 1 :] -= np.outer(lost, feedback[column, column + 1 :])
    return rounded


def _fractions(copies: int) -> Array:
    """Offsets in steps, evenly spaced about zero, that are added to the copies before rounding."""
    return (np.arange(copies) + 0.5) / copies - 0.5


def _run(layer: QuantisedLayer, steps: Array, in_scale: float) -> Array:
    """Compute a layer: outputs in steps from inputs in steps less zero point; clamped as by ReLU and int8."""
    sums = steps @ layer.weights.T.astype(np.float64) + layer.bias
    rounded = np.rint(sums * (in_scale * layer.scales / layer.scale)) + layer.zero_point
    clamped: Array = np.clip(rounded, -128, INT8_MAX)
    return clamped


def _relative(found: Array, exact: Array) -> float:
    size = max(float(np.mean(exact**2)), _LEAST_RANGE**2)
    return float(np.sqrt(float(np.mean((found - exact) ** 2)) / size))
