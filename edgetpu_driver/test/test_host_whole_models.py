"""Whole models on a host: steps on sticks and on the CPU, as one request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.backends.virtual import VirtualStickBackend
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import (
    BusyError,
    ExpiredError,
    InputError,
    ModelFormatError,
    ModelUnsupportedError,
)
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.hosted_model import ModelState
from edgetpu_driver.host.requests.request_terms import RequestTerms
from edgetpu_driver.virtual import VirtualEdgeTpu
from testdata.devices.hosted_whole_models import IMAGE, SEGMENTS, by_litert, check_same
from testdata.devices.virtual_backend import backend_of
from testdata.graphs.compiled_graphs import segments, source_graph
from testdata.timeouts import PATIENCE

RNG = np.random.default_rng(14)


@pytest.fixture
def parsing(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Files are parsed once this is set."""
    gate, parse = threading.Event(), VirtualStickBackend.parse

    def slow_parse(backend: VirtualStickBackend, path: Path, data: bytes) -> Any:
        assert gate.wait(PATIENCE)
        return parse(backend, path, data)

    monkeypatch.setattr(VirtualStickBackend, "parse", slow_parse)
    return gate


def await_turn(host: ModelHost) -> None:
    """Wait until no request waits: the CPU, which may still be occupied with loading, runs the last one."""
    while host.status().waiting:
        time.sleep(0.001)


@pytest.mark.usefixtures("graphs_in_this_process")
class TestResults:
    @pytest.mark.parametrize(("name", "parts"), [("parts", 2), ("one", 1)])
    def test_they_are_those_of_the_graph_in_its_order(
        self, whole_model_host: ModelHost, name: str, parts: int
    ) -> None:
        loaded = whole_model_host.load(f"{name}_edgetpu")
        assert [str(spec) for spec in loaded.inputs] == ["'image' uint8[1, 8]"]
        assert [str(spec) for spec in loaded.outputs] == ["'b0' int8[1, 8]", "'last' uint8[1, 8]"]
        check_same(whole_model_host.invoke(name, IMAGE).outputs, by_litert(source_graph(parts), IMAGE))

    def test_a_result_tells_the_file_and_the_time_of_all_steps(self, whole_model_host: ModelHost) -> None:
        loaded = whole_model_host.load("parts_edgetpu")
        whole = whole_model_host.invoke("parts", IMAGE)
        first = whole_model_host.invoke("parts", {"a0": np.zeros((1, 8), np.int8)}, part=1)
        assert whole.model_sha256 == loaded.sha256
        assert whole.device_duration > first.device_duration > 0
        assert (whole.part, first.part) == (0, 1)

    @pytest.mark.parametrize(("part", "source", "result"), [(1, "a0", "b0"), (2, "a1", "b1")])
    def test_a_part_alone_has_the_inner_tensors(
        self, whole_model_host: ModelHost, part: int, source: str, result: str
    ) -> None:
        from edgetpu_driver.tflite.subgraph_extraction import extract

        whole_model_host.load("parts_edgetpu")
        inputs = {source: RNG.integers(-128, 128, (1, 8), np.int8)}
        expected = by_litert(extract(source_graph(2), [source], [result]), inputs)
        check_same(whole_model_host.invoke("parts", inputs, part=part).outputs, expected)

    @pytest.mark.parametrize("part", [-1, 3])
    def test_a_part_that_is_not_there_is_refused(self, whole_model_host: ModelHost, part: int) -> None:
        whole_model_host.load("parts_edgetpu")
        with pytest.raises(InputError, match=f"expected part 1 to 2 of 'parts', or 0 .*; got {part}"):
            whole_model_host.invoke("parts", IMAGE, part=part)

    def test_wrong_inputs_are_refused_at_once(self, whole_model_host: ModelHost) -> None:
        whole_model_host.load("parts_edgetpu")
        with pytest.raises(InputError, match=r"expected 'image' uint8\[1, 8\]; got uint8\[8\]"):
            whole_model_host.invoke("parts", {"image": np.zeros(8, np.uint8)})

    def test_a_plain_graph_of_which_the_chip_can_have_nothing_runs_on_the_cpu(
        self, whole_model_host: ModelHost, whole_models: Path
    ) -> None:
        from edgetpu_driver.tflite.graph_builder import GraphBuilder

        builder = GraphBuilder("pair")
        x = builder.input("x", (2, 2), np.uint8, scale=0.5, zero_point=128)
        builder.output(builder.quantize(x, np.int8, scale=0.5, zero_point=0, name="y"))
        (whole_models / "pair.tflite").write_bytes(builder.build())
        loaded = whole_model_host.load("pair")
        assert [part.on_device for part in loaded.parts] == [False]
        values = {"x": np.array([[128, 129], [0, 255]], np.uint8)}
        assert whole_model_host.invoke("pair", values).outputs["y"].tolist() == [[0, 1], [-128, 127]]


@pytest.mark.usefixtures("graphs_in_this_process")
class TestPipelines:
    def test_segments_are_one_model(self, whole_model_host: ModelHost) -> None:
        loaded = whole_model_host.load(SEGMENTS)
        assert (loaded.name, len(loaded.paths)) == ("chain", 3)
        x = {"x0": RNG.integers(-128, 128, (1, 8), np.int8)}
        check_same(whole_model_host.invoke("chain", x).outputs, by_litert(segments(3)[0], x))

    def test_the_graph_of_each_segment_serves_as_well(
        self, whole_model_host: ModelHost, whole_models: Path
    ) -> None:
        from edgetpu_driver.tflite.subgraph_extraction import extract

        whole = (whole_models / "chain.tflite").read_bytes()
        (whole_models / "chain.tflite").unlink()
        for number, name in enumerate(SEGMENTS):
            graph = extract(whole, [f"x{number}"], [f"x{number + 1}"])
            (whole_models / f"{name}.tflite").write_bytes(graph)
        whole_model_host.load(SEGMENTS)
        x = {"x0": RNG.integers(-128, 128, (1, 8), np.int8)}
        check_same(whole_model_host.invoke("chain", x).outputs, by_litert(whole, x))

    def test_without_any_graph_the_reason_is_given(
        self, whole_model_host: ModelHost, whole_models: Path
    ) -> None:
        (whole_models / "chain.tflite").unlink()
        loaded = whole_model_host.load(SEGMENTS)
        assert "runs chain_segment_0_of_3_edgetpu.tflite only with its graph" in loaded.unsupported_reason
        with pytest.raises(ModelUnsupportedError, match="model 'chain' cannot run here"):
            whole_model_host.invoke("chain", {"x0": np.zeros((1, 8), np.int8)})

    def test_segments_in_another_order_are_refused(self, whole_model_host: ModelHost) -> None:
        with pytest.raises(ModelFormatError, match="expected the segments of one model in their order"):
            whole_model_host.load([SEGMENTS[1], SEGMENTS[0]])

    def test_plain_segments_run_on_the_cpu_backend(self, whole_models: Path) -> None:
        from edgetpu_driver.tflite.subgraph_extraction import extract

        whole = (whole_models / "chain.tflite").read_bytes()
        for number, name in enumerate(SEGMENTS):
            graph = extract(whole, [f"x{number}"], [f"x{number + 1}"])
            (whole_models / f"{name}.tflite").write_bytes(graph)
        whole_model_host = ModelHost(CpuBackend(), [whole_models])
        whole_model_host.connect()
        whole_model_host.load(SEGMENTS)
        x = {"x0": RNG.integers(-128, 128, (1, 8), np.int8)}
        check_same(whole_model_host.invoke("chain", x).outputs, by_litert(whole, x))
        whole_model_host.close()

    def test_the_cpu_backend_refuses_a_graph_that_is_compiled_itself(self, whole_models: Path) -> None:
        (whole_models / "parts.tflite").write_bytes((whole_models / "parts_edgetpu.tflite").read_bytes())
        whole_model_host = ModelHost(CpuBackend(), [whole_models])
        with pytest.raises(
            ModelUnsupportedError, match=r"parts\.tflite is compiled for the Edge TPU; expected"
        ):
            whole_model_host.load("parts_edgetpu")
        whole_model_host.close()


@pytest.mark.usefixtures("graphs_in_this_process")
class TestOverlap:
    def test_a_stick_runs_other_requests_while_the_cpu_is_busy(
        self, whole_model_host: ModelHost, held: threading.Event
    ) -> None:
        whole_model_host.load("parts_edgetpu")
        answers: SimpleQueue[Any] = SimpleQueue()
        whole_model_host.submit_invoke("parts", IMAGE, answers.put)
        whole_model_host.invoke("parts", {"a0": np.zeros((1, 8), np.int8)}, part=1)
        assert answers.empty()
        assert whole_model_host.status().sticks[0].inferences == 1
        held.set()
        check_same(answers.get(timeout=PATIENCE).outputs, by_litert(source_graph(2), IMAGE))

    def test_many_requests_are_answered_each_with_its_own_result(self, whole_model_host: ModelHost) -> None:
        whole_model_host.load("parts_edgetpu")
        engine = CpuEngine(source_graph(2))
        images = [{"image": RNG.integers(0, 256, (1, 8), np.uint8)} for _ in range(50)]
        answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()

        def done_of(number: int) -> Callable[[Any], None]:
            return lambda answer: answers.put((number, answer))

        for number, image in enumerate(images):
            whole_model_host.submit_invoke("parts", image, done_of(number))
        for _ in images:
            number, answer = answers.get(timeout=PATIENCE)
            check_same(answer.outputs, engine.run(images[number]))


@pytest.mark.usefixtures("graphs_in_this_process")
class TestTerms:
    def test_a_request_that_waits_for_the_cpu_too_long_is_answered_expired(
        self, whole_model_host: ModelHost, held: threading.Event
    ) -> None:
        whole_model_host.load("parts_edgetpu")
        first: SimpleQueue[Any] = SimpleQueue()
        whole_model_host.submit_invoke("parts", IMAGE, first.put)
        await_turn(whole_model_host)
        with pytest.raises(ExpiredError, match=r"the deadline, 0\.01 s after its arrival"):
            whole_model_host.invoke("parts", IMAGE, RequestTerms(deadline=0.01))
        assert whole_model_host.status().expired == 1
        held.set()
        assert first.get(timeout=PATIENCE).outputs.keys() == {"b0", "last"}

    def test_requests_that_wait_for_the_cpu_count_for_the_limit(
        self, sticks: list[VirtualEdgeTpu], whole_models: Path, held: threading.Event
    ) -> None:
        whole_model_host = ModelHost(backend_of(sticks[0]), [whole_models], limits=ClientLimits(waiting=3))
        whole_model_host.connect()
        whole_model_host.load("parts_edgetpu")
        answers: SimpleQueue[Any] = SimpleQueue()
        whole_model_host.submit_invoke("parts", IMAGE, answers.put)
        await_turn(whole_model_host)
        for _ in range(3):
            whole_model_host.submit_invoke("parts", IMAGE, answers.put)
        with pytest.raises(BusyError, match="3 requests wait"):
            whole_model_host.submit_invoke("parts", IMAGE, answers.put)
        held.set()
        assert all(answers.get(timeout=PATIENCE).outputs for _ in range(4))
        whole_model_host.close()

    def test_latencies_are_those_of_whole_requests(self, whole_model_host: ModelHost) -> None:
        whole_model_host.load("parts_edgetpu")
        whole_model_host.end_period()
        for _ in range(3):
            whole_model_host.invoke("parts", IMAGE)
        whole_model_host.end_period()
        assert len(whole_model_host.status().period.latencies) == 3
        assert whole_model_host.status().inferences == 6

    def test_requests_for_a_model_that_is_being_loaded_wait_and_are_run(
        self, whole_model_host: ModelHost, parsing: threading.Event
    ) -> None:
        loaded = whole_model_host.submit_load("parts_edgetpu")
        assert loaded.state is ModelState.QUEUED
        answers: SimpleQueue[Any] = SimpleQueue()
        whole_model_host.submit_invoke("parts", IMAGE, answers.put)
        whole_model_host.submit_invoke("parts", {"other": np.zeros(3)}, answers.put)
        parsing.set()
        got = [answers.get(timeout=PATIENCE) for _ in range(2)]
        (wrong,) = [each for each in got if isinstance(each, Exception)]
        assert isinstance(wrong, InputError)
        (right,) = [each for each in got if not isinstance(each, Exception)]
        check_same(right.outputs, by_litert(source_graph(2), IMAGE))

    def test_requests_for_parts_wait_until_the_parts_are_known(
        self, whole_model_host: ModelHost, parsing: threading.Event
    ) -> None:
        whole_model_host.submit_load("parts_edgetpu", "later")
        first, third = SimpleQueue[Any](), SimpleQueue[Any]()
        for part, answers in ((1, first), (3, third)):
            inputs = {"a0": np.zeros((1, 8), np.int8)}
            whole_model_host.submit_invoke("later", inputs, answers.put, part=part)
        parsing.set()
        answer = first.get(timeout=PATIENCE)
        assert (answer.part, list(answer.outputs)) == (1, ["b0"])
        refusal = third.get(timeout=PATIENCE)
        assert str(refusal) == "expected part 1 to 2 of 'later', or 0 for the whole model; got 3"

    def test_a_model_that_is_loaded_while_a_request_arrives_runs_it(
        self, whole_model_host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate, loaded = threading.Event(), threading.Event()
        parse, submit = VirtualStickBackend.parse, whole_model_host._scheduler.submit

        def slow_parse(backend: VirtualStickBackend, path: Path, data: bytes) -> Any:
            assert gate.wait(PATIENCE)
            return parse(backend, path, data)

        def late_submit(request: Any) -> None:
            gate.set()
            assert loaded.wait(PATIENCE)
            monkeypatch.undo()
            submit(request)

        monkeypatch.setattr(VirtualStickBackend, "parse", slow_parse)
        monkeypatch.setattr(whole_model_host._scheduler, "submit", late_submit)
        whole_model_host.submit_load("parts_edgetpu", done=lambda _: loaded.set())
        check_same(whole_model_host.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))


class TestUnloading:
    def test_requests_under_way_are_answered(
        self, whole_model_host: ModelHost, held: threading.Event
    ) -> None:
        whole_model_host.load("parts_edgetpu")
        answers: SimpleQueue[Any] = SimpleQueue()
        for _ in range(3):
            whole_model_host.submit_invoke("parts", IMAGE, answers.put)
        whole_model_host.unload("parts")
        held.set()
        expected = by_litert(source_graph(2), IMAGE)
        for _ in range(3):
            check_same(answers.get(timeout=PATIENCE).outputs, expected)
        assert whole_model_host.models() == ()

    def test_processes_end_with_their_model(self, whole_model_host: ModelHost) -> None:
        loaded = whole_model_host.load("parts_edgetpu")
        whole_model_host.invoke("parts", IMAGE)
        engines = [part.replicas[0].engine for part in loaded.parts if not part.on_device]
        runners: Any = [engine._engine._runner for engine in engines]  # type: ignore[union-attr]
        assert all(runner.pid for runner in runners)
        whole_model_host.unload("parts")
        whole_model_host._whole.cpu.reach()
        assert not any(runner.pid for runner in runners)
