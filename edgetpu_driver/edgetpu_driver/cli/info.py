"""`edgetpu info`: describes model files, compiled or not, and pipelines of several files."""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetpu_driver.backends.usable_backends import usable_backends
from edgetpu_driver.cli.settable_weights import weights_of_graph, weights_of_parts, weights_text
from edgetpu_driver.cli.terminal import Answer, Progress, pairs, table
from edgetpu_driver.compiled_model import DENSE_COMPILER, CompiledModel
from edgetpu_driver.darwinn.executable import (
    Executable,
    FenceHint,
    Hint,
    InstructionHint,
    InterruptHint,
    Layer,
)
from edgetpu_driver.darwinn.instructions.instruction_word_fields import WORD_BYTES
from edgetpu_driver.engines.whole_model.model_plan import ModelPlan, engine_name, step_operators
from edgetpu_driver.engines.whole_model.pipeline_segments import plan_model, plan_segments
from edgetpu_driver.engines.whole_model.recurrence import likely_feedback
from edgetpu_driver.engines.whole_model.work_shares import work_of
from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.files.compiled_file_names import plain_stem, source_graph
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.checks.source_graph_file import read_source_graph
from edgetpu_driver.tflite.model_reader import Model, Subgraph, each_parsed_once, parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.toolchain.retargeting.compiled_sources import retargeting_remark


@each_parsed_once()
def info(options: argparse.Namespace, progress: Progress) -> Answer:  # noqa: ARG001
    """Describe model files one by one, after the pipeline if they are its segments."""
    files = [(path, read_model_file(path)) for path in options.models]
    described = [_file(path, data) for path, data in files]
    if len(files) == 1:
        return Answer(described[0], _text(described[0]))
    value: dict[str, Any] = {"pipeline": None, "no_pipeline_reason": None, "files": described}
    try:
        plan = plan_segments([(plain_stem(path), data, path) for path, data in files])
    except EdgeTpuError as error:
        value["no_pipeline_reason"] = str(error)
    else:
        value["pipeline"] = {"name": plan.name, **_whole(plan, files)}
    return Answer(value, _text_of_several(value))


def _file(path: Path, data: bytes) -> dict[str, Any]:
    plan = plan_model(data, plain_stem(path), path)
    model = parse_model(data)
    value: dict[str, Any] = {
        "name": plain_stem(path),
        "path": str(path),
        "file_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        **_whole(plan, [(path, data)]),
    }
    value |= _compiled(plan) if plan.edge_tpu_steps else _graph(model)
    if plan.edge_tpu_steps:
        value["remark"] = value["remark"] or retargeting_remark(path, data) or None
    models = [step.model for step in plan.edge_tpu_steps]
    return value | (weights_of_parts(models) if models else weights_of_graph(model))


def _whole(plan: ModelPlan, files: Sequence[tuple[Path, bytes]]) -> dict[str, Any]:
    """The properties common to one file and a pipeline."""
    usable = usable_backends(files)
    return {
        "inputs": [_tensor(spec) for spec in plan.inputs],
        "outputs": [_tensor(spec) for spec in plan.outputs],
        "feedback": likely_feedback(plan.inputs, plan.outputs),
        "obstacles": {name: each.obstacle for name, each in usable.items()},
        "remarks": {name: each.remark for name, each in usable.items()},
        "steps": _steps(plan, [path for path, _ in files]),
    }


def _steps(plan: ModelPlan, paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The engine and the multiplications of each step."""
    compiled = {step.segment for step in plan.edge_tpu_steps}
    graphs = [source_graph(path) if index in compiled else None for index, path in enumerate(paths)]
    sources = [None if graph is None else read_source_graph(graph) for graph in graphs]
    return [
        {
            "file": paths[step.segment].name,
            "runs_on": engine_name(step),
            "operators": step.operators,
            "multiplications": work.multiplications,
            "share": work.share,
        }
        for step, work in zip(plan.steps, work_of(plan, sources), strict=True)
    ]


def _compiled(plan: ModelPlan) -> dict[str, Any]:
    models = [step.model for step in plan.edge_tpu_steps]
    first = models[0]
    return {
        "compiled": True,
        "compiler": first.compiler,
        "remark": first.remark or None,
        "cpu_operators": list(first.cpu_operators),
        "parameters": "cached" if first.is_cached else "streamed",
        "parameter_bytes": sum(model.parameter_bytes for model in models),
        "caching_token": f"{first.parameter_caching_token:#018x}",
        "parts": [_part(model) for model in models],
        "executables": [
            _executable(executable)
            for model in models
            for executable in (model.caching, model.execution)
            if executable is not None
        ],
    }


def _part(model: CompiledModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "inputs": [_tensor(spec) for spec in model.inputs],
        "outputs": [_tensor(spec) for spec in model.outputs],
        "parameter_bytes": model.parameter_bytes,
    }


def _graph(model: Model) -> dict[str, Any]:
    graph = model.subgraphs[0]
    return {
        "compiled": False,
        "description": model.description,
        "subgraphs": len(model.subgraphs),
        "parameter_bytes": sum({tensor.buffer: len(tensor.data) for tensor in graph.tensors}.values()),
        "operators": [_operator(graph, index) for index in range(len(graph.operators))],
    }


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "dtype": spec.dtype.name,
        "shape": spec.shape,
        "scale": spec.scale,
        "zero_point": spec.zero_point,
    }


def _operator(graph: Subgraph, index: int) -> dict[str, Any]:
    operator = graph.operators[index]
    return {
        "name": operator.custom_code or operator.name,
        "inputs": [graph.tensors[each].name if each >= 0 else None for each in operator.inputs],
        "outputs": [graph.tensors[each].name for each in operator.outputs],
    }


def _executable(executable: Executable) -> dict[str, Any]:
    return {
        "type": executable.type,
        "name": executable.name,
        "chip": executable.chip,
        "batch_size": executable.batch_size,
        "bitstreams": [
            {"instructions": len(each.data) // WORD_BYTES, "address_fields": len(each.field_offsets)}
            for each in executable.bitstreams
        ],
        "parameter_bytes": len(executable.parameters),
        "scratch_bytes": executable.scratch_size_bytes,
        "narrow_memory_bytes_per_tile": executable.narrow_memory_bytes_per_tile,
        "estimated_cycles": executable.estimated_cycles,
        "fully_deterministic": executable.fully_deterministic,
        "inputs": [_layer(layer) for layer in executable.inputs],
        "outputs": [_layer(layer) for layer in executable.outputs],
        "hints": [_hint(hint) for hint in executable.hints],
    }


def _layer(layer: Layer) -> dict[str, Any]:
    described = {
        "name": layer.name,
        "data_type": layer.data_type,
        "shape": layer.shape,
        "wire_bytes": layer.size_bytes,
        "zero_point": layer.zero_point,
        "scale": layer.dequantization_factor,
        "execution_count": layer.execution_count,
    }
    if layer.layout is not None:
        # Rows and columns of pixels sent by each row and column of tiles.
        described["tile_rows"] = tuple(Counter(layer.layout.y_to_tile).values())
        described["tile_columns"] = tuple(Counter(layer.layout.x_to_tile).values())
    return described


def _hint(hint: Hint) -> dict[str, Any]:
    if isinstance(hint, InstructionHint):
        return {"kind": "instructions", "bitstream": hint.chunk}
    if isinstance(hint, InterruptHint):
        return {"kind": "interrupt", "number": hint.number}
    if isinstance(hint, FenceHint):
        return {"kind": "fence"}
    return {
        "kind": hint.description.name.lower(),
        "direction": hint.direction,
        "name": hint.name,
        "offset": hint.offset,
        "size": hint.size,
    }


def _text(value: dict[str, Any]) -> str:
    head = {key: value[key] for key in ("name", "path", "file_bytes", "sha256")}
    if value["compiled"]:
        head["parameters"] = f"{value['parameter_bytes']} bytes, {value['parameters']}"
        head["caching_token"] = value["caching_token"]
        if value["compiler"] == DENSE_COMPILER:
            head["program"] = f"generated without edgetpu_compiler: {value['remark']}"
        elif value["remark"]:
            head["program"] = value["remark"]
    else:
        head["parameters"] = f"{value['parameter_bytes']} bytes"
    parts = _whole_text(head, value)
    weights = weights_text(value)
    parts += [weights] if weights else []
    if value["compiled"]:
        inner = [each for each in value["parts"] if len(value["steps"]) > 1]
        for each in inner:
            parts += [
                _tensor_table(f"{kind} of {each['name']}", each[kind]) for kind in ("inputs", "outputs")
            ]
        parts += [_executable_text(each) for each in value["executables"]]
    else:
        rows = [
            (each["name"], ", ".join(map(str, each["inputs"])), ", ".join(each["outputs"]))
            for each in value["operators"]
        ]
        parts.append(table(rows, ("operator", "inputs", "outputs")))
    return "\n\n".join(parts)


def _text_of_several(value: dict[str, Any]) -> str:
    """A pipeline as a whole, then each file under a line with its number."""
    files = value["files"]
    if value["pipeline"] is None:
        texts = [f"{len(files)} files, not the segments of one pipeline: {value['no_pipeline_reason']}"]
    else:
        name = f"{value['pipeline']['name']}, a pipeline of {len(files)} files"
        texts = _whole_text({"name": name}, value["pipeline"])
    for number, each in enumerate(files, 1):
        texts += [f"--- file {number} of {len(files)} ---", _text(each)]
    return "\n\n".join(texts)


def _whole_text(head: dict[str, Any], value: dict[str, Any]) -> list[str]:
    """The paragraphs about a file or a pipeline as a whole; `head` begins the first."""
    for backend, obstacle in value["obstacles"].items():
        remark = value["remarks"][backend]
        head[f"on {backend}"] = f"no: {obstacle}" if obstacle else f"yes: {remark}" if remark else "yes"
    for output, fed in value["feedback"].items():
        head["state"] = ", ".join(filter(None, (head.get("state"), f"{output} may be the next {fed}")))
    return [
        pairs(head),
        _tensor_table("inputs", value["inputs"]),
        _tensor_table("outputs", value["outputs"]),
        _step_table(value["steps"]),
    ]


def _step_table(steps: list[dict[str, Any]]) -> str:
    """The steps in order; multiplications of a compiled part are unknown without the graph."""
    several = len({step["file"] for step in steps}) > 1
    rows = [
        (
            number,
            *([step["file"]] if several else []),
            step["runs_on"],
            "?" if step["multiplications"] is None else step["multiplications"],
            "?" if step["share"] is None else f"{100 * step['share']:.1f} %",
            step_operators(step["operators"]),
        )
        for number, step in enumerate(steps, 1)
    ]
    file = ["file"] if several else []
    return table(rows, ("step", *file, "runs on", "multiplications", "share", "operators"))


def _tensor_table(title: str, tensors: list[dict[str, Any]]) -> str:
    rows = [(t["name"], t["dtype"], _shape(t["shape"]), f"{t['scale']:g}", t["zero_point"]) for t in tensors]
    return table(rows, (title, "dtype", "shape", "scale", "zero point"))


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _executable_text(executable: dict[str, Any]) -> str:
    keys = (
        "chip", "batch_size", "parameter_bytes", "scratch_bytes", "narrow_memory_bytes_per_tile",
        "estimated_cycles", "fully_deterministic",
    )  # fmt: skip
    head: dict[str, object] = {
        "instructions": " + ".join(str(each["instructions"]) for each in executable["bitstreams"])
    }
    head |= {key: executable[key] for key in keys}
    lines = [f"executable {executable['type'].name} '{executable['name']}'", pairs(head, indent=2)]
    for kind in ("inputs", "outputs"):
        lines += [f"  {kind[:-1]} layer {_layer_text(layer)}" for layer in executable[kind]]
    lines += [f"  hint {index}: {_hint_text(hint)}" for index, hint in enumerate(executable["hints"])]
    return "\n".join(lines)


def _layer_text(layer: dict[str, Any]) -> str:
    text = (
        f"'{layer['name']}' {layer['data_type'].name} {_shape(layer['shape'])}, "
        f"{layer['wire_bytes']} bytes on the wire"
    )
    if "tile_rows" in layer:
        text += f", tiles of rows {_runs(layer['tile_rows'])} and columns {_runs(layer['tile_columns'])}"
    return text


def _runs(sizes: tuple[int, ...]) -> str:
    """Sizes in order, e.g. "9+3*8"."""
    runs: list[list[int]] = []
    for size in sizes:
        if runs and runs[-1][1] == size:
            runs[-1][0] += 1
        else:
            runs.append([1, size])
    return "+".join(str(size) if count == 1 else f"{count}*{size}" for count, size in runs)


def _hint_text(hint: dict[str, Any]) -> str:
    if hint["kind"] == "instructions":
        return f"send bitstream {hint['bitstream']}"
    if hint["kind"] == "interrupt":
        return f"wait for interrupt {hint['number']}"
    if hint["kind"] == "fence":
        return "fence"
    verb = "send" if hint["direction"].name == "INFEED" else "read"
    name = f" '{hint['name']}'" if hint["name"] else ""
    return f"{verb} {hint['kind']}{name} bytes {hint['offset']} to {hint['offset'] + hint['size']}"
