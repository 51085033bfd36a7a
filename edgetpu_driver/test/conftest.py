"""Shared fixtures of this package's tests."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.backends.cpu_parts import CpuStepEngine
from edgetpu_driver.backends.virtual import pack_for_virtual_stick
from edgetpu_driver.compiled_model import VIRTUAL_COMPILER
from edgetpu_driver.engines import cpu_engine
from edgetpu_driver.engines.graph_runner import GraphInThisProcess, GraphOperands
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph
from edgetpu_driver.virtual import VirtualEdgeTpu
from testdata.devices.fake_compiler import FAKE, MAPPED, MakeCompiler
from testdata.devices.fake_device import FakeBackend
from testdata.devices.hosted_matrix import SIZE, make_host
from testdata.devices.hosted_whole_models import SEGMENTS
from testdata.devices.virtual_backend import backend_of
from testdata.graphs.color_embedding_graph import color_embedding_graph
from testdata.graphs.compiled_graphs import compiled_graph, segments, source_graph
from testdata.timeouts import PATIENCE


@pytest.fixture(scope="session")
def make_dense() -> Callable[[int], bytes]:
    """A function from a seed to a graph: 16 uint8 "x" to 8 uint8 "y" with weights drawn from the seed."""

    @cache
    def make(seed: int) -> bytes:
        weights = np.random.default_rng(seed).integers(-127, 128, (8, 16))
        graph = GraphBuilder("dense")
        x = graph.input("x", (1, 16), np.uint8, scale=0.1, zero_point=128)
        inner = graph.quantize(x, np.int8, scale=0.1, zero_point=0)
        result = graph.fully_connected(inner, weights, weight_scale=0.01, scale=0.5, zero_point=0)
        graph.output(graph.quantize(result, np.uint8, scale=0.5, zero_point=128, name="y"))
        return graph.build()

    return make


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A plain graph: y = x[0] + x[1] for two elements, through int8."""
    builder = GraphBuilder("sum")
    x = builder.input("x", (1, 2), np.uint8, scale=0.5, zero_point=128)
    inner = builder.quantize(x, np.int8, scale=0.5, zero_point=0)
    result = builder.fully_connected(inner, [[64, 64]], weight_scale=1 / 64, scale=0.5, zero_point=0)
    builder.output(builder.quantize(result, np.uint8, scale=0.5, zero_point=128, name="y"))
    path = tmp_path / "sum.tflite"
    path.write_bytes(builder.build())
    return path


@pytest.fixture
def graphs_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteRT runs here where it would run in a process of its own, which is slow to start."""

    def runner(name: str, operands: GraphOperands, _limits: object) -> GraphInThisProcess:
        return GraphInThisProcess(name, operands)

    monkeypatch.setattr(cpu_engine, "IsolatedGraph", runner)


@pytest.fixture
def backend() -> FakeBackend:
    """A device that a test sets up."""
    return FakeBackend()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A directory of models for it: plus, other, one not compiled, and one that is broken."""
    directory = tmp_path / "models"
    directory.mkdir()
    for stem in ("plus_edgetpu", "other_edgetpu", "uncompiled"):
        (directory / f"{stem}.tflite").write_bytes(stem.encode())
    (directory / "broken_edgetpu.tflite").write_bytes(b"broken")
    return directory


@pytest.fixture
def host(backend: FakeBackend, models: Path) -> ModelHost:
    """A host of these models, connected to the device."""
    host = ModelHost(backend, [models])
    host.connect()
    return host


@pytest.fixture(scope="module")
def compiled_together(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Models that are resident together: two matrices, a copy of one, and a network."""
    directory = tmp_path_factory.mktemp("models")
    graph = dense_graph.build(64)
    graphs = {"one": graph, "one_copy2": graph, "other": dense_graph.build(128)}
    graphs["with_a_layer"] = color_embedding_graph()
    for name, file in pack_for_virtual_stick(graphs, together=True).items():
        (directory / f"{name}.tflite").write_bytes(graphs[name])
        (directory / f"{name}_edgetpu.tflite").write_bytes(file)
    return sorted(directory.glob("*_edgetpu.tflite"))


@pytest.fixture
def matrix_models(tmp_path: Path) -> Path:
    """A directory with two matrices, and a graph that is none."""
    (tmp_path / "dense.tflite").write_bytes(dense_graph.build(SIZE))
    (tmp_path / "other.tflite").write_bytes(dense_graph.build(2 * SIZE))
    graph = GraphBuilder()
    x = graph.input("x", (1, 4), np.int8, scale=1, zero_point=0)
    graph.output(graph.add(x, x, scale=1, zero_point=0, name="y"))
    (tmp_path / "sum.tflite").write_bytes(graph.build())
    return tmp_path


@pytest.fixture
def stick() -> VirtualEdgeTpu:
    return VirtualEdgeTpu()


@pytest.fixture(params=["cpu", "virtual"])
def matrix_host(request: pytest.FixtureRequest, stick: VirtualEdgeTpu, matrix_models: Path) -> ModelHost:
    """A host on either backend that has loaded a matrix."""
    return make_host(request.param, stick, matrix_models)


@pytest.fixture
def stick_matrix_host(stick: VirtualEdgeTpu, matrix_models: Path) -> ModelHost:
    """The same on a virtual stick only."""
    return make_host("virtual", stick, matrix_models)


@pytest.fixture
def whole_models(tmp_path: Path) -> Path:
    """parts: a compiled graph with two parts for the Edge TPU; one: with one; chain: of three segments."""
    for name, parts in (("parts", 2), ("one", 1)):
        (tmp_path / f"{name}.tflite").write_bytes(source_graph(parts))
        (tmp_path / f"{name}_edgetpu.tflite").write_bytes(compiled_graph(parts, name))
    whole, compiled = segments(3)
    (tmp_path / "chain.tflite").write_bytes(whole)
    for name, data in zip(SEGMENTS, compiled, strict=True):
        (tmp_path / f"{name}_edgetpu.tflite").write_bytes(data)
    return tmp_path


@pytest.fixture
def sticks() -> list[VirtualEdgeTpu]:
    """Two virtual sticks at ports of their own."""
    return [VirtualEdgeTpu(ports=(number + 1,)) for number in range(2)]


@pytest.fixture
def whole_model_host(sticks: list[VirtualEdgeTpu], whole_models: Path) -> Iterator[ModelHost]:
    """A host of whole models, connected to the first stick."""
    whole_model_host = ModelHost(backend_of(sticks[0]), [whole_models])
    whole_model_host.connect()
    yield whole_model_host
    whole_model_host.close()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Parts on the CPU wait until this is set."""
    gate = threading.Event()
    run = CpuStepEngine.run

    def held_run(engine: CpuStepEngine, inputs: Any) -> Any:
        assert gate.wait(PATIENCE)
        return run(engine, inputs)

    monkeypatch.setattr(CpuStepEngine, "run", held_run)
    yield gate
    gate.set()


@pytest.fixture
def dense_graphs(tmp_path: Path) -> Path:
    """A directory with dense_64.tflite and dense_128.tflite."""
    directory = tmp_path / "models"
    directory.mkdir()
    for size in (64, 128):
        (directory / f"dense_{size}.tflite").write_bytes(dense_graph.build(size))
    return directory


@pytest.fixture
def make_compiler(tmp_path: Path) -> MakeCompiler:
    """A function that writes the program; its models share a caching token and name Google's compiler."""

    def make(rows: str = MAPPED, mishap: str = "", *, together: bool = True) -> Path:
        program = tmp_path / "bin" / "edgetpu_compiler"
        (program.parent / "compiled").mkdir(parents=True, exist_ok=True)
        graphs = {f"dense_{size}": dense_graph.build(size) for size in (64, 128)}
        for name, packed in pack_for_virtual_stick(graphs, together=together).items():
            real = packed.replace(VIRTUAL_COMPILER.encode(), b"google".ljust(len(VIRTUAL_COMPILER)))
            (program.parent / "compiled" / f"{name}_edgetpu.tflite").write_bytes(real)
        program.write_text(FAKE.format(python=sys.executable, rows=rows, mishap=mishap))
        program.chmod(0o755)
        return program

    return make


@pytest.fixture
def no_other_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only `make_compiler`'s program can be found."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
