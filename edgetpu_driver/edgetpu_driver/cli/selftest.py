"""`edgetpu registers` and `edgetpu selftest`: status registers, and whether the chip computes correctly."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edgetpu_driver.backends.backend import Backend, ParsedModel
from edgetpu_driver.cli.run import random_inputs
from edgetpu_driver.cli.session import chosen, opened, read_model
from edgetpu_driver.cli.terminal import Answer, Progress, table
from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.errors import DependencyMissingError, DeviceError, ModelNotFoundError
from edgetpu_driver.toolchain.model_files import is_compiled, plain_stem

_EXIT_FAILED = 1
_SUPER_SPEED = 5000.0
_HOT = 85.0
"""Temperature at which the vendor's modules start to throttle, degrees Celsius."""
_ERROR_REGISTERS = (
    "hib_error_status", "hib_first_error_status", "fatal_err_int_status", "top_level_int_0_status",
    "top_level_int_1_status", "top_level_int_2_status", "top_level_int_3_status", "Error_ScalarCore",
    "Error_Tile",
)  # fmt: skip
"""Registers that are nonzero only after an error."""


@dataclass(frozen=True)
class Check:
    """Outcome of one check."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    detail: str


def registers(options: argparse.Namespace, progress: Progress) -> Answer:  # noqa: ARG001
    """Read the error and status registers."""
    with opened(chosen(options)) as backend:
        values = backend.registers()
    rows = [(each.name, f"{each.address:#07x}", f"{each.value:#x}") for each in values]
    text = table(rows, ("register", "address", "value")) if rows else "this backend has no registers"
    return Answer([asdict(each) for each in values], text)


def selftest(options: argparse.Namespace, progress: Progress) -> Answer:
    """Run all checks, also after one has failed."""
    backend = chosen(options)
    model = _Model(options, backend)
    with opened(backend):
        checks = [*_condition(backend), *model.compare(options.runs, progress), *_aftermath(backend)]
    failed = sum(check.outcome == "failed" for check in checks)
    value = {"passed": not failed, "checks": [asdict(check) for check in checks]}
    rows = [(check.outcome, check.name, check.detail) for check in checks]
    text = table(rows, ("outcome", "check", "detail"))
    return Answer(value, text, _EXIT_FAILED if failed else 0)


def _check(name: str, good: bool, detail: str) -> Check:
    return Check(name, "passed" if good else "failed", detail)


def _condition(backend: Backend) -> list[Check]:
    """The state of the device right after bring-up."""
    found = backend.read()
    if not found.bus_path:
        return [Check("device", "skipped", f"the backend {backend.name} has no device")]
    fast = found.link_speed >= _SUPER_SPEED
    where = f"{found.bus_path}, firmware {found.firmware}, clocks {found.clock_preset}"
    slow = "" if fast else "; a USB 3 port and cable would be several times faster"
    checks = [
        _check("device", True, f"brought up at {where}"),
        _check("link", True, f"{found.link_speed:g} Mbit/s{slow}"),
    ]
    if math.isnan(found.temperature):
        checks.append(Check("temperature", "skipped", "the chip's thermometer is off"))
    else:
        cool = found.temperature < _HOT
        checks.append(_check("temperature", cool, f"{found.temperature:.1f} C, expected below {_HOT:g} C"))
    return [*checks, _error_registers("registers", backend)]


def _error_registers(name: str, backend: Backend) -> Check:
    values = {each.name: each.value for each in backend.registers()}
    wrong = [f"{each} = {values[each]:#x}" for each in _ERROR_REGISTERS if values.get(each)]
    return _check(name, not wrong, ", ".join(wrong) or f"{len(_ERROR_REGISTERS)} error registers are zero")


def _aftermath(backend: Backend) -> list[Check]:
    """Whether error registers are clear after the work."""
    found = backend.read()
    if not found.bus_path:
        return []
    troubles = f"{found.retries} retries, {found.recoveries} recoveries"
    return [
        _check("transfers", not found.retries and not found.recoveries, troubles),
        _error_registers("registers afterwards", backend),
    ]


class _Model:
    """The tested model, and the same graph in LiteRT."""

    def __init__(self, options: argparse.Namespace, backend: Backend) -> None:
        """Read everything before the device is opened. Raises what reading a model raises."""
        self._backend = backend
        self._parsed: ParsedModel | None = None
        self._graph = b""
        path: Path | None = options.model
        if path is not None:
            source = path.with_name(f"{plain_stem(path)}.tflite")
            if is_compiled(path) and not source.is_file():
                raise ModelNotFoundError(
                    f"results are compared with those of the graph {source}, which is not there"
                )
            self._graph = read_model(source)
            self._parsed = backend.parse(path, read_model(path))
        elif backend.uncompiled:
            self._graph = _built_in_graph()
            self._parsed = backend.parse(Path("selftest.tflite"), self._graph)

    def compare(self, runs: int, progress: Progress) -> list[Check]:
        """Compare both on random inputs, and the device with itself on a repeated input."""
        if self._parsed is None:
            reason = "pass --model x_edgetpu.tflite, made by edgetpu_compiler, with x.tflite beside it"
            return [Check("results", "skipped", reason)]
        try:
            from edgetpu_driver.engines.cpu_engine import CpuEngine

            expected = CpuEngine(self._graph)
            engine = self._backend.attach(self._parsed)
            return self._compare(engine, expected, runs, progress)
        except DependencyMissingError as error:
            return [Check("results", "skipped", str(error))]
        except DeviceError as error:
            return [Check("results", "failed", str(error))]

    def _compare(self, engine: Engine, reference: Engine, runs: int, progress: Progress) -> list[Check]:
        rng = np.random.default_rng(0)
        largest = 0
        with progress.counting("comparing with LiteRT", runs) as advance:
            for _ in range(runs):
                inputs = random_inputs(engine.inputs, rng)
                came = engine.run(inputs)
                wanted = reference.run(
                    {
                        theirs.name: inputs[ours.name].reshape(theirs.shape)
                        for ours, theirs in zip(engine.inputs, reference.inputs, strict=True)
                    }
                )
                for ours, theirs in zip(engine.outputs, reference.outputs, strict=True):
                    largest = max(largest, _difference(came[ours.name], wanted[theirs.name]))
                advance()
        again = engine.run(inputs)
        same = all(np.array_equal(again[name], came[name]) for name in came)
        return [
            _check(
                "results",
                largest <= 1,
                f"{runs} runs differ from LiteRT by {largest} at most, expected 1 or 0",
            ),
            _check("repetition", same, "the same input gives the same output" if same else "outputs differ"),
        ]


def _difference(came: Any, wanted: Any) -> int:
    return int(np.abs(came.astype(np.int64).reshape(-1) - wanted.astype(np.int64).reshape(-1)).max())


def _built_in_graph() -> bytes:
    """A matrix of 64 rows and columns with weights from a seed."""
    from edgetpu_driver.tflite.graph_builder import GraphBuilder

    size = 64
    weights = np.random.default_rng(0).integers(-127, 128, (size, size))
    graph = GraphBuilder("selftest")
    x = graph.input("x", (1, size), np.uint8, scale=1 / 128, zero_point=128)
    inner = graph.quantize(x, np.int8, scale=1 / 128, zero_point=0)
    result = graph.fully_connected(inner, weights, weight_scale=1 / 1024, scale=1 / 64, zero_point=0)
    graph.output(graph.quantize(result, np.uint8, scale=1 / 64, zero_point=128, name="y"))
    return graph.build()
