"""Writes a compiled file with other parameters, programs, names and quantisation; all else is unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgetpu_driver.compiled_model import PACKAGE_KEY, CompiledModel, Parameters, caching_token
from edgetpu_driver.darwinn.executable import DmaHint, Executable, Hint, InstructionBitstream, Layer
from edgetpu_driver.darwinn.package_edit import edit_package
from edgetpu_driver.darwinn.package_reader import parse_package
from edgetpu_driver.darwinn.package_writer import write_package
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.graph_edit import GraphEdit, TensorChange
from edgetpu_driver.tflite.model_reader import Tensor, parse_model
from edgetpu_driver.tflite.shared_quantisation import chip_quantisation


@dataclass(frozen=True, eq=False)
class PartChange:
    """The changes to one part for the Edge TPU."""

    compiled: CompiledModel
    parameters: Parameters
    bitstreams: tuple[bytes, ...]
    """The bitstreams of the program that runs the part."""
    tensors: Mapping[str, Tensor]
    """The new tensor for each changed input and output of the part, by its previous name."""


def rewrite_file(
    data: bytes,
    parts: Sequence[PartChange],
    changes: Mapping[int, TensorChange],
    options: Mapping[int, bytes],
) -> bytes:
    """The file of `parts`; it gets a new caching token if anything differs.

    changes: to tensors of the container, by index. options: new custom options of other operators.
    """
    tokens = {part.compiled.parameter_caching_token for part in parts}
    unchanged = {token: token for token in tokens}
    same = _rewritten(data, parts, changes, options, unchanged)
    if same == data:
        return data
    return _rewritten(
        data,
        parts,
        changes,
        options,
        {token: token and caching_token(same + _bytes(token)) for token in tokens},
    )


def _bytes(token: int) -> bytes:
    return token.to_bytes(8, "little")


def _rewritten(
    data: bytes,
    parts: Sequence[PartChange],
    changes: Mapping[int, TensorChange],
    options: Mapping[int, bytes],
    tokens: Mapping[int, int],
) -> bytes:
    edit = GraphEdit(data)
    edit.change(changes)
    for operator, custom in options.items():
        edit.replace_options(operator, custom)
    operators = parse_model(data).subgraphs[0].operators
    for part in parts:
        index = part.compiled.operator
        edit.replace_options(index, _options(operators[index].custom_options, part, tokens))
    return edit.file()


def _options(options: memoryview, part: PartChange, tokens: Mapping[int, int]) -> bytes:
    """The custom options with another package."""
    decoded = flexbuffer.decode(options)
    before = bytes(decoded[PACKAGE_KEY])
    package = parse_package(before)
    executables = tuple(_executable(each, part, tokens) for each in package.executables)
    package = replace(package, executables=executables)
    edited = edit_package(before, package)
    if edited is None:
        return flexbuffer.encode({**decoded, PACKAGE_KEY: write_package(package)})
    data = bytes(options)
    start = data.index(before)
    return data[:start] + edited + data[start + len(before) :]


def _executable(old: Executable, part: PartChange, tokens: Mapping[int, int]) -> Executable:
    """An executable of the package: the one that runs, the one that uploads parameters, or another one."""
    execution, caching = part.compiled.execution, part.compiled.caching
    token = tokens.get(old.parameter_caching_token, old.parameter_caching_token)
    new = replace(old, parameter_caching_token=token)
    if old.type is execution.type:
        bitstreams = tuple(
            InstructionBitstream(
                data,
                tuple(replace(field, name=_name(part, field.name)) for field in bitstream.field_offsets),
            )
            for bitstream, data in zip(old.bitstreams, part.bitstreams, strict=True)
        )
        return replace(
            new,
            bitstreams=bitstreams,
            parameters=part.parameters.streamed,
            hints=tuple(_hint(part, hint) for hint in old.hints),
            inputs=tuple(_layer(part, layer) for layer in old.inputs),
            outputs=tuple(_layer(part, layer) for layer in old.outputs),
        )
    if caching is not None and old.type is caching.type:
        return replace(new, parameters=part.parameters.cached)
    return new


def _name(part: PartChange, name: str) -> str:
    tensor = part.tensors.get(name)
    return name if tensor is None else tensor.name


def _hint(part: PartChange, hint: Hint) -> Hint:
    return replace(hint, name=_name(part, hint.name)) if isinstance(hint, DmaHint) else hint


def _layer(part: PartChange, layer: Layer) -> Layer:
    tensor = part.tensors.get(layer.name)
    quantisation = chip_quantisation(tensor) if tensor is not None else None
    if tensor is None or quantisation is None:
        return layer
    return replace(
        layer,
        name=tensor.name,
        zero_point=quantisation.zero_point,
        dequantization_factor=quantisation.scale,
    )
