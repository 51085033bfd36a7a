"""Models by name on a device that comes and goes."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.backends.backend import ParsedModel, Placement, Readings, RegisterValue
from edgetpu_driver.errors import (
    DeviceAccessError,
    DeviceLostError,
    DeviceNotFoundError,
    InputError,
    ModelFormatError,
    ModelNotFoundError,
    ModelUnsupportedError,
    PathRefusedError,
    TransferError,
    UnavailableError,
)
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.reconnector import Reconnector
from edgetpu_driver.tensor import TensorSpec, check_inputs

INPUT = TensorSpec("input", (1, 4), np.dtype(np.uint8), 0.5, 3)
OUTPUT = TensorSpec("output", (1, 4), np.dtype(np.uint8), 1.0, 0)
ONES = {"input": np.ones((1, 4), np.uint8)}


class PlusOneEngine:
    """Adds one; raises `failure` once if set."""

    inputs = (INPUT,)
    outputs = (OUTPUT,)
    resident = True
    device_duration = 0.25

    def __init__(self, backend: FakeBackend, source: bytes) -> None:
        self._backend = backend
        self._source = source

    def close(self) -> None:
        self._backend.closed.append(self._source)

    def run(self, inputs: Any) -> dict[str, Any]:
        check_inputs(self.inputs, inputs)
        failure, self._backend.failure = self._backend.failure, None
        if failure is not None:
            raise failure
        return {"output": inputs["input"] + 1}


class FakeBackend:
    """A device whose presence and failures are set by the test."""

    name = "fake"
    compiled = True
    uncompiled = False

    def __init__(self) -> None:
        self.absence: Exception | None = None
        self.failure: Exception | None = None
        self.opened = 0
        self.parsed = 0
        self.closed: list[bytes] = []

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        self.parsed += 1
        if data == b"broken":
            raise ModelFormatError(f"{path.name}: broken")
        return ParsedModel((INPUT,), (OUTPUT,), Placement.CACHED, len(data), 7, data)

    def open(self, on_phase: Any = None) -> None:  # noqa: ARG002
        if self.absence is not None:
            raise self.absence
        self.opened += 1

    def close(self) -> None:
        pass

    def attach(self, model: ParsedModel) -> PlusOneEngine:
        if model.source == b"too large":
            raise ModelUnsupportedError("does not fit")
        return PlusOneEngine(self, model.source)

    def read(self) -> Readings:
        if self.absence is not None:
            raise self.absence
        return Readings(serial="S1", uploads=self.opened, recoveries=2)

    def registers(self) -> tuple[RegisterValue, ...]:
        return (RegisterValue("scu_ctrl_0", 0x1A30C, 5),)


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    directory = tmp_path / "models"
    directory.mkdir()
    for stem in ("plus_edgetpu", "other_edgetpu", "uncompiled"):
        (directory / f"{stem}.tflite").write_bytes(stem.encode())
    (directory / "broken_edgetpu.tflite").write_bytes(b"broken")
    return directory


@pytest.fixture
def host(backend: FakeBackend, models: Path) -> ModelHost:
    host = ModelHost(backend, [models])
    host.connect()
    return host


class TestFindingFiles:
    @pytest.mark.parametrize("model", ["plus", "plus_edgetpu", "plus_edgetpu.tflite"])
    def test_a_model_is_found_by_stem_and_by_file_name(
        self, host: ModelHost, models: Path, model: str
    ) -> None:
        loaded = host.load(model)
        assert (loaded.name, loaded.path) == ("plus", models / "plus_edgetpu.tflite")

    def test_a_model_is_found_by_absolute_path(self, host: ModelHost, models: Path) -> None:
        assert host.load(str(models / "plus_edgetpu.tflite")).name == "plus"

    def test_the_first_directory_with_the_model_wins(
        self, backend: FakeBackend, models: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "first").mkdir()
        (tmp_path / "first" / "plus_edgetpu.tflite").write_bytes(b"1")
        host = ModelHost(backend, [tmp_path / "first", models])
        assert host.load("plus").path == tmp_path / "first" / "plus_edgetpu.tflite"

    @pytest.mark.parametrize("model", ["/etc/passwd", "../outside.tflite", "/nowhere/at/all.tflite"])
    def test_a_path_outside_is_refused_and_the_directories_are_named(
        self, host: ModelHost, models: Path, model: str
    ) -> None:
        (models.parent / "outside.tflite").write_bytes(b"x")
        with pytest.raises(PathRefusedError, match=f"inside {models}; got .*{Path(model).name}"):
            host.load(model)

    def test_a_symbolic_link_that_leads_outside_is_refused(self, host: ModelHost, models: Path) -> None:
        (models.parent / "outside.tflite").write_bytes(b"x")
        (models / "link_edgetpu.tflite").symlink_to(models.parent / "outside.tflite")
        with pytest.raises(PathRefusedError):
            host.load("link")

    def test_an_unknown_name_is_answered_with_near_ones(self, host: ModelHost, models: Path) -> None:
        with pytest.raises(ModelNotFoundError) as failure:
            host.load("pluss")
        assert str(failure.value) == f"no pluss_edgetpu.tflite in {models}; did you mean plus?"

    def test_a_graph_that_must_be_compiled_first_is_refused_with_the_command(
        self, host: ModelHost, models: Path
    ) -> None:
        with pytest.raises(ModelUnsupportedError) as failure:
            host.load("uncompiled")
        assert str(failure.value) == (
            f"{models}/uncompiled.tflite is not compiled for the Edge TPU; "
            "run: edgetpu_compiler uncompiled.tflite"
        )

    @pytest.mark.parametrize("model", ["", "\0", "x" * 1000], ids=["empty", "zero byte", "too long"])
    def test_an_invalid_name_is_not_found(self, host: ModelHost, model: str) -> None:
        with pytest.raises(ModelNotFoundError):
            host.load(model)

    def test_only_files_the_backend_can_run_are_available(self, host: ModelHost) -> None:
        assert [path.name for path in host.files.available()] == [
            "broken_edgetpu.tflite",
            "other_edgetpu.tflite",
            "plus_edgetpu.tflite",
        ]


class TestLoading:
    def test_the_same_file_under_the_same_name_is_parsed_once(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        assert host.load("plus") is host.load("plus")
        assert backend.parsed == 1

    def test_a_changed_file_is_loaded_anew(self, host: ModelHost, models: Path) -> None:
        before = host.load("plus")
        (models / "plus_edgetpu.tflite").write_bytes(b"changed")
        assert host.load("plus").sha256 != before.sha256

    def test_one_file_may_have_two_names(self, host: ModelHost) -> None:
        host.load("plus")
        host.load("plus", "again")
        assert [model.name for model in host.models()] == ["plus", "again"]

    def test_a_broken_file_leaves_the_loaded_ones_alone(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(ModelFormatError):
            host.load("broken", "plus")
        assert host.invoke("plus", ONES).outputs["output"].tolist() == [[2, 2, 2, 2]]

    def test_a_model_that_cannot_be_attached_is_loaded_and_says_why(
        self, host: ModelHost, models: Path
    ) -> None:
        (models / "big_edgetpu.tflite").write_bytes(b"too large")
        big = host.load("big")
        assert (host.models(), host.model("big").unsupported_reason) == ((big,), "does not fit")
        with pytest.raises(ModelUnsupportedError, match="model 'big' cannot run here: does not fit"):
            host.invoke("big", ONES)

    @pytest.mark.parametrize("name", [" ", "../weird name", "two words", "-x", "\n"])
    def test_a_name_with_invalid_characters_is_refused(self, host: ModelHost, name: str) -> None:
        with pytest.raises(InputError, match="expected a name of letters, digits and"):
            host.load("plus", name)

    def test_an_unloaded_model_is_unknown(self, host: ModelHost, backend: FakeBackend) -> None:
        host.load("plus")
        host.load("other")
        host.unload("plus")
        assert backend.closed == [b"plus_edgetpu"]
        with pytest.raises(ModelNotFoundError) as failure:
            host.invoke("plus", ONES)
        assert str(failure.value) == "no model 'plus' is loaded; loaded: other"


class TestInvoking:
    def test_outputs_come_by_name(self, host: ModelHost) -> None:
        host.load("plus")
        inference = host.invoke("plus", {"input": np.array([[1, 2, 3, 4]], np.uint8)})
        assert inference.outputs["output"].tolist() == [[2, 3, 4, 5]]
        assert inference.engine_duration > 0
        assert inference.device_duration == 0.25

    def test_a_wrong_shape_names_what_was_expected(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(InputError, match=r"expected 'input' uint8\[1, 4\]; got uint8\[1, 5\]"):
            host.invoke("plus", {"input": np.zeros((1, 5), np.uint8)})

    def test_a_bad_request_does_not_count_as_dropped(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(InputError):
            host.invoke("plus", {})
        assert (host.status().inferences, host.status().dropped) == (0, 0)


class TestADeviceThatComesAndGoes:
    def test_without_a_device_models_load_and_requests_are_refused_at_once(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.absence = DeviceNotFoundError("no Edge TPU on the bus")
        host.reset()
        host.connect()
        host.load("plus")
        assert host.state is State.ABSENT
        with pytest.raises(UnavailableError, match="no device: no Edge TPU on the bus"):
            host.invoke("plus", ONES)

    def test_models_run_again_when_it_is_back(self, host: ModelHost, backend: FakeBackend) -> None:
        host.load("plus")
        backend.failure = DeviceLostError("unplugged")
        with pytest.raises(DeviceLostError):
            host.invoke("plus", ONES)
        assert (host.state, host.status_message) == (State.ABSENT, "unplugged")
        host.connect()
        assert host.invoke("plus", ONES).outputs["output"].tolist() == [[2, 2, 2, 2]]

    def test_a_fault_that_recovery_could_not_mend_makes_it_start_over(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        host.load("plus")
        backend.failure = TransferError("still no event")
        with pytest.raises(TransferError):
            host.invoke("plus", ONES)
        assert host.state is State.RECOVERING

    def test_a_device_that_cannot_be_used_says_why(self, host: ModelHost, backend: FakeBackend) -> None:
        backend.absence = DeviceAccessError("install the udev rule")
        host.reset()
        host.connect()
        assert (host.state, host.status_message) == (State.FAILED, "install the udev rule")

    def test_an_unplugged_stick_is_noticed_while_idle(self, host: ModelHost, backend: FakeBackend) -> None:
        backend.absence = DeviceLostError("gone")
        host.refresh()
        assert host.state is State.ABSENT

    def test_a_requested_reset_does_not_count_as_recovery(self, host: ModelHost) -> None:
        before = host.status().recoveries
        host.reset()
        host.connect()
        assert host.status().recoveries == before

    def test_the_failure_of_an_earlier_opening_does_not_close_the_present_one(self, host: ModelHost) -> None:
        host.load("plus")
        begun, reopened = threading.Event(), threading.Event()

        def late_failure(_inputs: Any) -> Any:
            begun.set()
            reopened.wait(5)
            raise DeviceLostError("long ago")

        host._models["plus"].engine.run = late_failure

        def call() -> None:
            with pytest.raises(DeviceLostError):
                host.invoke("plus", ONES)

        caller = threading.Thread(target=call)
        caller.start()
        begun.wait(5)
        host.reset()
        host.connect()
        reopened.set()
        caller.join()
        assert host.state is State.READY

    def test_every_change_of_state_is_announced(self, backend: FakeBackend, models: Path) -> None:
        seen: list[State] = []
        host = ModelHost(backend, [models], lambda: seen.append(host.state))
        host.connect()
        host.reset()
        host.connect()
        host.close()
        assert seen == [State.STARTING, State.READY, State.RECOVERING, State.READY, State.CLOSED]


class TestStatus:
    def test_it_counts_inferences_and_drops(self, host: ModelHost, backend: FakeBackend) -> None:
        host.load("plus")
        host.invoke("plus", ONES)
        backend.failure = DeviceLostError("unplugged")
        with pytest.raises(DeviceLostError):
            host.invoke("plus", ONES)
        host.connect()
        status = host.status()
        assert (status.inferences, status.dropped, status.recoveries) == (1, 1, 1 + 2)
        assert (status.readings.serial, status.readings.uploads, status.resident) == ("S1", 2, ("plus",))

    def test_latencies_are_those_of_one_period(self, host: ModelHost) -> None:
        host.load("plus")
        duration = host.invoke("plus", ONES).engine_duration
        host.end_period()
        first = host.status().period
        host.end_period()
        second = host.status().period
        assert (first.latency_p50, first.latency_p99) == (duration, duration)
        assert 0 < first.utilisation <= 1
        assert np.isnan(second.latency_p50)
        assert second.utilisation == 0

    def test_registers_are_those_of_a_device_that_is_there(self, host: ModelHost) -> None:
        assert [register.value for register in host.registers()] == [5]
        host.reset()
        assert host.registers() == ()


class TestReconnector:
    def test_it_opens_a_device_that_appears_later(self, backend: FakeBackend, models: Path) -> None:
        backend.absence = DeviceNotFoundError("none yet")
        ready, absent = threading.Event(), threading.Event()

        def changed() -> None:
            (ready if host.state is State.READY else absent).set()

        host = ModelHost(backend, [models], changed)
        reconnector = Reconnector(host)
        reconnector.start()
        assert absent.wait(5)
        backend.absence = None
        reconnector.wake()
        assert ready.wait(5)
        reconnector.stop()

    def test_it_reads_the_device_and_notices_that_it_is_gone(
        self, backend: FakeBackend, models: Path
    ) -> None:
        states: queue.Queue[State] = queue.Queue()
        host = ModelHost(backend, [models], lambda: states.put(host.state))
        reconnector = Reconnector(host, refresh_period=0.01)
        reconnector.start()
        assert [states.get(timeout=5) for _ in range(2)] == [State.STARTING, State.READY]
        backend.absence = DeviceLostError("gone")
        assert states.get(timeout=5) is State.ABSENT
        reconnector.stop()

    def test_it_gives_up_after_the_timeout(self, backend: FakeBackend, models: Path) -> None:
        backend.absence = DeviceNotFoundError("none")
        given_up = threading.Event()
        reconnector = Reconnector(ModelHost(backend, [models]), 0.0, given_up.set)
        reconnector.start()
        assert given_up.wait(5)
        assert reconnector.gave_up
        reconnector.stop()

    def test_a_device_lost_in_use_is_waited_for(self, backend: FakeBackend, models: Path) -> None:
        ready = threading.Semaphore(0)

        def changed() -> None:
            if host.state is State.READY:
                ready.release()
            elif host.state is State.RECOVERING:
                reconnector.wake()

        host = ModelHost(backend, [models], changed)
        reconnector = Reconnector(host, 0.0)
        reconnector.start()
        assert ready.acquire(timeout=5)
        host.reset()
        assert ready.acquire(timeout=5)
        assert not reconnector.gave_up
        reconnector.stop()
