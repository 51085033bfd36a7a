"""Files that do not answer hold up nobody who needs them for long, and nobody else at all."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.backends import usb
from edgetpu_driver.errors import BusyError, ModelFormatError
from edgetpu_driver.files import detached_reading
from edgetpu_driver.files.detached_reading import DetachedReading, no_answer
from edgetpu_driver.files.file_access import read_file
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights import sidecar_files
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata.devices.hosted_matrix import SIZE
from testdata.devices.virtual_backend import backend_of
from testdata.timeouts import PATIENCE

HALVES = WeightRequest(np.full((SIZE, SIZE), 0.5, np.float32))
THEY = partial(no_answer, "they")
VECTOR = ProductRequest(np.ones(SIZE))


class TestReading:
    def test_what_is_read_in_time_is_given_and_read_again_for_the_next_caller(self) -> None:
        numbers = iter(range(2))
        reading = DetachedReading(lambda: next(numbers), THEY, PATIENCE)
        assert [reading.result(), reading.result()] == [0, 1]

    def test_what_it_raises_is_raised_and_not_kept(self) -> None:
        outcomes: list[int | ModelFormatError] = [5, ModelFormatError("damaged")]

        def read() -> int:
            outcome = outcomes.pop()
            if isinstance(outcome, ModelFormatError):
                raise outcome
            return outcome

        reading = DetachedReading(read, THEY, PATIENCE)
        with pytest.raises(ModelFormatError, match="damaged"):
            reading.result()
        assert reading.result() == 5

    def test_the_error_of_a_request_to_stop_ends_the_wait(self) -> None:
        finish, stop = threading.Event(), Future[None]()

        def read() -> int:
            stop.set_exception(RuntimeError("stopped"))
            finish.wait(PATIENCE)
            return 5

        reading = DetachedReading(read, THEY, PATIENCE)
        with pytest.raises(RuntimeError, match="stopped"):
            reading.result(stop)
        finish.set()
        assert reading.result() == 5
        assert DetachedReading(lambda: 6, THEY, PATIENCE).result(Future()) == 6

    def test_an_error_that_was_raised_is_freed_at_once(self) -> None:
        """With what its frames refer to, such as the content of a damaged file."""
        made: list[weakref.ref[ModelFormatError]] = []

        def damaged() -> ModelFormatError:
            error = ModelFormatError("damaged")
            made.append(weakref.ref(error))
            return error

        def read() -> int:
            raise damaged()

        collects, reading = gc.isenabled(), DetachedReading(read, THEY, PATIENCE)
        gc.disable()
        try:
            with suppress(ModelFormatError):
                reading.result()
            for thread in threading.enumerate():
                if thread.name == "edgetpu files":
                    thread.join()
            assert made[0]() is None
        finally:
            if collects:
                gc.enable()

    def test_what_takes_too_long_is_read_once_and_given_to_who_asks_afterwards(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(detached_reading, "LONGEST", 0.05)
        begun, answers = SimpleQueue[int](), threading.Event()

        def read() -> int:
            begun.put(1)
            answers.wait(PATIENCE)
            return 5

        reading = DetachedReading(read, partial(no_answer, "the files next to x"))
        for _ in range(2):
            with pytest.raises(BusyError) as busy:
                reading.result()
        assert str(busy.value) == "the files next to x do not answer; try again in 1 s"
        assert busy.value.retry_after == 1.0
        begun.get(timeout=PATIENCE)  # the thread may start late
        answers.set()
        monkeypatch.setattr(detached_reading, "LONGEST", PATIENCE)
        reading._give_up += PATIENCE
        assert (reading.result(), begun.qsize()) == (5, 0)

    def test_without_another_thread_the_caller_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert DetachedReading(threading.current_thread, THEY).result() is threading.current_thread()


@pytest.mark.usefixtures("graphs_in_this_process")
class TestHost:
    @pytest.fixture
    def host(self, tmp_path: Path) -> Iterator[ModelHost]:
        """A host with the compiled model "far", and with "near", whose graph needs no files any more."""
        pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")
        graph = dense.build(SIZE)
        (tmp_path / "near.tflite").write_bytes(graph)
        (tmp_path / "far.tflite").write_bytes(graph)
        (tmp_path / "far_edgetpu.tflite").write_bytes(pack(graph, name="far"))
        host = ModelHost(backend_of(VirtualEdgeTpu()), [tmp_path])
        host.connect()
        host.load("near")
        host.load("far")
        yield host
        host.close()

    @pytest.fixture
    def answers_again(self, host: ModelHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:  # noqa: ARG002
        """Until this is set, the directory of the models does not answer."""
        event = threading.Event()

        def hanging(read: Any) -> Any:
            def wait(path: Path) -> Any:
                event.wait(PATIENCE)
                return read(path)

            return wait

        monkeypatch.setattr(detached_reading, "LONGEST", 0.05)
        monkeypatch.setattr(sidecar_files, "read_file", hanging(read_file))
        monkeypatch.setattr(usb, "_parts_of", hanging(usb._parts_of))
        yield event
        event.set()

    @pytest.mark.usefixtures("answers_again")
    def test_what_needs_the_files_is_answered_busy_and_other_models_are_served(self, host: ModelHost) -> None:
        with pytest.raises(BusyError, match=r"the files next to far_edgetpu\.tflite do not answer"):
            host.set_weights("far", HALVES)
        with pytest.raises(BusyError, match=r"the files next to far_edgetpu\.tflite do not answer"):
            host.multiply("far", VECTOR)
        assert host.set_weights("near", HALVES).version == 1
        assert host.multiply("near", VECTOR).weights_version == 1

    def test_weights_are_set_once_they_answer(
        self, host: ModelHost, answers_again: threading.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(BusyError):
            host.set_weights("far", HALVES)
        answers_again.set()
        monkeypatch.setattr(detached_reading, "LONGEST", PATIENCE)
        while True:
            try:
                assert host.set_weights("far", HALVES).version == 1
                break
            except BusyError:  # the files have just been read
                continue

    def test_weights_come_back_with_the_stick_though_the_files_do_not_answer(
        self, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host.set_weights("far", HALVES)
        monkeypatch.setattr(sidecar_files, "read_file", None)
        host.reset()
        host.connect()
        assert host.multiply("far", VECTOR).weights_version == 1

    @pytest.mark.usefixtures("answers_again")
    def test_a_stick_does_not_wait_for_a_copy_of_a_model(self, host: ModelHost) -> None:
        host.load("far", "again")
        product = host.multiply("near", VECTOR)
        assert product.weights_version == 0
