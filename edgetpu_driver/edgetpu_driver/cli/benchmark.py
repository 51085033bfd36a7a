"""`edgetpu benchmark`: how long inferences with random inputs take."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.cli.device_and_model import chosen, opened, parse
from edgetpu_driver.cli.random_inputs import random_inputs
from edgetpu_driver.cli.runnable_model import Runnable, RunnableModel
from edgetpu_driver.cli.terminal import Answer, Progress, pairs
from edgetpu_driver.engines.whole_model.model_plan import Step, engine_name


def benchmark(options: argparse.Namespace, progress: Progress) -> Answer:
    """Measure the wall time of inferences with random inputs."""
    backend = chosen(options)
    model = RunnableModel(parse(backend, options.model), options.part)
    with opened(backend):
        clock = _StepClock()
        engine = model.attach(backend, clock.note)
        inputs = random_inputs(model.inputs)
        first = _time(engine, inputs, clock)
        clock.seconds.clear()
        before = backend.read()
        times = np.empty(options.runs)
        with progress.counting("inferences", options.runs) as advance:
            for index in range(options.runs):
                times[index] = _time(engine, inputs, clock)
                advance()
        value = {
            "model": ", ".join(map(str, options.model)),
            "backend": options.backend,
            "part": options.part,
            "runs": options.runs,
            "first_milliseconds": 1e3 * first,
            "milliseconds": _distribution(1e3 * times),
            "inferences_per_second": options.runs / times.sum(),
            "steps": [
                {
                    "runs_on": engine_name(step),
                    "operators": step.operators,
                    "mean_milliseconds": 1e3 * clock.seconds[step] / options.runs,
                }
                for step in model.steps
            ],
            **_traffic(backend, before, options.runs),
        }
    return Answer(value, "\n".join([*model.notes, _benchmark_text(value)]))


def _distribution(values: NDArray[np.float64]) -> dict[str, float]:
    return {
        "mean": values.mean(),
        "min": values.min(),
        "p50": np.percentile(values, 50),
        "p99": np.percentile(values, 99),
        "max": values.max(),
    }


class _StepClock:
    """Measures how long each step takes, over all runs."""

    def __init__(self) -> None:
        self.seconds: dict[Step, float] = {}
        self.mark = 0.0
        """End of the last step, or start of the run, s."""

    def note(self, step: Step, *_: object) -> None:
        """Record the end of a step, which began at the end of the previous one."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self.mark
        self.mark = now


def _time(engine: Runnable, inputs: Mapping[str, NDArray[Any]], clock: _StepClock) -> float:
    begin = clock.mark = time.perf_counter()
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
    first = ", parameters uploaded" if value["bytes_sent_per_run"] else ""
    lines = {
        "model": f"{what} on {value['backend']}",
        "first run": f"{value['first_milliseconds']:.3f} ms" + first,
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
