"""`edgetpu run` and `edgetpu benchmark`: one inference with given inputs, many with random ones."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.cli.session import chosen, opened, parse
from edgetpu_driver.cli.tensor_files import read_inputs, write_outputs
from edgetpu_driver.cli.terminal import Answer, Progress, pairs, table
from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.tensor import TensorSpec

_SHOWN_VALUES = 8


def run(options: argparse.Namespace, progress: Progress) -> Answer:  # noqa: ARG001
    """Run a model once; the result holds the outputs unless they are written to a file."""
    backend = chosen(options)
    parsed = parse(backend, options.model)
    inputs = read_inputs(parsed.inputs, options.input)
    with opened(backend):
        engine = backend.attach(parsed)
        begin = time.perf_counter()
        outputs = engine.run(inputs)
        seconds = time.perf_counter() - begin
    if options.output is not None:
        write_outputs(options.output, outputs)
    value = {
        "model": options.model,
        "backend": options.backend,
        "milliseconds": 1e3 * seconds,
        "output_file": options.output,
        "outputs": [_output(spec, outputs, options.output is None) for spec in parsed.outputs],
    }
    rows = [_row(spec, outputs[spec.name]) for spec in parsed.outputs]
    return Answer(value, table(rows, ("output", "dtype", "shape", "least", "greatest", "values")))


def _output(spec: TensorSpec, outputs: Mapping[str, NDArray[Any]], with_values: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": spec.name,
        "dtype": spec.dtype.name,
        "shape": spec.shape,
        "scale": spec.scale,
        "zero_point": spec.zero_point,
    }
    return described | ({"values": outputs[spec.name]} if with_values else {})


def _row(spec: TensorSpec, array: NDArray[Any]) -> tuple[object, ...]:
    shown = " ".join(f"{value:g}" for value in array.reshape(-1)[:_SHOWN_VALUES])
    more = " .." if array.size > _SHOWN_VALUES else ""
    extent = "x".join(map(str, spec.shape))
    return spec.name, spec.dtype.name, extent, f"{array.min():g}", f"{array.max():g}", shown + more


def benchmark(options: argparse.Namespace, progress: Progress) -> Answer:
    """Measure the wall time of inferences with random inputs."""
    backend = chosen(options)
    parsed = parse(backend, options.model)
    with opened(backend):
        engine = backend.attach(parsed)
        inputs = random_inputs(parsed.inputs, np.random.default_rng(0))
        first = _time(engine, inputs)
        before = backend.read()
        times = np.empty(options.runs)
        with progress.counting("inferences", options.runs) as advance:
            for index in range(options.runs):
                times[index] = _time(engine, inputs)
                advance()
        value = {
            "model": options.model,
            "backend": options.backend,
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
            **_traffic(backend, before, options.runs),
        }
    return Answer(value, _benchmark_text(value))


def _time(engine: Engine, inputs: Mapping[str, NDArray[Any]]) -> float:
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
    lines = {
        "model": f"{value['model']} on {value['backend']}",
        "first run": f"{value['first_milliseconds']:.3f} ms, parameters uploaded",
        f"{value['runs']} runs": f"{times} ms",
        "rate": f"{value['inferences_per_second']:.1f} inferences/s",
    }
    if value["bytes_sent_per_run"]:
        lines["per run"] = (
            f"{value['bytes_sent_per_run']:.0f} bytes sent, {value['bytes_received_per_run']:.0f} received"
        )
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
