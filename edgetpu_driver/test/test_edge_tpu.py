"""One stick in use: results, residency, faults and device information."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import CompiledModel, CpuEngine, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import DeviceLostError, FirmwareError, InputError, TransferTimeoutError
from edgetpu_driver.usb.chip_clock import ClockPreset
from edgetpu_driver.usb.registers import Register
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from edgetpu_driver.virtual.graph_packer import pack
from testdata.devices.virtual_backend import FIRMWARE


class Dense:
    """A packed model and its graph."""

    def __init__(self, graph: bytes) -> None:
        self.graph = graph
        self.model = CompiledModel.parse(pack(graph, name="dense"), "dense")
        self._cpu = CpuEngine(graph)

    def expected(self, x: NDArray[np.uint8]) -> list[int]:
        return list(self._cpu.run({"x": x})["y"][0])


def ramp(start: int = 0) -> NDArray[np.uint8]:
    return ((np.arange(16, dtype=np.int64) * 13 + start) % 256).astype(np.uint8).reshape(1, 16)


def run(tpu: EdgeTpu, dense: Dense, x: NDArray[np.uint8]) -> list[int]:
    return list(tpu.run(dense.model, {"x": x})["y"][0])


@pytest.fixture
def dense(make_dense: Callable[[int], bytes]) -> Dense:
    return Dense(make_dense(1))


@pytest.fixture
def other(make_dense: Callable[[int], bytes]) -> Dense:
    return Dense(make_dense(2))


@pytest.fixture
def stick(dense: Dense, other: Dense) -> VirtualEdgeTpu:
    return (
        VirtualEdgeTpu(serial="A1")
        .register_model(dense.model, dense.graph)
        .register_model(other.model, other.graph)
    )


def test_run_gives_what_the_graph_computes(stick: VirtualEdgeTpu, dense: Dense) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        assert run(tpu, dense, ramp()) == dense.expected(ramp())


def test_results_belong_to_the_caller(stick: VirtualEdgeTpu, dense: Dense) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        first = tpu.run(dense.model, {"x": ramp()})["y"]
        tpu.run(dense.model, {"x": ramp(100)})
    assert list(first[0]) == dense.expected(ramp())


def test_an_input_of_the_wrong_shape_is_refused_before_anything_is_sent(
    stick: VirtualEdgeTpu, dense: Dense
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        sent = tpu.info().bytes_sent
        with pytest.raises(InputError, match=r"expected 'x' uint8\[1, 16\]; got uint8\[1, 15\]"):
            tpu.run(dense.model, {"x": np.zeros((1, 15), np.uint8)})
        assert tpu.info().bytes_sent == sent


def test_parameters_are_uploaded_once(stick: VirtualEdgeTpu, dense: Dense) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        for start in range(5):
            run(tpu, dense, ramp(start))
        assert (tpu.info().uploads, tpu.info().inferences) == (1, 5)


def test_two_models_take_turns(stick: VirtualEdgeTpu, dense: Dense, other: Dense) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        ours, theirs = tpu.load(dense.model), tpu.load(other.model)
        for start in range(3):
            assert list(ours.run({"x": ramp(start)})["y"][0]) == dense.expected(ramp(start))
            assert list(theirs.run({"x": ramp(start)})["y"][0]) == other.expected(ramp(start))
            assert (ours.resident, theirs.resident) == (False, True)
        assert tpu.info().uploads == 6


def test_upload_puts_the_parameters_into_memory_ahead_of_the_first_run(
    stick: VirtualEdgeTpu, dense: Dense
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        loaded = tpu.load(dense.model)
        assert not loaded.resident
        loaded.upload()
        assert loaded.resident
        loaded.run({"x": ramp()})
        assert tpu.info().uploads == 1


def test_uploaded_weights_replace_the_models_own(stick: VirtualEdgeTpu, dense: Dense, other: Dense) -> None:
    assert other.model.caching is not None
    with EdgeTpu.open(usb_backend=stick) as tpu:
        tpu.upload(dense.model, other.model.caching.parameters)
        assert run(tpu, dense, ramp()) == other.expected(ramp())


def test_weights_of_another_size_are_refused(stick: VirtualEdgeTpu, dense: Dense) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu, pytest.raises(InputError, match="got 3"):
        tpu.upload(dense.model, b"abc")


def test_loaded_models_of_one_file_each_have_their_own_weights(
    stick: VirtualEdgeTpu, dense: Dense, other: Dense
) -> None:
    assert other.model.caching is not None
    with EdgeTpu.open(usb_backend=stick) as tpu:
        untouched, changed = tpu.load(dense.model), tpu.load(dense.model)
        changed.upload(other.model.caching.parameters)
        for _ in range(2):
            assert list(untouched.run({"x": ramp()})["y"][0]) == dense.expected(ramp())
            assert list(changed.run({"x": ramp()})["y"][0]) == other.expected(ramp())


def test_weights_that_are_refused_leave_the_ones_before(
    stick: VirtualEdgeTpu, dense: Dense, other: Dense
) -> None:
    assert other.model.caching is not None
    with EdgeTpu.open(usb_backend=stick) as tpu:
        loaded = tpu.load(dense.model)
        with pytest.raises(InputError, match="expected 0 streamed parameter bytes, got 3"):
            loaded.upload(other.model.caching.parameters, streamed=b"abc")
        assert list(loaded.run({"x": ramp()})["y"][0]) == dense.expected(ramp())


def test_a_closed_model_is_not_resident_and_does_not_run(stick: VirtualEdgeTpu, dense: Dense) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        loaded = tpu.load(dense.model)
        loaded.run({"x": ramp()})
        loaded.close()
        loaded.close()
        assert not loaded.resident
        with pytest.raises(DeviceLostError, match="model 'dense' was closed"):
            loaded.run({"x": ramp()})
        assert run(tpu, dense, ramp()) == dense.expected(ramp())


def test_closing_a_model_leaves_equal_parameters_of_another_one_resident(
    stick: VirtualEdgeTpu, dense: Dense
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        first, second = tpu.load(dense.model), tpu.load(dense.model)
        first.upload()
        second.close()
        assert first.resident


def test_a_loaded_model_keeps_its_stick_open(stick: VirtualEdgeTpu, dense: Dense) -> None:
    loaded = EdgeTpu.open(usb_backend=stick).load(dense.model)
    gc.collect()
    assert list(loaded.run({"x": ramp()})["y"][0]) == dense.expected(ramp())
    loaded.close()
    gc.collect()
    assert stick._chip._registers.asleep


def test_a_virtual_stick_tells_how_long_an_inference_took_on_it(stick: VirtualEdgeTpu, dense: Dense) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        loaded = tpu.load(dense.model)
        assert math.isnan(loaded.device_duration)
        loaded.run({"x": ramp()})  # uploads the parameters too
        loaded.run({"x": ramp()})
        assert loaded.device_duration == pytest.approx(stick.last_inference_time, rel=0.2)


def test_an_engine_runs_its_model_on_a_shared_stick(
    stick: VirtualEdgeTpu, dense: Dense, other: Dense
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        engines = StickEngine(tpu, dense.model), StickEngine(tpu, other.model)
        results = [list(engine.run({"x": ramp()})["y"][0]) for engine in engines]
    assert [spec.name for spec in engines[0].inputs] == ["x"]
    assert results == [dense.expected(ramp()), other.expected(ramp())]


def test_info_describes_device_and_work(stick: VirtualEdgeTpu, dense: Dense) -> None:
    with EdgeTpu.open(usb_backend=stick, preset=ClockPreset.MAX) as tpu:
        run(tpu, dense, ramp())
        info = tpu.info()
    assert (info.serial, info.bus_path, info.link_speed, info.firmware) == ("A1", "2-1", 5000.0, "1.00")
    assert (info.clock_preset, info.temperature) == (ClockPreset.MAX, 40.05)
    assert (info.inferences, info.uploads, info.retries, info.recoveries) == (1, 1, 0, 0)
    assert info.parameter_bytes == dense.model.parameter_bytes


def test_registers_shows_errors_and_states(stick: VirtualEdgeTpu) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        registers = tpu.registers()
    assert registers[Register.hib_error_status] == 0
    assert registers[Register.scalarCoreRunStatus] == 1


@pytest.mark.parametrize(
    ("fault", "on"),
    [
        (Fault.TIMEOUT, Transfer.BULK_OUT),
        (Fault.STALL, Transfer.BULK_OUT),
        (Fault.TIMEOUT, Transfer.OUTPUT),
        (Fault.STALL, Transfer.OUTPUT),
        (Fault.SHORT_PACKET, Transfer.OUTPUT),
        (Fault.TIMEOUT, Transfer.EVENT),
        (Fault.SHORT_PACKET, Transfer.EVENT),
    ],
)
def test_a_fault_costs_a_reset_and_a_second_try_but_no_result(
    stick: VirtualEdgeTpu, dense: Dense, fault: Fault, on: Transfer
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        run(tpu, dense, ramp())
        stick.fail(fault, on)
        for start in range(3):
            assert run(tpu, dense, ramp(start)) == dense.expected(ramp(start))
        info = tpu.info()
    assert (info.inferences, info.uploads, info.retries, info.recoveries) == (4, 2, 1, 1)


def test_a_repeated_fault_is_reported_and_the_next_run_works(stick: VirtualEdgeTpu, dense: Dense) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        stick.fail(Fault.TIMEOUT, Transfer.BULK_OUT, times=2)
        with pytest.raises(TransferTimeoutError, match="timed out"):
            run(tpu, dense, ramp())
        assert run(tpu, dense, ramp()) == dense.expected(ramp())


def test_an_interrupted_run_does_not_affect_the_next(
    stick: VirtualEdgeTpu, dense: Dense, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> int:
        raise KeyboardInterrupt

    with EdgeTpu.open(usb_backend=stick) as tpu:
        with monkeypatch.context() as patch:
            patch.setattr(stick, "bulk_read", interrupt)
            with pytest.raises(KeyboardInterrupt):
                run(tpu, dense, ramp(50))
        assert run(tpu, dense, ramp()) == dense.expected(ramp())


def test_an_unplugged_stick_is_lost_and_found_when_it_is_back_in_its_port(
    stick: VirtualEdgeTpu, dense: Dense
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        loaded = tpu.load(dense.model)
        loaded.run({"x": ramp()})
        stick.unplug()
        for _ in range(2):
            with pytest.raises(DeviceLostError, match="2-1"):
                run(tpu, dense, ramp())
        assert not loaded.resident
        stick.plug()
        assert run(tpu, dense, ramp()) == dense.expected(ramp())


def test_a_stick_that_returns_in_boot_mode_gets_its_firmware_again(
    stick: VirtualEdgeTpu, dense: Dense
) -> None:
    with EdgeTpu.open(usb_backend=stick, firmware=FIRMWARE) as tpu:
        stick.unplug()
        stick.plug(boot_mode=True)
        assert run(tpu, dense, ramp()) == dense.expected(ramp())


def test_a_stick_that_returns_in_boot_mode_without_an_image_is_reported(
    stick: VirtualEdgeTpu, dense: Dense
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        stick.unplug()
        stick.plug(boot_mode=True)
        with pytest.raises(FirmwareError, match="boot mode"):
            run(tpu, dense, ramp())


def test_a_stick_pulled_in_the_middle_of_an_inference_is_lost(stick: VirtualEdgeTpu, dense: Dense) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        stick.fail(Fault.UNPLUG, Transfer.OUTPUT)
        with pytest.raises(DeviceLostError, match="plug it in again"):
            run(tpu, dense, ramp())


def test_closing_a_lost_stick_is_quiet(stick: VirtualEdgeTpu) -> None:
    tpu = EdgeTpu.open(usb_backend=stick)
    stick.unplug()
    tpu.close()
    tpu.close()


def test_a_closed_device_runs_nothing(stick: VirtualEdgeTpu, dense: Dense) -> None:
    tpu = EdgeTpu.open(usb_backend=stick)
    tpu.close()
    with pytest.raises(DeviceLostError, match="closed"):
        run(tpu, dense, ramp())


def test_a_closed_stick_can_be_opened_again(stick: VirtualEdgeTpu, dense: Dense) -> None:
    EdgeTpu.open(usb_backend=stick).close()
    with EdgeTpu.open(usb_backend=stick) as tpu:
        assert run(tpu, dense, ramp()) == dense.expected(ramp())


def test_an_unreferenced_device_is_put_to_sleep_and_collected(stick: VirtualEdgeTpu, dense: Dense) -> None:
    tpu = EdgeTpu.open(usb_backend=stick)
    run(tpu, dense, ramp())
    dropped = weakref.ref(tpu)
    assert not stick._chip._registers.asleep
    del tpu
    gc.collect()
    assert dropped() is None
    assert stick._chip._registers.asleep
    EdgeTpu.open(usb_backend=stick).close()


def test_threads_get_their_own_results(stick: VirtualEdgeTpu, dense: Dense, other: Dense) -> None:
    wrong: list[int] = []

    def work(tpu: EdgeTpu, model: Dense, first: int) -> None:
        wrong.extend(
            start
            for start in range(first, first + 20)
            if run(tpu, model, ramp(start)) != model.expected(ramp(start))
        )

    with EdgeTpu.open(usb_backend=stick) as tpu:
        stick.fail(Fault.TIMEOUT, Transfer.EVENT, after=10)
        jobs = [(tpu, dense, 0), (tpu, other, 30)]
        threads = [threading.Thread(target=work, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        info = tpu.info()
    assert wrong == []
    assert (info.inferences, info.recoveries) == (40, 1)


def test_a_clock_preset_may_be_given_by_its_name() -> None:
    with EdgeTpu.open(VirtualEdgeTpu(), preset="max") as tpu:
        assert tpu.info().clock_preset is ClockPreset.MAX
        tpu.set_clock("low")
        assert tpu.info().clock_preset is ClockPreset.LOW


@pytest.mark.parametrize("preset", ["fast", None])
def test_another_clock_preset_is_refused(preset: Any) -> None:
    says = f"expected a clock preset of low, medium, high, max; got {preset}"
    with pytest.raises(InputError, match=says):
        EdgeTpu.open(VirtualEdgeTpu(), preset=preset)
    with EdgeTpu.open(VirtualEdgeTpu()) as tpu, pytest.raises(InputError, match=says):
        tpu.set_clock(preset)
