"""Parses whole models for a backend: which steps its accelerator is to run, and whether it can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetpu_driver.backends.backend import Backend, ParsedModel
from edgetpu_driver.backends.compiled_pairs import check_pair, other_weights
from edgetpu_driver.backends.retargeted_files import retargeted
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.engines.whole_model.model import LONGEST_GAP, Model
from edgetpu_driver.engines.whole_model.model_plan import EdgeTpuStep, LiteRtStep, ModelPlan, Step
from edgetpu_driver.engines.whole_model.pipeline_segments import plan_segments
from edgetpu_driver.errors import EdgeTpuError, ModelFormatError, ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import is_compiled, plain_stem, whole_graph
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.model_reader import each_parsed_once
from edgetpu_driver.toolchain.dense_compiler import is_dense
from edgetpu_driver.toolchain.edgetpu_compiler import compile_command


@dataclass(frozen=True, eq=False)
class ParsedPlan:
    """A whole model as read for a backend; no device is needed."""

    plan: ModelPlan
    parts: Mapping[EdgeTpuStep, ParsedModel]
    """The model that the backend has parsed for each step on its accelerator."""
    remark: str = ""
    """A note for users if it runs something other than the file, or elsewhere; otherwise empty."""

    @property
    def unsupported_reason(self) -> str:
        """Why it cannot run on this backend, as far as the files tell; empty if no reason is known."""
        reasons = (part.unsupported_reason for part in self.parts.values())
        return next((reason for reason in reasons if reason), self.plan.missing)

    def check_supported(self) -> None:
        """Raise ModelUnsupportedError with the reason if it cannot run on this backend."""
        reason = self.unsupported_reason
        if reason:
            raise ModelUnsupportedError(reason)

    def attach(
        self,
        backend: Backend,
        *,
        feedback: Mapping[str, str] | None = None,
        longest_gap: float = LONGEST_GAP,
        limits: ProcessLimits | None = None,
    ) -> Model:
        """Make the model ready to run on the open device of the backend that it was parsed for.

        Parts for LiteRT run in separate processes unless they are in the suite's catalogue. The other
        arguments and the errors are those of Model.load.
        """
        self.check_supported()

        def attached(step: EdgeTpuStep) -> AttachedEngine:
            return backend.attach(self.parts[step])

        return Model(
            self.plan, attached, feedback=feedback, longest_gap=longest_gap, isolated=None, limits=limits
        )


def parse_whole(backend: Backend, files: Sequence[tuple[Path, bytes]]) -> ParsedPlan:
    """Read a whole model for a backend: one file, or the segments of a pipeline, each with its path.

    A backend that runs compiled models and plain graphs packs the steps of plain graphs that LiteRT would
    run, if its device can run them; the other steps stay on the CPU. A backend that runs only compiled models
    also takes a graph that is only a matrix, or that has the form of a compiled file next to it. A backend
    without an accelerator runs the graph next to a compiled model. Raises ModelNotFoundError,
    ModelFormatError, and ModelUnsupportedError for a compiled model whose graph is needed and missing.
    """
    if not backend.compiled:
        return _on_cpu(files, backend)
    files, remark = retargeted(backend, files)
    plan = _planned(files)
    if plan.edge_tpu_steps:
        return ParsedPlan(
            plan, {step: backend.parse_part(step.model) for step in plan.edge_tpu_steps}, remark
        )
    if not backend.uncompiled and not (len(files) == 1 and is_dense(files[0][1])):
        path = files[0][0]
        raise ModelFormatError(
            f"{path.name} is not compiled for the Edge TPU: run `{compile_command(path)}`, or use the "
            "backend cpu or virtual"
        )
    parts: dict[EdgeTpuStep, ParsedModel] = {}
    steps: list[Step] = []
    refusals: list[EdgeTpuError] = []
    for step in plan.steps:
        packed = _packed(backend, step, files[step.segment][0], refusals)
        if packed is not None:
            parts[packed[0]] = packed[1]
        steps.append(step if packed is None else packed[0])
    if not parts:
        reason = refusals[0] if refusals else "it has no operators for it"
        return ParsedPlan(
            plan, parts, f"all of it runs on the CPU, nothing on the {backend.name} stick: {reason}"
        )
    written = [part.source.remark for part in parts.values() if part.source.remark]
    remark = f"its program is generated without edgetpu_compiler: {written[0]}" if written else ""
    return ParsedPlan(replace(plan, steps=tuple(steps)), parts, remark)


def _on_cpu(files: Sequence[tuple[Path, bytes]], backend: Backend) -> ParsedPlan:
    """A model for a backend without an accelerator: a plain graph, or the graph next to a compiled model."""
    graph = whole_graph([path for path, _ in files]) if all(is_compiled(path) for path, _ in files) else None
    compiled = files
    if graph is not None:
        files = [(graph, read_model_file(graph))]
    plan = _planned(files)
    parts = {step: backend.parse_part(step.model) for step in plan.edge_tpu_steps}
    return ParsedPlan(plan, parts, "" if graph is None else _remark_on_graph(*files[0], plan, compiled))


def _planned(files: Sequence[tuple[Path, bytes]]) -> ModelPlan:
    return plan_segments([(plain_stem(path), data, path) for path, data in files])


@each_parsed_once()
def _remark_on_graph(graph: Path, data: bytes, plan: ModelPlan, files: Sequence[tuple[Path, bytes]]) -> str:
    """What to know if a graph with this plan runs instead of the compiled files next to it.

    ModelFormatError if they were compiled from one with other inputs or outputs.
    """
    names = ", ".join(path.name for path, _ in files)
    try:
        compiled = _planned(files)
    except EdgeTpuError as error:
        return f"the CPU runs {graph.name}, which cannot be compared with {names}: {error}"
    check_pair(compiled, plan, names)
    if other := other_weights(compiled, data):
        return f"the CPU runs {graph.name}, but {names} is probably of another graph: it lacks {other}"
    return f"the CPU runs {graph.name}, which {names} was compiled from"


def _packed(
    backend: Backend, step: Step, path: Path, refusals: list[EdgeTpuError]
) -> tuple[EdgeTpuStep, ParsedModel] | None:
    """A step for LiteRT as a step for the backend's device; None if it stays on the CPU."""
    if not isinstance(step, LiteRtStep):
        return None
    try:
        part = backend.parse(path, step.graph)
    except EdgeTpuError as error:
        refusals.append(error)
        return None
    made = EdgeTpuStep(step.name, step.inputs, step.outputs, step.operators, step.segment, part.source)
    return made, part
