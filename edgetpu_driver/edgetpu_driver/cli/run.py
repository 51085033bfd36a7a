"""`edgetpu run`: one inference with given inputs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.cli.device_and_model import chosen, opened, parse
from edgetpu_driver.cli.runnable_model import RunnableModel
from edgetpu_driver.cli.tensor_files import read_inputs, write_outputs
from edgetpu_driver.cli.terminal import Answer, Progress, table
from edgetpu_driver.engines.whole_model.input_ranges import input_ranges
from edgetpu_driver.engines.whole_model.recurrence import feedback_of, likely_feedback, zeros
from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.tensor import TensorSpec

_SHOWN_VALUES = 8
"""Values shown per output, to fit on one line."""


def run(options: argparse.Namespace, progress: Progress) -> Answer:  # noqa: ARG001
    """Run a model once; the result holds the outputs unless they are written to a file."""
    backend = chosen(options)
    parsed = parse(backend, options.model)
    model = RunnableModel(parsed, options.part)
    states = _states(options.feedback, model)
    given = read_inputs(model.inputs, options.input, states, input_ranges(parsed.plan))
    zero = {spec.name: zeros(spec) for spec in model.inputs if spec.name not in given}
    with opened(backend):
        engine = model.attach(backend)
        begin = time.perf_counter()
        outputs = engine.run(given | zero)
        seconds = time.perf_counter() - begin
    if options.output is not None:
        write_outputs(options.output, outputs)
    value = {
        "model": ", ".join(map(str, options.model)),
        "backend": options.backend,
        "part": options.part,
        "milliseconds": 1e3 * seconds,
        "states_from_zero": list(zero),
        "output_file": options.output,
        "outputs": [_output(spec, outputs[spec.name], options.output is None) for spec in model.outputs],
    }
    rows = [_row(spec, outputs[spec.name]) for spec in model.outputs]
    text = table(rows, ("output", "dtype", "shape", "least", "greatest", "values"))
    notes = [*model.notes, *(f"the state '{name}' starts at zero" for name in zero)]
    return Answer(value, "\n".join([*notes, text]))


def _states(arguments: Sequence[str], model: RunnableModel) -> list[str]:
    """The state inputs of a recurrent model, as given or found by name; InputError if given otherwise."""
    stated: dict[str, str] = {}
    for argument in arguments:
        output, equals, fed = argument.rpartition("=")
        if not equals:
            raise InputError(f"expected --feedback OUTPUT=INPUT; got '{argument}'")
        if output in stated:
            raise InputError(f"expected --feedback once for each output; got '{output}' again")
        stated[output] = fed
    found = stated or likely_feedback(model.inputs, model.outputs)
    return [each.input.name for each in feedback_of(found, model.inputs, model.outputs)]


def _output(spec: TensorSpec, array: NDArray[Any], with_values: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": spec.name,
        "dtype": spec.dtype.name,
        "shape": array.shape,
        "scale": spec.scale,
        "zero_point": spec.zero_point,
    }
    return described | ({"values": array} if with_values else {})


def _row(spec: TensorSpec, array: NDArray[Any]) -> tuple[object, ...]:
    shown = " ".join(f"{value:g}" for value in array.reshape(-1)[:_SHOWN_VALUES])
    more = " .." if array.size > _SHOWN_VALUES else ""
    extent = "x".join(map(str, array.shape))
    least, greatest = (f"{array.min():g}", f"{array.max():g}") if array.size else ("", "")
    return spec.name, spec.dtype.name, extent, least, greatest, shown + more
