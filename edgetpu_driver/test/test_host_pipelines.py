"""Pipelines on several sticks, and uploads: segments are spread, and requests wait for those in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests import request_queue
from edgetpu_driver.host.requests.request_terms import Priority, RequestTerms
from edgetpu_driver.host.sticks import stick_slot
from edgetpu_driver.host.sticks.model_spreading import Spreading, resident_together, stages
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.subgraph_extraction import extract
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import memory_rows, pack
from testdata import GOLDEN
from testdata.devices.virtual_backend import backend_of
from testdata.graphs.pipelines import compile_pipeline
from testdata.timeouts import PATIENCE

RNG = np.random.default_rng(5)
SIZE = 64
IN_FLIGHT = 16
TOKEN = 77


def chain(count: int) -> bytes:
    """Matrices of 64 x 64 in int8, from "x0" to "x<count>"."""
    builder = GraphBuilder("chain")
    value = builder.input("x0", (1, SIZE), np.int8, scale=0.5, zero_point=0)
    for number in range(count):
        weights = np.random.default_rng(number).integers(-127, 128, (SIZE, SIZE))
        value = builder.fully_connected(
            value, weights, weight_scale=1 / 1024, scale=0.5, zero_point=0, name=f"x{number + 1}"
        )
    builder.output(value)
    return builder.build()


def write_segments(folder: Path, count: int, *, apart: bool = False) -> list[str]:
    """Compile a chain as a pipeline with one token; apart: so that all of it fits into one memory."""
    whole = chain(count)
    (folder / "chain.tflite").write_bytes(whole)
    names, row = [], 0
    for number in range(count):
        graph = extract(whole, [f"x{number}"], [f"x{number + 1}"])
        name = f"chain_segment_{number}_of_{count}"
        packed = pack(graph, name=name, token=TOKEN, first_row=row)
        row += memory_rows(graph) if apart else 0
        (folder / f"{name}_edgetpu.tflite").write_bytes(packed)
        names.append(name)
    return names


def make_host(
    folder: Path, count: int, spreading: Spreading = Spreading.REPLICATED
) -> tuple[list[VirtualEdgeTpu], ModelHost]:
    sticks = [VirtualEdgeTpu(ports=(number + 1,)) for number in range(count)]
    backends = [backend_of(stick) for stick in sticks]
    host = ModelHost(backends, [folder], spreading=spreading)
    host.connect()
    return sticks, host


def run_all(host: ModelHost, name: str, inputs: Sequence[Any]) -> list[Any]:
    """The answers to all requests, some of which are always under way."""
    answers: list[Any] = [None] * len(inputs)
    finished: SimpleQueue[int] = SimpleQueue()
    slots = threading.Semaphore(IN_FLIGHT)

    def done(number: int, answer: Any) -> None:
        assert answers[number] is None, "answered twice"
        answers[number] = answer
        slots.release()
        finished.put(number)

    for number, each in enumerate(inputs):
        assert slots.acquire(timeout=PATIENCE)
        host.submit_invoke(name, each, partial(done, number))
    for _ in inputs:
        finished.get(timeout=PATIENCE)
    return answers


def check(answers: Sequence[Any], inputs: Sequence[Any], graph: bytes) -> None:
    engine = CpuEngine(graph)
    for answer, each in zip(answers, inputs, strict=True):
        assert isinstance(answer, InferenceResult), answer
        for name, values in engine.run(each).items():
            np.testing.assert_array_equal(answer.outputs[name], values)


def vectors(count: int) -> list[dict[str, Any]]:
    return [{"x0": RNG.integers(-128, 128, (1, SIZE), np.int8)} for _ in range(count)]


class TestStages:
    @pytest.mark.parametrize(
        ("sizes", "sticks", "expected"),
        [
            ([5, 5, 5, 5], [0, 1, 2, 3], [[0], [1], [2], [3]]),
            ([5, 5, 5, 5], [4], [[4], [4], [4], [4]]),
            ([5, 5, 5, 5], [1, 3], [[1], [1], [3], [3]]),
            ([9, 1, 1, 7], [0, 1, 2], [[0], [1], [1], [2]]),
            ([1, 8], [0, 1, 2], [[0], [1, 2]]),
            ([1, 1], [0, 1, 2, 3], [[0, 1], [2, 3]]),
        ],
    )
    def test_work_is_divided(self, sizes: list[int], sticks: list[int], expected: list[list[int]]) -> None:
        assert stages(sizes, sticks) == expected

    def test_a_long_pipeline_is_divided_without_trying_every_division(self) -> None:
        """There are C(63, 7), half a billion, and all requests wait meanwhile."""
        assert stages([5] * 64, range(8)) == [[stage // 8] for stage in range(64)]

    def test_models_of_one_token_are_resident_together_unless_they_overlap(self) -> None:
        models = [("a", 7, 0b0011), ("b", 7, 0b0110), ("c", 7, 0b1000), ("d", 0, 0), ("e", 8, 0b1)]
        assert resident_together(models) == [["a", "c"], ["b"], ["d"], ["e"]]


class TestSeveralSticks:
    def test_each_segment_has_a_stick_of_its_own_and_is_uploaded_once(self, tmp_path: Path) -> None:
        names = write_segments(tmp_path, 4)
        _, host = make_host(tmp_path, 4)
        loaded = host.load(names)
        assert [part.sticks for part in loaded.device_parts] == [("2-1",), ("2-2",), ("2-3",), ("2-4",)]
        inputs = vectors(50)
        check(run_all(host, "chain", inputs), inputs, chain(4))
        host.refresh()
        assert [stick.inferences for stick in host.status().sticks] == [50] * 4
        assert [stick.readings.uploads for stick in host.status().sticks] == [1] * 4
        host.close()

    def test_segments_that_fit_into_one_memory_are_on_every_stick(self, tmp_path: Path) -> None:
        names = write_segments(tmp_path, 3, apart=True)
        _, host = make_host(tmp_path, 2)
        loaded = host.load(names)
        assert [part.sticks for part in loaded.device_parts] == [("2-1", "2-2")] * 3
        inputs = vectors(20)
        check(run_all(host, "chain", inputs), inputs, chain(3))
        host.refresh()
        assert all(stick.readings.uploads <= 3 for stick in host.status().sticks)
        host.close()

    def rate(self, folder: Path, names: list[str], count: int) -> float:
        """Requests by the largest of the simulated clocks."""
        sticks, host = make_host(folder, count)
        host.load(names)
        inputs = vectors(100)
        begun = [stick.clock.monotonic() for stick in sticks]
        run_all(host, "chain", inputs)
        elapsed = max(stick.clock.monotonic() - begin for stick, begin in zip(sticks, begun, strict=True))
        host.close()
        return len(inputs) / elapsed

    def test_four_segments_on_four_sticks_are_three_times_as_fast(self, tmp_path: Path) -> None:
        names = write_segments(tmp_path, 4)
        assert self.rate(tmp_path, names, 4) > 3 * self.rate(tmp_path, names, 1)

    @pytest.mark.parametrize("gone", range(3))
    def test_the_segment_of_a_stick_that_dies_moves_to_another(self, tmp_path: Path, gone: int) -> None:
        names = write_segments(tmp_path, 3)
        sticks, host = make_host(tmp_path, 3)
        loaded = host.load(names)
        inputs = vectors(60)
        unplugged: list[bool] = []

        def unplug_at(number: int, done: Callable[[Any], None], answer: Any) -> None:
            if number == 20:
                sticks[gone].unplug()
                unplugged.append(True)
            done(answer)

        answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        for number, each in enumerate(inputs):
            host.submit_invoke(
                "chain", each, partial(unplug_at, number, lambda answer, n=number: answers.put((n, answer)))
            )
        got = dict(answers.get(timeout=PATIENCE) for _ in inputs)
        assert unplugged == [True]
        check([got[number] for number in range(len(inputs))], inputs, chain(3))
        left = [stick for number, stick in enumerate(("2-1", "2-2", "2-3")) if number != gone]
        more = vectors(3)
        check(run_all(host, "chain", more), more, chain(3))
        assert sorted({path for part in loaded.device_parts for path in part.sticks}) == left
        host.close()

    def test_a_stick_that_returns_takes_its_segment_again(self, tmp_path: Path) -> None:
        names = write_segments(tmp_path, 2)
        sticks, host = make_host(tmp_path, 2)
        loaded = host.load(names)
        sticks[1].unplug()
        host.refresh()
        inputs = vectors(1)
        check(run_all(host, "chain", inputs), inputs, chain(2))
        assert [part.sticks for part in loaded.device_parts] == [("2-1",), ("2-1",)]
        sticks[1].plug()
        host.connect()
        inputs = vectors(10)
        check(run_all(host, "chain", inputs), inputs, chain(2))
        assert [part.sticks for part in loaded.device_parts] == [("2-1",), ("2-2",)]
        host.close()

    def test_spread_models_next_to_a_pipeline_stay_where_they_are(self, tmp_path: Path) -> None:
        names = write_segments(tmp_path, 2)
        (tmp_path / "other.tflite").write_bytes(chain(1))
        _, host = make_host(tmp_path, 2, Spreading.SPREAD)
        loaded, other = host.load(names), host.load("other")
        assert [part.sticks for part in loaded.device_parts] == [("2-1",), ("2-2",)]
        assert len(other.sticks) == 1
        inputs = vectors(5)
        check(run_all(host, "other", inputs), inputs, chain(1))
        host.close()


class TestRealGraphs:
    @pytest.mark.parametrize("sticks", [1, 4])
    def test_a_mobilenet_in_four_segments_gives_what_litert_gives(self, tmp_path: Path, sticks: int) -> None:
        graph = GOLDEN.path("vision/mobilenet_v1_0.25_128_quant.tflite").read_bytes()
        files = compile_pipeline(graph, 4, "mobilenet")
        for name, data in files.items():
            (tmp_path / name).write_bytes(data)
        (tmp_path / "mobilenet.tflite").write_bytes(graph)
        _, host = make_host(tmp_path, sticks)
        loaded = host.load(list(files))
        assert loaded.name == "mobilenet"
        inputs = [{"input": RNG.integers(0, 256, (1, 128, 128, 3), np.uint8)} for _ in range(4)]
        check(run_all(host, "mobilenet", inputs), inputs, graph)
        host.close()


class TestUploads:
    @pytest.fixture
    def patient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Requests are passed over, and left to a busy stick, for as long as the test takes."""
        monkeypatch.setattr(request_queue, "STAY", dict.fromkeys(Priority, PATIENCE))
        monkeypatch.setattr(request_queue, "LONGEST_NEGLECT", PATIENCE)
        monkeypatch.setattr(stick_slot, "STUCK_SECONDS", PATIENCE)

    def two_models(self, folder: Path) -> ModelHost:
        for name in ("one", "two"):
            (folder / f"{name}.tflite").write_bytes(chain(1))
            (folder / f"{name}_edgetpu.tflite").write_bytes(
                pack(chain(1), name=name, token=1 + (name == "two"))
            )
        _, host = make_host(folder, 1)
        for name in ("one", "two"):
            host.load(name)
        return host

    @contextmanager
    def waiting(self, host: ModelHost) -> Iterator[None]:
        """Requests that are submitted inside wait together for its end."""
        gate, begun = threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            assert gate.wait(PATIENCE)

        host._pool.workers[0].post(hold)
        assert begun.wait(PATIENCE)
        yield
        gate.set()

    def mixed(self, host: ModelHost, terms: Callable[[int], RequestTerms]) -> list[str]:
        """The order in which twenty requests for two models in turns, which wait together, are answered."""
        order: SimpleQueue[str] = SimpleQueue()
        with self.waiting(host):
            for number in range(20):
                name = ("one", "two")[number % 2]
                host.submit_invoke(name, vectors(1)[0], lambda _, name=name: order.put(name), terms(number))
        return [order.get(timeout=PATIENCE) for _ in range(20)]

    @pytest.mark.usefixtures("patient")
    def test_requests_of_the_model_in_memory_go_first(self, tmp_path: Path) -> None:
        host = self.two_models(tmp_path)
        host.invoke("two", vectors(1)[0])
        assert self.mixed(host, lambda _: RequestTerms()) == ["two"] * 10 + ["one"] * 10
        assert (host.model("one").uploads, host.model("two").uploads) == (1, 1)
        assert host.status().uploads == {"one": 1, "two": 1}
        host.close()

    @pytest.mark.usefixtures("patient")
    def test_models_in_turns_settle_on_sticks_of_their_own(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            (tmp_path / f"{name}.tflite").write_bytes(chain(1))
            (tmp_path / f"{name}_edgetpu.tflite").write_bytes(
                pack(chain(1), name=name, token=1 + (name == "two"))
            )
        _, host = make_host(tmp_path, 2)
        models = [host.load(name) for name in ("one", "two")]
        for _ in range(10):
            for model in models:
                host.invoke(model.name, vectors(1)[0])
        assert [model.uploads for model in models] == [1, 1]
        assert [stick.inferences for stick in host.status().sticks] == [10, 10]
        host.close()

    @pytest.mark.usefixtures("patient")
    def test_priority_goes_before_memory(self, tmp_path: Path) -> None:
        host = self.two_models(tmp_path)
        host.invoke("two", vectors(1)[0])

        def terms(number: int) -> RequestTerms:
            return RequestTerms(priority=Priority.NORMAL if number % 2 else Priority.REAL_TIME)

        assert self.mixed(host, terms) == ["one"] * 10 + ["two"] * 10
        host.close()

    @pytest.mark.usefixtures("patient")
    def test_a_pipeline_on_one_stick_uploads_its_segments_once_for_all_that_waits(
        self, tmp_path: Path
    ) -> None:
        names = write_segments(tmp_path, 3)
        _, host = make_host(tmp_path, 1)
        loaded = host.load(names)
        inputs, answers = vectors(IN_FLIGHT), SimpleQueue[tuple[int, Any]]()
        with self.waiting(host):
            for number, each in enumerate(inputs):
                host.submit_invoke("chain", each, lambda answer, n=number: answers.put((n, answer)))
        got = dict(answers.get(timeout=PATIENCE) for _ in inputs)
        check([got[number] for number in range(IN_FLIGHT)], inputs, chain(3))
        assert loaded.uploads == 3
        host.close()

    def test_uploads_to_a_stick_that_was_lost_still_count(self, tmp_path: Path) -> None:
        (tmp_path / "one.tflite").write_bytes(chain(1))
        sticks, host = make_host(tmp_path, 1)
        host.load("one")
        host.invoke("one", vectors(1)[0])
        sticks[0].unplug()
        host.refresh()
        sticks[0].plug()
        host.connect()
        host.invoke("one", vectors(1)[0])
        assert host.status().uploads == {"one": 2}
        host.close()
