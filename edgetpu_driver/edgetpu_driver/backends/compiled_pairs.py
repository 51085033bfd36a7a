"""Whether the graph next to a compiled model is the one that it was compiled from."""

from __future__ import annotations

from edgetpu_driver.compiled_model import OWN_COMPILERS, VIRTUAL_COMPILER, CompiledModel
from edgetpu_driver.engines.whole_model.model_plan import ModelPlan
from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.tflite.model_reader import each_parsed_once
from edgetpu_driver.toolchain.dense_compiler import compile_dense, is_dense
from edgetpu_driver.weights.packed_layout import parameters_of
from edgetpu_driver.weights.section_search import locate_sections


def check_pair(compiled: ModelPlan, graph: ModelPlan, name: str = "") -> None:
    """Raise ModelFormatError if inputs or outputs of the whole model differ from those of a graph.

    name: of the compiled model, for the message.
    """
    start = f"{name}: " if name else ""
    for ours, theirs in ((graph.inputs, compiled.inputs), (graph.outputs, compiled.outputs)):
        if [(spec.shape, spec.dtype) for spec in ours] != [(spec.shape, spec.dtype) for spec in theirs]:
            raise ModelFormatError(
                f"{start}its graph has {', '.join(map(str, ours))} where the compiled model has "
                f"{', '.join(map(str, theirs))}: it was compiled from another graph"
            )


@each_parsed_once()
def other_weights(compiled: ModelPlan, graph: bytes) -> str:
    """The weights of a graph that a compiled model does not have, in words; "" if it has all.

    Layers whose place in the parameters is not known are not compared. ModelFormatError for a malformed
    graph.
    """
    found = 0
    lacking: list[str] = []
    for step in compiled.edge_tpu_steps:
        if step.model.compiler in OWN_COMPILERS:
            if _written_here(step.model, graph) != b"".join(_contents(step.model)):
                return "the weights of the graph"
            continue
        sections = locate_sections(step.model, graph)
        found += len(sections.placed)
        lacking += [each.name for each in sections.missing if each.is_absent]
    if not lacking:
        return ""
    return f"the weights of {len(lacking)} of {found + len(lacking)} layers, the first of them '{lacking[0]}'"


def _contents(model: CompiledModel) -> tuple[bytes, bytes]:
    return bytes(model.parameters.cached), bytes(model.parameters.streamed)


def _written_here(model: CompiledModel, graph: bytes) -> bytes:
    """The parameters that this package writes for a graph as the compiler of a model."""
    if model.compiler == VIRTUAL_COMPILER:
        return parameters_of(model.source_part(graph))
    if not is_dense(graph):
        return b""
    return b"".join(_contents(CompiledModel.parse(compile_dense(graph).file, model.name)))
