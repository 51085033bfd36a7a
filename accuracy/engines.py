"""Engines to measure on: LiteRT, or the same graph on a virtual stick through the whole driver."""

from __future__ import annotations

from edgetpu_driver.engines.protocol import Engine


def open_engine(engine: str, name: str, graph: bytes) -> Engine:
    """Open the engine "cpu" or "virtual" for a .tflite graph that is not compiled."""
    if engine == "cpu":
        from edgetpu_driver.engines.cpu_engine import CpuEngine

        return CpuEngine(graph)
    if engine != "virtual":
        raise ValueError(f"expected the engine cpu or virtual; got {engine}")
    from edgetpu_driver.compiled_model import CompiledModel
    from edgetpu_driver.engines.stick_engine import StickEngine
    from edgetpu_driver.stick.edge_tpu import EdgeTpu
    from edgetpu_driver.virtual import VirtualEdgeTpu
    from edgetpu_driver.virtual.graph_packer import pack
    from edgetpu_driver.weights.sidecar_files import SidecarFiles

    model = CompiledModel.parse(pack(graph, name=name))
    stick = VirtualEdgeTpu()
    stick.register_model(model, graph)
    return StickEngine(EdgeTpu.open(stick), model, SidecarFiles(graph))
