"""The backend `cpu`: LiteRT on the host's processor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgetpu_driver.backends.backend import ParsedModel, Placement
from edgetpu_driver.backends.host_processor import HostProcessor
from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import is_compiled, source_graphs

if TYPE_CHECKING:
    from edgetpu_driver.compiled_model import CompiledModel
    from edgetpu_driver.engines.cpu_engine import CpuEngine


@dataclass
class _Graph:
    """A graph with the engine that was made to check whether it runs."""

    data: bytes
    unused: CpuEngine | None
    """The engine, for the first caller that attaches the model."""


class CpuBackend(HostProcessor):
    """LiteRT on the host's processor, which is always available."""

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a plain graph."""
        from edgetpu_driver.tflite.model_reader import parse_model

        if is_compiled(path):
            raise ModelUnsupportedError(_compiled_reason(path))
        constants = {t.buffer: len(t.data) for graph in parse_model(data).subgraphs for t in graph.tensors}
        engine = self._engine(data)  # raises if the graph cannot run
        return ParsedModel(
            inputs=engine.inputs,
            outputs=engine.outputs,
            placement=Placement.HOST,
            parameter_bytes=sum(constants.values()),
            caching_token=0,
            source=_Graph(data, engine),
        )

    def parse_part(self, model: CompiledModel) -> ParsedModel:
        """Raise ModelUnsupportedError: there is no Edge TPU."""
        path = model.path or Path(f"{model.name}_edgetpu.tflite")
        raise ModelUnsupportedError(_compiled_reason(path))

    def attach(self, model: ParsedModel) -> AttachedEngine:
        """Make an engine for the graph."""
        graph: _Graph = model.source
        engine, graph.unused = graph.unused, None
        return engine or self._engine(graph.data)

    def _engine(self, data: bytes) -> CpuEngine:
        from edgetpu_driver.engines.cpu_engine import CpuEngine

        return CpuEngine(data, isolated=None, limits=self._limits)


def _compiled_reason(path: Path) -> str:
    graphs = " or ".join(each.name for each in source_graphs(path))
    return f"{path.name} is compiled for the Edge TPU; expected the graph it was compiled from, {graphs}"
