"""The backends behind the driver: the CPU and a stick, here a virtual one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.backends import SRAM_BYTES, CpuBackend, Placement, VirtualStickBackend, make_backend
from edgetpu_driver.device import EdgeTpu
from edgetpu_driver.errors import DeviceLostError, ModelUnsupportedError, UnavailableError
from edgetpu_driver.model_host import ModelHost, State
from edgetpu_driver.tflite.builder import GraphBuilder
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.packer import pack

NUMBERS = {"numbers": np.array([[5, 6, -7, 8]], np.int8)}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A directory with sums.tflite: int8[1, 4] in, its first element and its sum out."""
    builder = GraphBuilder()
    numbers = builder.input("numbers", (1, 4), np.int8, scale=1.0, zero_point=0)
    weights = np.array([[1, 0, 0, 0], [1, 1, 1, 1]], np.int8)
    builder.output(
        builder.fully_connected(numbers, weights, weight_scale=1.0, scale=1.0, zero_point=0, name="sums")
    )
    (tmp_path / "sums.tflite").write_bytes(builder.build())
    return tmp_path


@pytest.fixture
def stick() -> VirtualEdgeTpu:
    return VirtualEdgeTpu()


@pytest.fixture
def stick_host(stick: VirtualEdgeTpu, models: Path) -> ModelHost:
    backend = VirtualStickBackend(lambda: EdgeTpu.open(stick), stick.teach, pack)
    host = ModelHost(backend, [models])
    host.connect()
    host.load("sums")
    return host


@pytest.mark.parametrize("name", ["cpu", "virtual"])
def test_a_plain_graph_runs(name: str, models: Path) -> None:
    host = ModelHost(make_backend(name), [models])
    host.connect()
    host.load("sums")
    assert host.invoke("sums", NUMBERS).outputs["sums"].tolist() == [[5, 12]]
    host.close()


def test_the_cpu_keeps_parameters_in_the_host(models: Path) -> None:
    data = (models / "sums.tflite").read_bytes()
    parsed = CpuBackend().parse(models / "sums.tflite", data)
    eight_weights = 8
    assert (parsed.placement, parsed.parameter_bytes) == (Placement.HOST, eight_weights)


def test_the_cpu_refuses_a_compiled_model_and_names_its_graph(models: Path) -> None:
    with pytest.raises(ModelUnsupportedError, match=r"expected the graph it was compiled from, sums\.tflite"):
        CpuBackend().parse(models / "sums_edgetpu.tflite", b"")


def test_the_virtual_stick_takes_a_compiled_model_with_its_graph_beside_it(models: Path) -> None:
    compiled = pack((models / "sums.tflite").read_bytes(), name="sums")
    (models / "sums_edgetpu.tflite").write_bytes(compiled)
    host = ModelHost(make_backend("virtual"), [models])
    host.connect()
    assert host.load("sums").path == models / "sums_edgetpu.tflite"
    assert host.invoke("sums", NUMBERS).outputs["sums"].tolist() == [[5, 12]]
    (models / "sums.tflite").unlink()
    with pytest.raises(ModelUnsupportedError, match="only with its graph beside it"):
        host.load("sums", "again")
    host.close()


def test_a_stick_tells_what_is_resident_and_how_much_it_takes(stick_host: ModelHost) -> None:
    sums = stick_host.model("sums")
    assert not stick_host.is_resident(sums)
    stick_host.invoke("sums", NUMBERS)
    stick_host.refresh()
    readings = stick_host.status().readings
    assert stick_host.is_resident(sums)
    assert (readings.sram_used, readings.sram_total) == (sums.parsed.parameter_bytes, SRAM_BYTES)
    assert (readings.uploads, readings.bus_path, readings.clock_preset) == (1, "2-1", "high")


def test_a_stick_that_is_pulled_out_and_put_back_runs_the_same_models(
    stick: VirtualEdgeTpu, stick_host: ModelHost
) -> None:
    stick_host.invoke("sums", NUMBERS)
    stick_host.refresh()
    stick.unplug()
    with pytest.raises(DeviceLostError):
        stick_host.invoke("sums", NUMBERS)
    stick_host.connect()
    assert stick_host.state is State.ABSENT
    with pytest.raises(UnavailableError, match="no device: "):
        stick_host.invoke("sums", NUMBERS)
    stick.plug()
    stick_host.connect()
    assert stick_host.invoke("sums", NUMBERS).outputs["sums"].tolist() == [[5, 12]]
    stick_host.refresh()
    assert stick_host.status().readings.uploads == 2
    assert stick_host.status().recoveries == 1
