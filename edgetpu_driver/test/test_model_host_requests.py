"""Requests of several clients to a host: their order, what is admitted, who owns a model."""

from __future__ import annotations

import queue
import threading
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.engines.divisible_work import Pieces
from edgetpu_driver.errors import (
    BusyError,
    InputError,
    ModelFormatError,
    ModelNotFoundError,
    OwnershipError,
    UnavailableError,
)
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.hosted_model import HostedModel, ModelState
from edgetpu_driver.host.models.model_replica import ModelReplica
from edgetpu_driver.host.requests.request import Kind, Request
from edgetpu_driver.host.requests.request_terms import NORMAL_TERMS, Priority, RequestTerms
from edgetpu_driver.host.shared_inference.shared_inference import SharedInference
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata.devices.fake_device import ONES, FakeBackend
from testdata.timeouts import PATIENCE


class TestOrder:
    def order(self, host: ModelHost, backend: FakeBackend) -> list[str]:
        """The clients of six requests, one of them bulk, in the order of their answers."""
        host.load("plus")
        backend.hold()
        answers: queue.SimpleQueue[str] = queue.SimpleQueue()

        def ask(client: str, priority: Priority) -> None:
            terms = RequestTerms(client, priority)
            host.submit_invoke("plus", ONES, lambda _answer: answers.put(client), terms)

        ask("flood", Priority.NORMAL)
        assert backend.begun.wait(PATIENCE)
        for _ in range(4):
            ask("flood", Priority.NORMAL)
        ask("bulk", Priority.BULK)
        backend.release.set()
        return [answers.get(timeout=PATIENCE) for _ in range(6)]

    def test_bulk_work_comes_last(
        self, host: ModelHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("edgetpu_driver.host.requests.waiting_requests.PATIENCE", inf)
        monkeypatch.setattr("edgetpu_driver.host.requests.request_queue.LONGEST_NEGLECT", inf)
        assert self.order(host, backend)[-1] == "bulk"

    def test_bulk_work_that_has_waited_long_enough_takes_its_turn(
        self, host: ModelHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("edgetpu_driver.host.requests.waiting_requests.PATIENCE", 0.0)
        assert self.order(host, backend)[-1] == "flood"

    def test_long_work_lets_later_requests_of_its_client_run(
        self, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("edgetpu_driver.host.sticks.scheduler.QUANTUM", 0.0)
        model = host.load("plus")
        begun, asked = threading.Event(), threading.Event()
        inferences: queue.SimpleQueue[Any] = queue.SimpleQueue()
        remaining: queue.SimpleQueue[int] = queue.SimpleQueue()

        def pieces(_replica: ModelReplica) -> Pieces[int]:
            begun.set()
            assert asked.wait(PATIENCE)
            for left in range(1000, 0, -1):
                if not inferences.empty():
                    return left
                yield None
            return 0

        host._scheduler.submit(Request.of(NORMAL_TERMS, model, Kind.MULTIPLY, pieces, remaining.put))
        assert begun.wait(PATIENCE)
        host.submit_invoke("plus", ONES, inferences.put)
        asked.set()
        assert remaining.get(timeout=PATIENCE) == 999


class TestAdmission:
    def test_a_client_with_too_many_waiting_requests_learns_when_to_retry(
        self, backend: FakeBackend, models: Path
    ) -> None:
        host = ModelHost(backend, [models], limits=ClientLimits(waiting_per_client=2, waiting=3))
        host.connect()
        host.load("plus")
        backend.hold()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def ask(client: str) -> None:
            host.submit_invoke("plus", ONES, answers.put, RequestTerms(client))

        ask("/running")
        assert backend.begun.wait(PATIENCE)
        ask("/a")
        ask("/a")
        with pytest.raises(BusyError, match="2 requests of '/a' wait") as refusal:
            ask("/a")
        assert refusal.value.retry_after > 0
        ask("/b")
        with pytest.raises(BusyError, match="3 requests wait"):
            ask("/b")
        assert (host.status().waiting, host.status().refused) == (3, 2)
        backend.release.set()
        for _ in range(4):
            assert answers.get(timeout=PATIENCE).outputs["output"].tolist() == [[2, 2, 2, 2]]

    def test_inputs_for_a_model_that_is_loaded_just_now_are_checked(
        self, host: ModelHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def once_loaded(model: HostedModel, _terms: RequestTerms) -> bool:
            backend.parsing.set()
            while model.state is not ModelState.LOADED:
                pass
            return True

        monkeypatch.setattr(SharedInference, "can_share", staticmethod(once_loaded))
        backend.parsing.clear()
        host.submit_load("plus")
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        host.submit_invoke("plus", {"wrong": np.zeros(3)}, answers.put, RequestTerms("/a"))
        backend.parsing.set()
        assert isinstance(answers.get(timeout=PATIENCE), InputError)

    def test_loaded_models_are_limited_in_number_and_size(self, backend: FakeBackend, models: Path) -> None:
        limits = ClientLimits(models=2, model_bytes=len(b"plus_edgetpu") + len(b"other_edgetpu"))
        host = ModelHost(backend, [models], limits=limits)
        host.load("plus")
        (models / "more_edgetpu.tflite").write_bytes(b"other_edgetpu+")
        with pytest.raises(BusyError, match="at most 25 bytes"):
            host.load("more")
        host.load("other")
        with pytest.raises(BusyError, match="at most 2 loaded models"):
            host.load("plus", "again")
        host.unload("other")

    def test_models_that_are_being_loaded_count_for_the_limit_of_size(
        self, backend: FakeBackend, models: Path
    ) -> None:
        host = ModelHost(backend, [models], limits=ClientLimits(model_bytes=len(b"other_edgetpu") + 1))
        backend.parsing.clear()
        host.submit_load("plus")
        with pytest.raises(BusyError, match="with this one they have 25"):
            host.submit_load("other")
        backend.parsing.set()

    def test_a_model_that_could_not_be_loaded_does_not_count_for_the_limit_of_size(
        self, backend: FakeBackend, models: Path
    ) -> None:
        host = ModelHost(backend, [models], limits=ClientLimits(model_bytes=len(b"plus_edgetpu")))
        with pytest.raises(ModelFormatError):
            host.load("broken")
        assert host.load("plus").state is ModelState.LOADED

    def test_a_model_that_replaces_a_smaller_one_is_limited_in_size(
        self, backend: FakeBackend, models: Path
    ) -> None:
        host = ModelHost(backend, [models], limits=ClientLimits(model_bytes=len(b"plus_edgetpu")))
        host.load("plus", "mine")
        with pytest.raises(BusyError, match="with this one they have 13"):
            host.load("other", "mine")
        assert host.model("mine").path.name == "plus_edgetpu.tflite"

    def test_a_file_that_has_grown_while_it_was_queued_is_limited_in_size(
        self, backend: FakeBackend, models: Path
    ) -> None:
        host = ModelHost(backend, [models], limits=ClientLimits(model_bytes=2 * len(b"other_edgetpu")))
        backend.parsing.clear()
        host.submit_load("plus")
        outcome: queue.SimpleQueue[Any] = queue.SimpleQueue()
        host.submit_load("other", done=outcome.put)
        (models / "other_edgetpu.tflite").write_bytes(bytes(100))
        backend.parsing.set()
        assert isinstance(outcome.get(timeout=PATIENCE), BusyError)

    def test_large_products_are_refused(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(InputError, match="a batch of 1 to 65536 vectors; got 65537"):
            host.multiply("plus", ProductRequest(np.ones(4), batch=65537))
        with pytest.raises(InputError, match="a batch of 1 to 65536 vectors; got 0"):
            host.multiply("plus", ProductRequest(np.ones(0), batch=0))
        with pytest.raises(InputError, match="1 to 64 passes"):
            host.multiply("plus", ProductRequest(np.ones(4), passes=65))
        with pytest.raises(
            InputError,
            match="at most 2097152 inferences; 32769 vectors, 64 passes and 1 tiles take 2097216: send fewer",
        ):
            host.multiply("plus", ProductRequest(np.ones(4 * 32769), batch=32769, passes=64))


class TestOwnership:
    def test_another_client_may_use_a_model_but_not_change_it(self, host: ModelHost) -> None:
        host.load("plus", client="/owner")
        assert host.load("plus", client="/other").owner == "/owner"
        host.invoke("plus", ONES, RequestTerms("/other"))
        weights = WeightRequest(np.ones((1, 1), np.float32))
        with pytest.raises(OwnershipError, match="belongs to '/owner'"):
            host.set_weights("plus", weights, RequestTerms("/other"))
        with pytest.raises(OwnershipError):
            host.unload("plus", "/other")
        with pytest.raises(OwnershipError):
            host.load("other", "plus", client="/other")
        host.unload("plus", "/owner")

    def test_a_shared_model_may_be_changed_by_all(self, host: ModelHost) -> None:
        host.load("plus", client="/owner", shared=True)
        changed = host.load("other", "plus", client="/other")
        assert [path.stem for path in changed.paths] == ["other_edgetpu"]
        host.unload("plus", "/third")
        assert host.models() == ()

    def test_a_model_that_cannot_run_stays_its_owners_when_another_client_loads_it(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.deaths = 2
        host.load("plus", client="/owner")
        again = host.load("plus", client="/other", shared=True)
        assert (again.unsupported_reason, again.owner, again.shared) == ("", "/owner", False)
        with pytest.raises(OwnershipError, match="belongs to '/owner'"):
            host.unload("plus", "/other")

    def test_a_queued_model_stays_its_owners_when_another_clients_turn_comes_first(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        host.submit_load("other")
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for name, client in (("first", "/owner"), ("mine", "/owner"), ("mine", "/other")):
            host.submit_load("plus", name, answers.put, client=client)
        backend.parsing.set()
        models = [answers.get(timeout=PATIENCE) for _ in range(3)]
        assert [(model.name, model.owner) for model in models] == [
            ("first", "/owner"),
            ("mine", "/owner"),
            ("mine", "/owner"),
        ]
        assert models[1] is models[2] is host.model("mine")

    def test_anonymous_clients_are_one(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(OwnershipError, match="belongs to an anonymous client"):
            host.unload("plus", "/named")
        host.unload("plus")


class TestQueuedModels:
    def test_a_model_that_cannot_be_read_is_listed_as_failed_and_can_be_reloaded(
        self, host: ModelHost, models: Path
    ) -> None:
        with pytest.raises(ModelFormatError):
            host.load("broken")
        broken = host.model("broken")
        assert (broken.state, broken.message) == (ModelState.FAILED, "broken_edgetpu.tflite: broken")
        with pytest.raises(ModelFormatError):
            host.invoke("broken", ONES)
        (models / "broken_edgetpu.tflite").write_bytes(b"mended")
        assert host.load("broken").state is ModelState.LOADED

    def test_requests_that_wait_for_a_model_that_fails_get_its_error(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        assert host.submit_load("broken").state is ModelState.QUEUED
        host.submit_invoke("broken", ONES, answers.put)
        backend.parsing.set()
        assert isinstance(answers.get(timeout=PATIENCE), ModelFormatError)

    def test_a_model_that_is_being_loaded_has_the_tensors_of_its_file(
        self, host: ModelHost, backend: FakeBackend, models: Path
    ) -> None:
        builder = GraphBuilder()
        image = builder.input("image", (1, 4), np.int8, scale=1.0, zero_point=0)
        weights = np.ones((2, 4), np.int8)
        builder.output(
            builder.fully_connected(image, weights, weight_scale=1.0, scale=1.0, zero_point=0, name="sums")
        )
        (models / "graph_edgetpu.tflite").write_bytes(builder.build())
        backend.parsing.clear()
        queued = host.submit_load("graph")
        assert queued.state is ModelState.QUEUED
        backend.parsing.set()
        (numbers,), (sums,) = queued.tensors_of_file
        assert (numbers.name, numbers.shape, sums.name, sums.shape) == ("image", (1, 4), "sums", (1, 2))

    def test_the_death_of_a_process_while_a_model_is_attached_is_met_with_a_second_try(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.deaths = 1
        host.load("plus")
        assert host.invoke("plus", ONES).outputs["output"].tolist() == [[2, 2, 2, 2]]

    def test_a_graph_whose_process_dies_twice_is_loaded_and_says_so(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.deaths = 2
        loaded = host.load("plus")
        assert (loaded.state, loaded.message) == (ModelState.LOADED, "the process that runs the graph died")

    def test_models_that_failed_take_no_place_of_others(self, backend: FakeBackend, models: Path) -> None:
        host = ModelHost(backend, [models], limits=ClientLimits(models=2))
        for number in range(3):
            with pytest.raises(ModelFormatError):
                host.load("broken", f"broken_{number}", client="/careless")
        host.load("plus", client="/other")
        host.load("other", client="/other")
        assert [model.name for model in host.models()] == ["plus", "other"]

    def test_of_the_models_that_failed_the_last_ones_are_listed(
        self, backend: FakeBackend, models: Path
    ) -> None:
        host = ModelHost(backend, [models], limits=ClientLimits(models=2))
        for number in range(3):
            with pytest.raises(ModelFormatError):
                host.load("broken", f"broken_{number}")
        assert [model.name for model in host.models()] == ["broken_1", "broken_2"]

    def test_models_that_failed_are_not_named_as_loaded(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(ModelFormatError):
            host.load("broken")
        with pytest.raises(ModelNotFoundError) as failure:
            host.model("other")
        assert str(failure.value) == "no model 'other' is loaded; loaded: plus"

    def test_a_model_that_failed_can_be_unloaded(self, host: ModelHost) -> None:
        with pytest.raises(ModelFormatError):
            host.load("broken")
        host.unload("broken")
        assert host.models() == ()

    def test_a_model_can_be_unloaded_while_it_is_being_loaded(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        loaded: queue.SimpleQueue[Any] = queue.SimpleQueue()
        host.submit_load("plus", done=loaded.put)
        host.submit_invoke("plus", ONES, answers.put)
        host.unload("plus")
        backend.parsing.set()
        assert isinstance(loaded.get(timeout=PATIENCE), ModelNotFoundError)
        assert isinstance(answers.get(timeout=PATIENCE), ModelNotFoundError)

    def test_what_is_being_loaded_when_the_host_ends_is_refused(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        loaded: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for name in ("first", "second"):
            host.submit_load("plus", name, loaded.put)
        host.end()
        backend.parsing.set()
        for _ in range(2):
            answer = loaded.get(timeout=PATIENCE)
            assert (type(answer), str(answer)) == (UnavailableError, "the driver is being shut down")
        assert host.models() == ()

    def test_requests_that_wait_for_a_model_run_when_it_is_loaded(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        host.submit_load("plus")
        host.submit_invoke("plus", ONES, answers.put)
        backend.parsing.set()
        assert answers.get(timeout=PATIENCE).outputs["output"].tolist() == [[2, 2, 2, 2]]
