"""The backend `cpu`: LiteRT on the host's processor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgetpu_driver.backends.backend import ParsedModel, Placement, Readings, RegisterValue
from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.toolchain.model_files import is_compiled, plain_stem

if TYPE_CHECKING:
    from edgetpu_driver.usb.connector import OnPhase


class CpuBackend:
    """LiteRT on the host's processor, which is always available."""

    name = "cpu"
    compiled = False
    uncompiled = True

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a plain graph."""
        from edgetpu_driver.engines.cpu_engine import CpuEngine
        from edgetpu_driver.tflite.model_reader import parse_model

        if is_compiled(path):
            raise ModelUnsupportedError(
                f"{path.name} is compiled for the Edge TPU; expected the graph it was compiled from, "
                f"{plain_stem(path)}.tflite"
            )
        constants = {t.buffer: len(t.data) for graph in parse_model(data).subgraphs for t in graph.tensors}
        engine = CpuEngine(data)  # raises if the graph cannot run
        return ParsedModel(
            inputs=engine.inputs,
            outputs=engine.outputs,
            placement=Placement.HOST,
            parameter_bytes=sum(constants.values()),
            caching_token=0,
            source=data,
        )

    def open(self, on_phase: OnPhase | None = None) -> None:  # noqa: ARG002
        """Load LiteRT now, not with the first model; DependencyMissingError without it."""
        from edgetpu_driver.engines.litert_interpreter import interpreter_class

        interpreter_class()

    def close(self) -> None:
        """Nothing to release."""

    def attach(self, model: ParsedModel) -> AttachedEngine:
        """Make an engine for the graph."""
        from edgetpu_driver.engines.cpu_engine import CpuEngine

        return CpuEngine(model.source)

    def read(self) -> Readings:
        """Nothing to read."""
        return Readings()

    def registers(self) -> tuple[RegisterValue, ...]:
        """None."""
        return ()
