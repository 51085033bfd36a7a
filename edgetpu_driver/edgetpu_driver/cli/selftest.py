"""`edgetpu selftest`: whether the device is in order and the chip computes correctly."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.backends.whole_model_parsing import ParsedPlan, parse_whole
from edgetpu_driver.cli.device_and_model import PATIENT, chosen, opened
from edgetpu_driver.cli.result_comparison import Comparison, scene_inputs
from edgetpu_driver.cli.terminal import Answer, Progress, table
from edgetpu_driver.errors import DependencyMissingError, DeviceError, ModelNotFoundError
from edgetpu_driver.files.compiled_file_names import is_compiled, source_graph, source_graphs
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.checks.source_graph_file import read_source_graph
from edgetpu_driver.tflite.model_reader import each_parsed_once
from edgetpu_driver.usb.chip_bringup import SUPER_SPEED

_EXIT_FAILED = 1
"""Exit status if a check fails, see the epilog of `edgetpu --help`."""
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


def selftest(options: argparse.Namespace, progress: Progress) -> Answer:
    """Run all checks, even after one has failed."""
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
    fast = found.link_speed >= SUPER_SPEED
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
    """Check error registers and retries after the runs."""
    found = backend.read()
    if not found.bus_path:
        return []
    troubles = f"{found.retries} retries, {found.recoveries} recoveries"
    return [
        _check("transfers", not found.retries and not found.recoveries, troubles),
        _error_registers("registers afterwards", backend),
    ]


class _Model:
    """The tested model, whole, and its graph in LiteRT, part by part."""

    @each_parsed_once()
    def __init__(self, options: argparse.Namespace, backend: Backend) -> None:
        """Read all files before the device is opened. Raises the errors of reading a model."""
        self._backend = backend
        self._parsed: ParsedPlan | None = None
        self._graph = b""
        path: Path | None = options.model
        if path is not None:
            data = read_model_file(path)
            self._graph = self._source(path, data)
            self._parsed = parse_whole(backend, [(path, data)])
        elif backend.uncompiled:
            self._graph = _built_in_graph()
            self._parsed = parse_whole(backend, [(Path("selftest.tflite"), self._graph)])
        if self._parsed is not None:
            self._parsed.check_supported()

    @staticmethod
    def _source(path: Path, data: bytes) -> bytes:
        if not is_compiled(path):
            return data
        source = source_graph(path)
        if source is None:
            raise ModelNotFoundError(
                f"expected the graph {source_graphs(path)[0]} to compare results with; there is no such file"
            )
        return read_source_graph(source)

    def compare(self, runs: int, progress: Progress) -> list[Check]:
        """Compare device and LiteRT on random inputs, and the device with itself on a repeated input."""
        if self._parsed is None:
            reason = "pass --model x_edgetpu.tflite, made by edgetpu_compiler, with x.tflite next to it"
            return [Check("results", "skipped", reason)]
        try:
            return self._compare(self._parsed, runs, progress)
        except DependencyMissingError as error:
            return [Check("results", "skipped", str(error))]
        except DeviceError as error:
            return [Check("results", "failed", str(error))]

    def _compare(self, parsed: ParsedPlan, runs: int, progress: Progress) -> list[Check]:
        model = parsed.attach(self._backend, limits=PATIENT)
        comparison = Comparison(parsed.plan, self._graph)
        rng = np.random.default_rng(0)
        with progress.counting("comparing with LiteRT", runs) as advance:
            for _ in range(runs):
                inputs = scene_inputs(model.inputs, rng)
                model.reset()
                outputs = model.run(inputs, on_step=comparison.note)
                advance()
        model.reset()
        again = model.run(inputs)
        same = all(
            np.array_equal(again[name], outputs[name], equal_nan=_is_real(again[name])) for name in outputs
        )
        repeated = "the same input gives the same output" if same else "outputs differ"
        return [
            *(
                _check(verdict.name, verdict.good, f"{runs} runs: {verdict.detail}")
                for verdict in comparison.verdicts()
            ),
            _check("repetition", same, repeated),
        ]


def _is_real(array: Any) -> bool:
    return bool(array.dtype.kind in "fc")


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
