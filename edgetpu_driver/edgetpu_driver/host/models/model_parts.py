"""Reads the files of a model, and divides it into the parts that a device and the CPU run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetpu_driver.backends.backend import Backend, ParsedModel, Placement
from edgetpu_driver.backends.cpu_parts import CpuPartsBackend
from edgetpu_driver.backends.retargeted_files import retargeted
from edgetpu_driver.backends.whole_model_parsing import ParsedPlan, parse_whole
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.whole_model.model_plan import EdgeTpuStep, ModelPlan
from edgetpu_driver.errors import EdgeTpuError, ModelUnsupportedError, ProcessStartError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelPart:
    """A step of a model, ready to be attached to a device or to the CPU."""

    parsed: ParsedModel
    on_device: bool
    """Whether the backend's device runs it; otherwise the CPU does."""
    operators: tuple[str, ...]
    """Names of its operators, in order."""


@dataclass(frozen=True)
class ReadModel:
    """A model as read from its files."""

    whole: ParsedModel
    """The tensors of the whole model, and the figures of all of its parts together."""
    plan: ModelPlan | None = None
    """How its parts are connected; None if one engine runs all of it."""
    parts: tuple[ModelPart, ...] = ()
    """One part for each step of the plan."""
    cpu: CpuPartsBackend | None = None
    """Makes the engines of the parts on the CPU."""

    def adopt(self, backend: Backend) -> None:
        """Make it usable by another backend of the same kind; raises as Backend.adopt."""
        if self.whole.unsupported_reason:
            return
        if self.plan is None:
            backend.adopt(self.whole)
        for part in self.parts:
            if part.on_device:
                backend.adopt(part.parsed)


def read_model(
    backend: Backend, files: Sequence[tuple[Path, bytes]], limits: ProcessLimits | None = None
) -> ReadModel:
    """Read one file, or the segments of a pipeline in their order.

    limits: of the processes that run parts for LiteRT. Logs what users should know of what runs instead of
    the files. Raises what Backend.parse and parse_whole raise.
    """
    files, _ = retargeted(backend, files)
    parsed, refusal = None, None
    if len(files) == 1:
        try:
            parsed = backend.parse(*files[0])
        except ProcessStartError:
            raise
        except ModelUnsupportedError as error:
            refusal = error  # the graph may still run in parts
        if parsed is not None and not _is_compiled(parsed):
            return ReadModel(parsed)
    try:
        plan = parse_whole(backend, files)
    except EdgeTpuError as error:
        if refusal is None or isinstance(error, ModelUnsupportedError):
            raise
        raise refusal from None
    if plan.remark:
        _log.info("model '%s': %s", plan.plan.name, plan.remark)
    if parsed is not None and _is_whole(parsed, plan.plan):
        return ReadModel(parsed)
    return _in_parts(plan, CpuPartsBackend(limits))


def _is_compiled(parsed: ParsedModel) -> bool:
    """Whether it was read from a compiled file, which may hold more than the part for the Edge TPU."""
    return isinstance(parsed.source, CompiledModel) and parsed.sidecars is None


def _is_whole(parsed: ParsedModel, plan: ModelPlan) -> bool:
    """Whether the part for the Edge TPU is all of the model, with the same tensors in the same order."""
    alone = len(plan.steps) == 1 and isinstance(plan.steps[0], EdgeTpuStep) and not plan.missing
    return alone and (plan.inputs, plan.outputs) == (parsed.inputs, parsed.outputs)


def _in_parts(parsed: ParsedPlan, cpu: CpuPartsBackend) -> ReadModel:
    plan = parsed.plan
    parts = []
    for step in plan.steps:
        part = parsed.parts.get(step) if isinstance(step, EdgeTpuStep) else None
        parts.append(ModelPart(part or cpu.parse_step(step), part is not None, step.operators))
    on_device = [part.parsed for part in parts if part.on_device]
    tokens = {part.caching_token for part in on_device}
    reasons = (part.parsed.unsupported_reason for part in parts)
    whole = ParsedModel(
        inputs=plan.inputs,
        outputs=plan.outputs,
        placement=max((part.placement for part in on_device), default=Placement.HOST),
        parameter_bytes=sum(part.parsed.parameter_bytes for part in parts),
        caching_token=tokens.pop() if len(tokens) == 1 else 0,
        source=plan,
        unsupported_reason=next((reason for reason in reasons if reason), plan.missing),
    )
    return ReadModel(whole, plan, tuple(parts), cpu)
