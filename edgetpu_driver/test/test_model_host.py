"""Models by name on a device: found, loaded, run."""

from __future__ import annotations

import queue
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.errors import (
    BusyError,
    DeviceLostError,
    InputError,
    ModelFormatError,
    ModelNotFoundError,
    ModelUnsupportedError,
    PathRefusedError,
)
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.hosted_model import ModelState
from edgetpu_driver.toolchain.edgetpu_compiler import compile_command
from testdata.devices.fake_device import ONES, FakeBackend
from testdata.timeouts import PATIENCE


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

    def test_a_directory_that_does_not_exist_is_named_as_such(
        self, backend: FakeBackend, models: Path
    ) -> None:
        nowhere = models.parent / "modles"
        with pytest.raises(ModelNotFoundError) as failure:
            ModelHost(backend, [nowhere]).load("plus")
        assert (
            str(failure.value) == f"no plus_edgetpu.tflite in {nowhere} (no directory); there are no models"
        )

    def test_a_graph_that_must_be_compiled_first_is_refused_with_the_command(
        self, host: ModelHost, models: Path
    ) -> None:
        with pytest.raises(ModelUnsupportedError) as failure:
            host.load("uncompiled")
        assert str(failure.value) == (
            f"{models}/uncompiled.tflite is not compiled for the Edge TPU; "
            f"run: {compile_command(models / 'uncompiled.tflite')}"
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

    def test_a_changed_file_is_reloaded(self, host: ModelHost, models: Path) -> None:
        before = host.load("plus")
        (models / "plus_edgetpu.tflite").write_bytes(b"changed")
        assert host.load("plus").sha256 != before.sha256

    def test_one_file_may_have_two_names(self, host: ModelHost) -> None:
        host.load("plus")
        host.load("plus", "again")
        assert [model.name for model in host.models()] == ["plus", "again"]

    def test_a_file_that_is_to_replace_another_is_queued(self, host: ModelHost, backend: FakeBackend) -> None:
        host.load("plus", "mine")
        backend.parsing.clear()
        model = host.submit_load("other", "mine")
        assert (model.state, model.path.name) == (ModelState.QUEUED, "other_edgetpu.tflite")
        assert host.model("mine").path.name == "plus_edgetpu.tflite"
        backend.parsing.set()

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

    def test_models_beyond_those_that_may_wait_to_be_loaded_are_refused(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        for _ in range(100):
            host.submit_load("plus")
        with pytest.raises(BusyError, match="100 models wait to be loaded; try again in 1 s") as refused:
            host.submit_load("other")
        backend.parsing.set()
        assert refused.value.retry_after == 1.0

    def test_a_client_with_many_models_to_load_keeps_no_other_waiting(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        loaded: queue.SimpleQueue[str] = queue.SimpleQueue()
        for number in range(99):
            host.submit_load("plus", f"a{number}", lambda _: loaded.put("/many"), client="/many")
        host.submit_load("other", "b", lambda _: loaded.put("/other"), client="/other")
        backend.parsing.set()
        order = [loaded.get(timeout=PATIENCE) for _ in range(100)]
        assert order.index("/other") <= 2

    def test_a_pipeline_without_segments_is_refused_at_once(self, host: ModelHost) -> None:
        with pytest.raises(InputError, match="expected a model, or the segments of one; got none"):
            host.submit_load([])
        assert host.models() == ()

    def test_a_pipeline_of_too_many_segments_is_refused_at_once(self, host: ModelHost) -> None:
        with pytest.raises(InputError, match="at most 64 segments; got 100000"):
            host.submit_load(["absent"] * 100_000)

    @pytest.mark.parametrize("name", [" ", "../weird name", "two words", "-x", "\n", "a" * 1001])
    def test_a_name_with_invalid_characters_is_refused(self, host: ModelHost, name: str) -> None:
        with pytest.raises(InputError, match="expected a name of at most 1000 letters, digits and"):
            host.load("plus", name)

    def test_the_longest_name_is_a_name(self, host: ModelHost) -> None:
        assert host.load("plus", "a" * 1000).name == "a" * 1000

    def test_a_name_may_begin_like_that_of_a_hidden_node(self, host: ModelHost) -> None:
        assert host.load("plus", "_node/plus").name == "_node/plus"

    def test_an_unloaded_model_is_unknown(self, host: ModelHost, backend: FakeBackend) -> None:
        host.load("plus")
        host.load("other")
        host.unload("plus")
        host.refresh()  # waits for the thread of the device
        assert backend.closed == [b"plus_edgetpu"]
        with pytest.raises(ModelNotFoundError) as failure:
            host.invoke("plus", ONES)
        assert str(failure.value) == "no model 'plus' is loaded; loaded: other"

    def test_a_request_for_a_model_that_was_replaced_since_it_was_found_is_not_run_on_the_other(
        self, host: ModelHost
    ) -> None:
        host.load("plus", "name")
        found = host.model("name")
        host.load("other", "name")
        with pytest.raises(ModelNotFoundError, match="model 'name' was unloaded meanwhile"):
            host.submit_invoke(found, ONES, lambda _answer: None)


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
        assert first.latency_p50 == first.latency_p99 >= duration
        assert 0 < first.utilisation <= 1
        assert np.isnan(second.latency_p50)
        assert second.utilisation == 0

    def test_registers_are_those_of_a_device_that_is_there(self, host: ModelHost) -> None:
        assert [register.value for register in host.registers()] == [5]
        host.reset()
        assert host.registers() == ()
