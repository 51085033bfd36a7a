"""The backends behind the driver: the CPU and a stick, here a virtual one."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.backends import factory
from edgetpu_driver.backends.backend import SRAM_BYTES, Placement
from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.backends.factory import MoreSticks, make_backend, make_backends
from edgetpu_driver.engines import litert_process_pool
from edgetpu_driver.engines.whole_model.pipeline_segments import load_plan
from edgetpu_driver.errors import DeviceLostError, InputError, ModelUnsupportedError, UnavailableError
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from edgetpu_driver.virtual.graph_packer import pack
from testdata import ModelFolder
from testdata.devices.virtual_backend import backend_of
from testdata.timeouts import PATIENCE

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
    backend = backend_of(stick)
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


def test_a_stick_keeps_nothing_of_a_model_without_engines(stick: VirtualEdgeTpu, models: Path) -> None:
    backend = backend_of(stick)
    backend.open()
    path = models / "sums.tflite"
    model = backend.parse(path, path.read_bytes())
    engines = [backend.attach(model) for _ in range(2)]
    kept = weakref.ref(model)
    for engine in engines:
        assert kept() is model
        engine.close()
    del model, engine, engines
    gc.collect()
    assert kept() is None
    backend.close()


class TestTheLibraryOfAVirtualStick:
    """Its programs: one for each model, and one for parameters, which some models have in common."""

    @pytest.fixture
    def many(self, tmp_path: Path) -> Path:
        """A directory with 0.tflite to 9.tflite: int8[1, 4] in, its sum out, as often as the name and one."""
        for number in range(10):
            builder = GraphBuilder()
            numbers = builder.input("numbers", (1, 4), np.int8, scale=1.0, zero_point=0)
            weights = np.ones((number + 1, 4), np.int8)
            builder.output(
                builder.fully_connected(
                    numbers, weights, weight_scale=1.0, scale=1.0, zero_point=0, name="sums"
                )
            )
            (tmp_path / f"{number}.tflite").write_bytes(builder.build())
        return tmp_path

    def test_keeps_the_last_of_the_models_that_were_unloaded(self, stick: VirtualEdgeTpu, many: Path) -> None:
        host = ModelHost(backend_of(stick), [many])
        host.connect()
        for number in range(10):
            host.load(str(number), "model")
            host.invoke("model", NUMBERS)
            host.unload("model")
            host.refresh()
            gc.collect()
        assert stick.library.size == 2
        host.close()

    def test_keeps_none_of_models_that_were_never_on_the_stick(
        self, stick: VirtualEdgeTpu, many: Path
    ) -> None:
        host = ModelHost(backend_of(stick), [many])
        for number in range(10):
            host.load(str(number), "model")
            host.unload("model")
            gc.collect()
        assert stick.library.size == 2

    def test_keeps_a_model_that_is_loaded_twice_until_both_are_unloaded(
        self, stick: VirtualEdgeTpu, many: Path
    ) -> None:
        host = ModelHost(backend_of(stick), [many])
        host.connect()
        host.load("0", "first")
        host.load("0", "second")
        host.unload("second")
        host.refresh()
        gc.collect()
        host.load("1")
        assert host.invoke("first", NUMBERS).outputs["sums"].tolist() == [[12]]
        host.close()

    def test_keeps_what_was_registered_by_its_user(self, stick: VirtualEdgeTpu, many: Path) -> None:
        for number in range(10):
            graph = (many / f"{number}.tflite").read_bytes()
            stick.register_model(pack(graph, name="model"), graph)
        gc.collect()
        assert stick.library.size == 10 + 5


@pytest.mark.parametrize("name", ["cpu", "virtual"])
def test_the_process_of_a_graph_ends_when_its_model_is_unloaded(name: str, models: Path) -> None:
    def running() -> set[int]:
        return {graph.pid for graph in litert_process_pool._owners} - {0}

    before = running()
    host = ModelHost(make_backend(name), [models])
    host.connect()
    for _ in range(2):
        host.load("sums")
        assert host.invoke("sums", NUMBERS).outputs["sums"].tolist() == [[5, 12]]
        assert len(running() - before) == 1
        host.load("sums", "again")
        host.unload("sums")
        assert host.invoke("again", NUMBERS).outputs["sums"].tolist() == [[5, 12]]
        host.unload("again")
        host.refresh()  # by the thread that closes engines
        assert running() <= before
    host.close()


def test_no_process_is_left_of_a_host_that_has_ended(models: Path) -> None:
    def running() -> set[int]:
        return {graph.pid for graph in litert_process_pool._owners} - {0}

    before, loaded = running(), threading.Event()
    host = ModelHost(make_backend("cpu"), [models])
    host.connect()
    host.load("sums")
    for name in ("second", "third"):
        host.submit_load("sums", name)
    host.submit_load("sums", "last", lambda _: loaded.set())
    host.end()
    assert loaded.wait(PATIENCE)
    assert running() <= before


def test_the_cpu_keeps_parameters_in_the_host(models: Path) -> None:
    data = (models / "sums.tflite").read_bytes()
    parsed = CpuBackend().parse(models / "sums.tflite", data)
    eight_weights = 8
    assert (parsed.placement, parsed.parameter_bytes) == (Placement.HOST, eight_weights)


def test_the_cpu_refuses_a_compiled_model_and_names_its_graph(models: Path) -> None:
    with pytest.raises(ModelUnsupportedError, match=r"expected the graph it was compiled from, sums\.tflite"):
        CpuBackend().parse(models / "sums_edgetpu.tflite", b"")


def test_the_virtual_stick_runs_a_compiled_model_next_to_its_graph(models: Path) -> None:
    compiled = pack((models / "sums.tflite").read_bytes(), name="sums")
    (models / "sums_edgetpu.tflite").write_bytes(compiled)
    host = ModelHost(make_backend("virtual"), [models])
    host.connect()
    assert host.load("sums").path == models / "sums_edgetpu.tflite"
    assert host.invoke("sums", NUMBERS).outputs["sums"].tolist() == [[5, 12]]
    (models / "sums.tflite").unlink()
    host.load("sums", "again")
    with pytest.raises(ModelUnsupportedError, match=r"'again' cannot run here: .* only with its graph"):
        host.invoke("again", NUMBERS)
    host.close()


def test_a_graph_added_later_is_found_by_loading_again(models: Path) -> None:
    graph = (models / "sums.tflite").read_bytes()
    (models / "sums.tflite").unlink()
    (models / "sums_edgetpu.tflite").write_bytes(pack(graph, name="sums"))
    host = ModelHost(make_backend("virtual"), [models])
    host.connect()
    host.load("sums")
    assert "there is no" in host.model("sums").unsupported_reason
    (models / "sums.tflite").write_bytes(graph)
    host.load("sums")
    assert host.model("sums").unsupported_reason == ""
    assert host.invoke("sums", NUMBERS).outputs["sums"].tolist() == [[5, 12]]
    host.close()


@pytest.mark.parametrize("name", ["usb", "virtual"])
def test_every_model_of_the_vendors_compiler_loads_with_its_tensors(name: str, golden: ModelFolder) -> None:
    files = golden.models("_edgetpu.tflite")
    host = ModelHost(make_backend(name), [golden.path])
    for path in files:
        loaded = host.load(str(path))
        plan = load_plan(path)
        assert (loaded.inputs, loaded.outputs) == (plan.inputs, plan.outputs)
    assert len(host.models()) == len(files)


def test_a_real_model_that_cannot_run_over_usb_says_so_without_a_stick(golden: ModelFolder) -> None:
    host = ModelHost(make_backend("usb"), [golden.path])
    lstm = host.load(str(golden.model("keras_lstm_mnist_ptq_edgetpu.tflite")))
    zeros = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in lstm.inputs}
    with pytest.raises(ModelUnsupportedError, match="not fully deterministic"):
        host.invoke(lstm.name, zeros)


def test_a_stick_reports_resident_models_and_their_size(stick_host: ModelHost) -> None:
    sums = stick_host.model("sums")
    assert not sums.resident
    stick_host.invoke("sums", NUMBERS)
    stick_host.refresh()
    readings = stick_host.status().readings
    assert sums.resident
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


def test_two_names_of_one_file_are_in_the_memory_side_by_side(stick_host: ModelHost) -> None:
    stick_host.load("sums", "again")
    for name in ("sums", "again", "sums", "again"):
        stick_host.invoke(name, NUMBERS)
    stick_host.refresh()
    assert stick_host.status().readings.uploads == 2


def test_the_copy_of_an_unloaded_model_is_used_again(stick_host: ModelHost) -> None:
    stick_host.load("sums", "again")
    stick_host.invoke("sums", NUMBERS)
    stick_host.invoke("again", NUMBERS)
    stick_host.unload("again")
    stick_host.load("sums", "third")
    for name in ("third", "sums", "third", "sums"):
        stick_host.invoke(name, NUMBERS)
    stick_host.refresh()
    readings = stick_host.status().readings
    assert (readings.uploads, readings.sram_used) == (3, 2 * stick_host.model("sums").parsed.parameter_bytes)


def test_a_fault_that_needs_a_reset_is_recovered_from_within_the_request(
    stick: VirtualEdgeTpu, models: Path
) -> None:
    seen: list[State] = []
    backend = backend_of(stick)
    host = ModelHost(backend, [models], lambda: seen.append(host.state))
    host.connect()
    host.load("sums")
    del seen[:]
    stick.fail(Fault.STALL, Transfer.OUTPUT)
    assert host.invoke("sums", NUMBERS).outputs["sums"].tolist() == [[5, 12]]
    host.refresh()
    assert seen == [State.RECOVERING, State.READY]
    assert (host.status().recoveries, host.status().dropped) == (1, 0)
    host.close()


def test_slow_phases_are_shown_as_the_state(stick: VirtualEdgeTpu, models: Path) -> None:
    stick.unplug()
    stick.plug(boot_mode=True)
    seen: list[tuple[State, str]] = []
    backend = backend_of(stick)
    host = ModelHost(backend, [models], lambda: seen.append((host.state, host.status_message)))
    host.connect()
    assert seen == [
        (State.STARTING, "looking for the device"),
        (State.BOOT, "the stick at 2-1: loading its firmware"),
        (State.STARTING, "the stick at 2-1: resetting it and bringing its chip up"),
        (State.READY, ""),
    ]
    host.close()


def test_a_warm_chip_is_reported_once_per_warning(stick: VirtualEdgeTpu, stick_host: ModelHost) -> None:
    stick.warn_of_heat()
    stick_host.refresh()
    warm = stick_host.status().readings
    stick_host.refresh()
    cool = stick_host.status().readings
    assert (warm.thermal_warnings, warm.warm) == (1, True)
    assert (cool.thermal_warnings, cool.warm) == (1, False)


@pytest.mark.parametrize("name", ["cpu", "virtual"])
def test_without_litert_the_status_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    host = ModelHost(make_backend(name), [])
    host.connect()
    assert host.state is State.FAILED
    assert "pip install ai-edge-litert" in host.status_message


def test_several_virtual_sticks_are_named_by_serial_number_or_bus_path(models: Path) -> None:
    host = ModelHost(make_backends("virtual", ["2-1.4", "3-2", "left"]), [models])
    host.connect()
    host.load("sums")
    found = [(stick.readings.bus_path, stick.readings.serial) for stick in host.status().sticks]
    assert found == [("2-1.4", ""), ("3-2", ""), ("2-1", "left")]
    assert host.model("sums").sticks == ("2-1.4", "3-2", "2-1")
    assert host.invoke("sums", NUMBERS).outputs["sums"].tolist() == [[5, 12]]
    host.close()


@pytest.mark.parametrize(
    ("name", "devices"), [("virtual", ["2-1", "2-1"]), ("virtual", ["all", "2-1"]), ("cpu", ["2-1"])]
)
def test_devices_that_make_no_sense_are_refused(name: str, devices: list[str]) -> None:
    with pytest.raises(InputError):
        make_backends(name, devices)


@pytest.mark.parametrize("name", ["usb", "virtual"])
def test_an_unknown_clock_preset_is_refused_before_a_stick_is_opened(name: str) -> None:
    with pytest.raises(InputError, match="expected a clock preset of low, medium, high, max; got fast"):
        make_backend(name, preset="fast")


def test_an_open_stick_refuses_an_unknown_clock_preset_and_keeps_its_own(stick: VirtualEdgeTpu) -> None:
    backend = backend_of(stick)
    backend.open()
    with pytest.raises(InputError, match="expected a clock preset of low, medium, high, max; got fast"):
        backend.set_clock("fast")
    assert backend.read().clock_preset == "high"
    backend.close()


def test_all_means_any_stick_while_none_is_connected() -> None:
    assert len(make_backends("virtual", ["all"])) == 1


def test_a_stick_that_appears_while_the_backends_are_made_gets_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_the_bus = ["2-1"]
    monkeypatch.setattr(factory, "_connected", lambda: tuple(on_the_bus))
    backends = make_backends("usb", ["all"])
    on_the_bus.append("2-2")
    more = MoreSticks(backends)
    assert [each.bus_path for each in more({"2-1"})] == ["2-2"]  # type: ignore[attr-defined]
    assert more({"2-1"}) == []
