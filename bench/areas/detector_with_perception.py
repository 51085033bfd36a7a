"""A detector and the five perception nodes on one virtual stick, as a running graph with a camera at 30 Hz.

All models are compiled together, so that no upload is needed between two frames. `bench pipelines` measures
the stick's simulated time, also for other ways to compile. Baselines of the times: the same networks in
LiteRT without a driver, and the time between two images.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench import detector_graph
from bench.areas.pipelines import PERCEPTION_MODELS
from bench.compared_nodes import MODELS
from bench.running_graph import Session
from bench.timing import processor_seconds
from demo.processes import find_executable, isolate
from edgetpu_driver import CpuEngine
from edgetpu_driver.backends.virtual import pack_for_virtual_stick
from edgetpu_driver.toolchain.graph_family import joint_name
from edgetpu_perception.graphs.families import build
from measured_figures.row import Row

AREA = "detector_with_perception"
_NAMESPACE = "/perception"
_DETECTOR_NODE = "object_detector"
_RATE = 30.0  # Hz
_SETTLING_SECONDS = 4.0
"""Time in which all models are uploaded and the driver finds out which nodes share an image, s."""
_SECONDS, _QUICK_SECONDS = 20.0, 5.0
_USB_3 = 5000.0  # Mbit/s


def rows(quick: bool = False) -> Iterator[Row]:
    """Measure for a minute, or for half a minute if `quick`."""
    os.environ.update(isolate())
    names = (*MODELS, _DETECTOR_NODE)
    with tempfile.TemporaryDirectory() as folder:
        _compile_together(Path(folder))
        with Session() as session:
            graph = session.start(_NAMESPACE, [_command(folder, names)], names)
            session.set_template(graph)
            session.measure(graph, _RATE, _SETTLING_SECONDS)
            before = session.device_status(graph)
            if before.link_speed != _USB_3:
                raise ValueError(f"expected a stick at {_USB_3:g} Mbit/s; got {before.link_speed:g}")
            turn = session.measure(graph, _RATE, _QUICK_SECONDS if quick else _SECONDS)
            after = session.device_status(graph)
            networks = _networks_seconds(Path(folder))
            lost = {name: turn.published - len(graph.delays[name]) for name in names}
    case = f"detector and five perception nodes on one virtual stick, {_RATE:g} Hz"
    images = turn.published
    of_five = max(lost[name] for name in MODELS)
    for title, count in (("five nodes", of_five), ("detector", lost[_DETECTOR_NODE])):
        yield Row(AREA, case, f"lost images, {title}", count, "", 0, "lower", images, baseline_unit="images")
    yield Row(AREA, case, "uploads", after.uploads - before.uploads, "", 0, "lower")
    yield Row(AREA, case, "requests without a result", after.dropped - before.dropped, "", 0, "lower")
    for metric, ratio, seconds in (
        ("processor time of an image / its networks alone", turn.cpu_seconds / images / networks, networks),
        ("p99 from stamp to result / time between images", turn.p99 * _RATE, 1 / _RATE),
    ):
        yield Row(AREA, case, metric, ratio, "x", None, "lower", 1e3 * seconds, baseline_unit="ms")


def _networks_seconds(folder: Path) -> float:
    """Processor time per image of the networks alone, s: one after the other in LiteRT, without a driver."""
    names = joint_name(sorted(set(PERCEPTION_MODELS))), detector_graph.NAME
    engines = [CpuEngine(folder / f"{name}.tflite") for name in names]
    inputs = [{spec.name: np.zeros(spec.shape, spec.dtype) for spec in engine.inputs} for engine in engines]

    def run() -> None:
        for engine, values in zip(engines, inputs, strict=True):
            engine.run(values)

    return processor_seconds(run)


def _compile_together(folder: Path) -> None:
    """Write the graphs, and the models that result from compiling them together."""
    perception = sorted(set(PERCEPTION_MODELS))
    graphs = {name: build(name) for name in (*perception, joint_name(perception))}
    graphs[detector_graph.NAME] = detector_graph.ssd_graph()
    for name, compiled in pack_for_virtual_stick(graphs, together=True).items():
        (folder / f"{name}.tflite").write_bytes(graphs[name])
        (folder / f"{name}_edgetpu.tflite").write_bytes(compiled)


def _command(folder: str, names: tuple[str, ...]) -> list[str]:
    """Command that runs the driver and the nodes in one process."""
    path = find_executable("edgetpu_perception", "single_process")
    parameters = {
        "backend": "virtual",
        "model_dirs": f"['{folder}']",
        "model_dir": folder,
        "keep_state": "false",
    }
    settings = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    file = Path(folder) / "detector.yaml"  # a file, since `model` is a parameter of the other nodes, too
    file.write_text(f"/**/{_DETECTOR_NODE}: {{ros__parameters: {{model: {detector_graph.NAME}}}}}\n")
    own = ["--params-file", str(file)]
    return [str(path), "--nodes", ",".join(names), "--ros-args", *settings, *own, "--"]
