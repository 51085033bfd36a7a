"""`edgetpu run` and `edgetpu benchmark`: one inference with given inputs, many with random ones."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.backends.whole_model_parsing import ParsedPlan
from edgetpu_driver.cli.device_and_model import PATIENT, chosen, opened, parse, part
from edgetpu_driver.cli.tensor_files import read_inputs, write_outputs
from edgetpu_driver.cli.terminal import Answer, Progress, pairs, table
from edgetpu_driver.engines.whole_model.input_ranges import input_ranges
from edgetpu_driver.engines.whole_model.model import Model
from edgetpu_driver.engines.whole_model.plan import Step, engine_name
from edgetpu_driver.engines.whole_model.recurrence import feedback_of, likely_feedback, zeros
from edgetpu_driver.tflite.tensor import TensorSpec

_SHOWN_VALUES = 8
"""Values shown per output, to fit on one line."""


def run(options: argparse.Namespace, progress: Progress) -> Answer:  # noqa: ARG001
    """Run a model once; the result holds the outputs unless they are written to a file."""
    backend = chosen(options)
    parsed = parse(backend, options.model)
    subject = _Subject(parsed, options.part)
    states = _states(options.feedback, subject)
    given = read_inputs(subject.inputs, options.input, states, input_ranges(parsed.plan))
    zero = {spec.name: zeros(spec) for spec in subject.inputs if spec.name not in given}
    with opened(backend):
        engine = subject.attach(backend)
        begin = time.perf_counter()
        outputs = engine.run(given | zero)
        seconds = time.perf_counter() - begin
    if options.output is not None:
        write_outputs(options.output, outputs)
    value = {
        "model": _names(options.model),
        "backend": options.backend,
        "part": options.part,
        "milliseconds": 1e3 * seconds,
        "states_from_zero": list(zero),
        "output_file": options.output,
        "outputs": [_output(spec, outputs[spec.name], options.output is None) for spec in subject.outputs],
    }
    rows = [_row(spec, outputs[spec.name]) for spec in subject.outputs]
    text = table(rows, ("output", "dtype", "shape", "least", "greatest", "values"))
    notes = [*subject.notes, *(f"the state '{name}' starts at zero" for name in zero)]
    return Answer(value, "\n".join([*notes, text]))


class _Subject:
    """The model to run, or one part of it for the Edge TPU."""

    def __init__(self, parsed: ParsedPlan, number: int | None) -> None:
        """number: of the part; None for the whole model. InputError if there is no such part."""
        self._parsed = parsed
        self._part = None if number is None else part(parsed, number)
        plan = parsed.plan
        if self._part is None:
            self.inputs, self.outputs = plan.inputs, plan.outputs
            self.notes = [parsed.remark] if parsed.remark else []
            return
        self.inputs, self.outputs = self._part.model.inputs, self._part.model.outputs
        outer = ", ".join(spec.name for spec in plan.outputs)
        self.notes = [f"part {number} of the model only: inner tensors; the model's own outputs are {outer}"]

    def attach(self, backend: Backend, clock: _StepClock | None = None) -> _Runnable:
        """Prepare it to run on the open device. clock: notified of every step of a whole model."""
        if self._part is not None:
            return backend.attach(self._parsed.parts[self._part])
        model = self._parsed.attach(backend, limits=PATIENT)
        return model if clock is None else _Timed(model, clock)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Its steps."""
        return self._parsed.plan.steps if self._part is None else ()


class _Runnable(Protocol):
    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]: ...


class _StepClock:
    """Measures how long each step takes, over all runs."""

    def __init__(self) -> None:
        self.seconds: dict[Step, float] = {}
        self.mark = 0.0

    def note(self, step: Step, *_: object) -> None:
        """Record the end of a step, which began at the end of the previous one."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self.mark
        self.mark = now


class _Timed:
    """A whole model whose steps are measured."""

    def __init__(self, model: Model, clock: _StepClock) -> None:
        self._model, self._clock = model, clock

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self._clock.mark = time.perf_counter()
        return self._model.run(inputs, on_step=self._clock.note)


def _states(arguments: Sequence[str], subject: _Subject) -> list[str]:
    """The state inputs of a recurrent model, as given or found by name."""
    stated = dict(argument.rpartition("=")[::2] for argument in arguments)
    found = stated or likely_feedback(subject.inputs, subject.outputs)
    return [each.input.name for each in feedback_of(found, subject.inputs, subject.outputs)]


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))


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


def benchmark(options: argparse.Namespace, progress: Progress) -> Answer:
    """Measure the wall time of inferences with random inputs."""
    backend = chosen(options)
    subject = _Subject(parse(backend, options.model), options.part)
    with opened(backend):
        clock = _StepClock()
        engine = subject.attach(backend, clock)
        inputs = random_inputs(subject.inputs, np.random.default_rng(0))
        first = _time(engine, inputs)
        clock.seconds.clear()
        before = backend.read()
        times = np.empty(options.runs)
        with progress.counting("inferences", options.runs) as advance:
            for index in range(options.runs):
                times[index] = _time(engine, inputs)
                advance()
        value = {
            "model": _names(options.model),
            "backend": options.backend,
            "part": options.part,
            "runs": options.runs,
            "first_milliseconds": 1e3 * first,
            "milliseconds": {
                "mean": 1e3 * times.mean(),
                "min": 1e3 * times.min(),
                "p50": 1e3 * np.percentile(times, 50),
                "p99": 1e3 * np.percentile(times, 99),
                "max": 1e3 * times.max(),
            },
            "inferences_per_second": options.runs / times.sum(),
            "steps": [
                {
                    "runs_on": engine_name(step),
                    "operators": step.operators,
                    "mean_milliseconds": 1e3 * clock.seconds[step] / options.runs,
                }
                for step in subject.steps
            ],
            **_traffic(backend, before, options.runs),
        }
    return Answer(value, _benchmark_text(value))


def _time(engine: _Runnable, inputs: Mapping[str, NDArray[Any]]) -> float:
    begin = time.perf_counter()
    engine.run(inputs)
    return time.perf_counter() - begin


def _traffic(backend: Backend, before: Any, runs: int) -> dict[str, Any]:
    after = backend.read()
    return {
        "bytes_sent_per_run": (after.bytes_sent - before.bytes_sent) / runs,
        "bytes_received_per_run": (after.bytes_received - before.bytes_received) / runs,
        "uploads": after.uploads - before.uploads,
        "retries": after.retries - before.retries,
    }


def _benchmark_text(value: Mapping[str, Any]) -> str:
    times = ", ".join(f"{name} {milliseconds:.3f}" for name, milliseconds in value["milliseconds"].items())
    what = value["model"] if value["part"] is None else f"part {value['part']} of {value['model']}"
    lines = {
        "model": f"{what} on {value['backend']}",
        "first run": f"{value['first_milliseconds']:.3f} ms, parameters uploaded",
        f"{value['runs']} runs": f"{times} ms",
        "rate": f"{value['inferences_per_second']:.1f} inferences/s",
    }
    if value["bytes_sent_per_run"]:
        lines["per run"] = (
            f"{value['bytes_sent_per_run']:.0f} bytes sent, {value['bytes_received_per_run']:.0f} received"
        )
    if len(value["steps"]) > 1:
        for number, step in enumerate(value["steps"], 1):
            lines[f"step {number}"] = f"{step['mean_milliseconds']:.3f} ms, {step['runs_on']}"
    return pairs(lines)


def random_inputs(specs: tuple[TensorSpec, ...], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Uniform values over the range of each input's integers, or over 0..1."""
    return {
        spec.name: (
            rng.integers(
                np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max, spec.shape, spec.dtype, endpoint=True
            )
            if spec.dtype.kind in "iu"
            else rng.random(spec.shape).astype(spec.dtype)
        )
        for spec in specs
    }
