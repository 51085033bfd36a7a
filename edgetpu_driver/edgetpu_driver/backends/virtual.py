"""The backend `virtual`: a virtual stick, which also runs plain graphs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgetpu_driver.backends.backend import ParsedModel
from edgetpu_driver.backends.usb import StickBackend, error_text
from edgetpu_driver.compiled_model import DENSE_COMPILER, CompiledModel
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import is_compiled, plain_stem, source_graph, source_graphs
from edgetpu_driver.tflite.checks.source_graph_file import read_source_graph
from edgetpu_driver.tflite.model_reader import each_parsed_once
from edgetpu_driver.weights.sidecar_files import SidecarFiles

if TYPE_CHECKING:
    from edgetpu_driver.stick.edge_tpu import EdgeTpu
    from edgetpu_driver.usb.connector import OnPhase


class VirtualStickBackend(StickBackend):
    """A virtual stick. It computes the results of a model from its graph; plain graphs are packed for it."""

    name = "virtual"
    uncompiled = True
    simulated = True

    def __init__(
        self,
        open_device: Callable[[OnPhase | None], EdgeTpu],
        register: Callable[[CompiledModel, bytes], Callable[[], object]],
        pack: Callable[..., bytes],
        rest: Callable[[CompiledModel], object] = lambda _model: None,
    ) -> None:
        """register, rest: methods of the stick's ProgramLibrary.

        register: registers a model with its graph and returns a function that releases it. rest: ends the
        process that computes a model; called when no engine uses the model any more.
        """
        super().__init__(open_device)
        self._register = register
        self._pack = pack
        self._end_processes = rest

    def open(self, on_phase: OnPhase | None = None) -> None:
        """Open the stick; DependencyMissingError without LiteRT, which computes its results."""
        from edgetpu_driver.engines.litert_interpreter import interpreter_class

        interpreter_class()
        super().open(on_phase)

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a compiled model, whose results come from the graph next to it, or pack a plain graph.

        Programs that this package generates for matrices run from their bytes; they need no graph.
        """
        if not is_compiled(path):
            packed = CompiledModel.parse(self._pack(data, name=plain_stem(path)), plain_stem(path))
            model = replace(packed, path=path)
            self._register_for(model, packed, data)
            return replace(super().parse_part(model), sidecars=SidecarFiles(data))
        return super().parse(path, data)

    def parse_part(self, model: CompiledModel) -> ParsedModel:
        """Take one part for the Edge TPU, whose results come from the graph next to its file."""
        parsed = super().parse_part(model)
        if parsed.unsupported_reason or model.path is None:
            return parsed
        path = model.path
        return replace(parsed, unsupported_reason=error_text(partial(self._register_from, path, model)))

    def adopt(self, model: ParsedModel) -> None:
        """Register a model that the backend of another virtual stick has parsed."""
        if model.sidecars is not None:
            self._register_for(model.source, model.source, model.sidecars.graph)
        elif not model.unsupported_reason:
            self._register_from(model.source.path, model.source)

    def _find_copy(self, model: ParsedModel, number: int) -> CompiledModel | None:
        """The copy of that number; a packed graph has as many copies as fit into the chip's memory."""
        source: CompiledModel = model.source
        if model.sidecars is None:
            copy = super()._find_copy(model, number)
            if copy is not None and copy.path is not None:
                self._register_from(copy.path, copy)
            return copy
        from edgetpu_driver.virtual.graph_packer import MEMORY_ROWS, memory_rows

        token, graph = source.parameter_caching_token, model.sidecars.graph
        rows = memory_rows(graph)
        first_row = number * rows
        if not token or first_row + rows > MEMORY_ROWS:
            return None
        name = f"{source.name}_copy{number + 1}"
        packed = self._pack(graph, name=name, token=token, first_row=first_row)
        packed_copy = CompiledModel.parse(packed, source.name)
        copy = replace(packed_copy, path=source.path)
        self._register_for(copy, packed_copy, graph)
        return copy

    def _rest(self, model: CompiledModel) -> None:
        self._end_processes(model)

    def _register_for(self, user: CompiledModel, model: CompiledModel, graph: bytes) -> None:
        """Register a model and its graph until `user`, from which engines are made, is collected."""
        release = self._register(replace(model), graph)  # a copy, since the library refers to it
        weakref.finalize(user, release).atexit = False

    def _register_from(self, path: Path, model: CompiledModel) -> None:
        from edgetpu_driver.virtual.runnable_programs import runs_from_bytes

        graph = source_graph(path)
        if model.compiler == DENSE_COMPILER or (graph is None and runs_from_bytes(model)):
            return
        if graph is None:
            paths = ", nor ".join(str(each) for each in source_graphs(path))
            raise ModelUnsupportedError(
                f"the virtual stick runs {path.name} only with its graph next to it; there is no {paths}"
            )
        with each_parsed_once():
            self._register_for(model, model, read_source_graph(graph))


def pack_for_virtual_stick(
    graphs: Mapping[str, bytes], *, together: bool, others: Mapping[str, bytes] | None = None
) -> dict[str, bytes]:
    """Pack plain graphs, by name, into compiled models for the virtual stick.

    together: whether the models can be resident together, also with the models of the graphs `others`.
    Raises ModelFormatError and ModelUnsupportedError.
    """
    from edgetpu_driver.virtual.graph_packer import pack, pack_together

    if not together:
        return {name: pack(graph, name=name) for name, graph in graphs.items()}
    return pack_together(graphs, others or {})
