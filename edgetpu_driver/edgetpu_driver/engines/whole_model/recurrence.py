"""The state of a recurrent model: outputs that are inputs to the next run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.tensor import TensorSpec

_MARKS = (
    "init",
    "initial",
    "in",
    "input",
    "inputs",
    "out",
    "output",
    "outputs",
    "raw",
    "prev",
    "next",
    "new",
)
"""Words in which the names of a state's input and output differ."""


@dataclass(frozen=True)
class Feedback:
    """One part of the state."""

    output: TensorSpec
    input: TensorSpec

    def next_input(self, result: NDArray[Any]) -> NDArray[Any]:
        """The input for the next run from the output of this one, in the quantisation of the input."""
        source, target = self.output, self.input
        result = result.reshape(target.shape)
        if (source.dtype, source.scale, source.zero_point) == (target.dtype, target.scale, target.zero_point):
            return result
        real = source.dequantise(result) if source.scale > 0 else result
        return target.quantise(real) if target.scale > 0 else real.astype(target.dtype)


class State:
    """The current state, initially zero. Not thread-safe."""

    def __init__(self, feedback: Sequence[Feedback], longest_gap: float) -> None:
        """longest_gap: maximum seconds between two stamps; the state is reset after a longer gap.

        Raises InputError unless it is above 0.
        """
        if not longest_gap > 0:
            raise InputError(f"expected a longest gap above 0 s; got {longest_gap:g}")
        self.feedback = tuple(feedback)
        self._longest_gap = longest_gap
        self._stamp = math.nan
        self._arrays: dict[str, NDArray[Any]] = {}
        self.reset()

    def reset(self) -> None:
        """Set every input of the state to real 0. The last stamp is kept."""
        self._arrays = {each.input.name: zeros(each.input) for each in self.feedback}

    def jumps(self, stamp: float) -> bool:
        """Record the stamp of the next run, s; returns whether time has jumped. InputError if not finite."""
        if not math.isfinite(stamp):
            raise InputError(f"expected a stamp in seconds; got {stamp}")
        gap, self._stamp = stamp - self._stamp, stamp
        return gap < 0 or gap > self._longest_gap  # false for the first stamp

    def inputs(self, stamp: float | None = None) -> dict[str, NDArray[Any]]:
        """The inputs of the state by name, reset if time has jumped since the last stamp; see `jumps`."""
        if stamp is not None and self.jumps(stamp):
            self.reset()
        return dict(self._arrays)

    def keep(self, outputs: Mapping[str, NDArray[Any]]) -> None:
        """Take the next state from the outputs of a run."""
        self._arrays = {
            each.input.name: each.next_input(outputs[each.output.name]).copy() for each in self.feedback
        }


def zeros(spec: TensorSpec) -> NDArray[Any]:
    """The array of the tensor's shape and dtype that represents real zeros."""
    return np.full(spec.shape, spec.zero_point, spec.dtype)


def feedback_of(
    mapping: Mapping[str, str], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[Feedback, ...]:
    """The parts of the state, from a mapping of output names to input names. Raises InputError."""
    ours, theirs = {spec.name: spec for spec in outputs}, {spec.name: spec for spec in inputs}
    found = []
    for source, target in mapping.items():
        for name, specs, kind in ((source, ours, "output"), (target, theirs, "input")):
            if name not in specs:
                raise InputError(f"expected the {kind}s {', '.join(map(str, specs.values()))}; got '{name}'")
        output, input_ = ours[source], theirs[target]
        if math.prod(output.shape) != math.prod(input_.shape):
            raise InputError(f"expected an output of the size of {input_} to feed back to it; got {output}")
        found.append(Feedback(output, input_))
    if len({each.input.name for each in found}) != len(found):
        raise InputError(f"expected each input to be fed back to once; got {', '.join(mapping.values())}")
    return tuple(found)


def likely_feedback(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> dict[str, str]:
    """Outputs and the inputs they probably feed: same shape and dtype, matching names.

    Names match if they differ only in words such as "init", "inputs" and "outputs":
    "raw_outputs/lstm_c" and "raw_inputs/init_lstm_c". Empty if no other input would be left.
    """
    found: dict[str, str] = {}
    for source in outputs:
        targets = [
            target.name
            for target in inputs
            if (source.shape, source.dtype) == (target.shape, target.dtype)
            and _stem(source.name) == _stem(target.name) != ()
        ]
        if len(targets) == 1 and targets[0] not in found.values():
            found[source.name] = targets[0]
    return found if len(found) < len(inputs) else {}


def _stem(name: str) -> tuple[str, ...]:
    """The words of a name without those that distinguish input and output."""
    words = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return tuple(word for word in words if word not in _MARKS)
