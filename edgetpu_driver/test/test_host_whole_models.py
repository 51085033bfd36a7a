"""Whole models on a host: steps on sticks and on the CPU, as one request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.backends.cpu_parts import CpuStepEngine
from edgetpu_driver.backends.virtual import VirtualStickBackend
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import (
    BusyError,
    DeviceLostError,
    ExpiredError,
    GraphProcessError,
    InputError,
    ModelFormatError,
    ModelUnsupportedError,
    UnavailableError,
)
from edgetpu_driver.host.host_limits import HostLimits
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.hosted_model import ModelState
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.request_terms import RequestTerms
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.tflite.constant_patch import replace_tensor
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.weight_request import WeightRequest
from edgetpu_driver.weights.weight_tensors import weight_tensors
from testdata.compiled_graphs import compiled_graph, segments, source_graph
from testdata.recurrent_cell import recurrent_cell

RNG = np.random.default_rng(13)
IMAGE = {"image": RNG.integers(0, 256, (1, 8), np.uint8)}
CHAOS_REQUESTS = 400
SEGMENTS = [f"chain_segment_{number}_of_3" for number in range(3)]


def backend_of(stick: VirtualEdgeTpu) -> VirtualStickBackend:
    return VirtualStickBackend(
        lambda on_phase: EdgeTpu.open(stick, on_phase=on_phase), stick.register_model, pack
    )


@pytest.fixture
def models(tmp_path: Path) -> Path:
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
    return [VirtualEdgeTpu(ports=(number + 1,)) for number in range(2)]


@pytest.fixture
def host(sticks: list[VirtualEdgeTpu], models: Path) -> Iterator[ModelHost]:
    host = ModelHost(backend_of(sticks[0]), [models])
    host.connect()
    yield host
    host.close()


@pytest.fixture
def two_sticks(sticks: list[VirtualEdgeTpu], models: Path) -> Iterator[ModelHost]:
    host = ModelHost([backend_of(stick) for stick in sticks], [models])
    host.connect()
    yield host
    host.close()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Parts on the CPU wait until this is set."""
    gate = threading.Event()
    run = CpuStepEngine.run

    def held_run(engine: CpuStepEngine, inputs: Any) -> Any:
        assert gate.wait(30)
        return run(engine, inputs)

    monkeypatch.setattr(CpuStepEngine, "run", held_run)
    yield gate
    gate.set()


def by_litert(graph: bytes, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return CpuEngine(graph).run(inputs)


def check_same(outputs: Any, expected: dict[str, NDArray[Any]]) -> None:
    assert list(outputs) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(outputs[name], values)


@pytest.mark.usefixtures("graphs_in_this_process")
class TestResults:
    @pytest.mark.parametrize(("name", "parts"), [("parts", 2), ("one", 1)])
    def test_they_are_those_of_the_graph_in_its_order(self, host: ModelHost, name: str, parts: int) -> None:
        loaded = host.load(f"{name}_edgetpu")
        assert [str(spec) for spec in loaded.inputs] == ["'image' uint8[1, 8]"]
        assert [str(spec) for spec in loaded.outputs] == ["'b0' int8[1, 8]", "'last' uint8[1, 8]"]
        check_same(host.invoke(name, IMAGE).outputs, by_litert(source_graph(parts), IMAGE))

    def test_a_result_tells_the_file_and_the_time_of_all_steps(self, host: ModelHost) -> None:
        loaded = host.load("parts_edgetpu")
        whole = host.invoke("parts", IMAGE)
        first = host.invoke("parts", {"a0": np.zeros((1, 8), np.int8)}, part=1)
        assert whole.model_sha256 == loaded.sha256
        assert whole.device_duration > first.device_duration > 0
        assert (whole.part, first.part) == (0, 1)

    @pytest.mark.parametrize(("part", "source", "result"), [(1, "a0", "b0"), (2, "a1", "b1")])
    def test_a_part_alone_has_the_inner_tensors(
        self, host: ModelHost, part: int, source: str, result: str
    ) -> None:
        from edgetpu_driver.tflite.subgraph_extraction import extract

        host.load("parts_edgetpu")
        inputs = {source: RNG.integers(-128, 128, (1, 8), np.int8)}
        expected = by_litert(extract(source_graph(2), [source], [result]), inputs)
        check_same(host.invoke("parts", inputs, part=part).outputs, expected)

    @pytest.mark.parametrize("part", [-1, 3])
    def test_a_part_that_is_not_there_is_refused(self, host: ModelHost, part: int) -> None:
        host.load("parts_edgetpu")
        with pytest.raises(InputError, match=f"expected part 1 to 2 of 'parts', or 0 .*; got {part}"):
            host.invoke("parts", IMAGE, part=part)

    def test_wrong_inputs_are_refused_at_once(self, host: ModelHost) -> None:
        host.load("parts_edgetpu")
        with pytest.raises(InputError, match=r"expected 'image' uint8\[1, 8\]; got uint8\[8\]"):
            host.invoke("parts", {"image": np.zeros(8, np.uint8)})

    def test_a_plain_graph_of_which_the_chip_can_have_nothing_runs_on_the_cpu(
        self, host: ModelHost, models: Path
    ) -> None:
        from edgetpu_driver.tflite.graph_builder import GraphBuilder

        builder = GraphBuilder("pair")
        x = builder.input("x", (2, 2), np.uint8, scale=0.5, zero_point=128)
        builder.output(builder.quantize(x, np.int8, scale=0.5, zero_point=0, name="y"))
        (models / "pair.tflite").write_bytes(builder.build())
        loaded = host.load("pair")
        assert [part.on_device for part in loaded.parts] == [False]
        values = {"x": np.array([[128, 129], [0, 255]], np.uint8)}
        assert host.invoke("pair", values).outputs["y"].tolist() == [[0, 1], [-128, 127]]


@pytest.mark.usefixtures("graphs_in_this_process")
class TestPipelines:
    def test_segments_are_one_model(self, host: ModelHost) -> None:
        loaded = host.load(SEGMENTS)
        assert (loaded.name, len(loaded.paths)) == ("chain", 3)
        x = {"x0": RNG.integers(-128, 128, (1, 8), np.int8)}
        check_same(host.invoke("chain", x).outputs, by_litert(segments(3)[0], x))

    def test_the_graph_of_each_segment_serves_as_well(self, host: ModelHost, models: Path) -> None:
        from edgetpu_driver.tflite.subgraph_extraction import extract

        whole = (models / "chain.tflite").read_bytes()
        (models / "chain.tflite").unlink()
        for number, name in enumerate(SEGMENTS):
            graph = extract(whole, [f"x{number}"], [f"x{number + 1}"])
            (models / f"{name}.tflite").write_bytes(graph)
        host.load(SEGMENTS)
        x = {"x0": RNG.integers(-128, 128, (1, 8), np.int8)}
        check_same(host.invoke("chain", x).outputs, by_litert(whole, x))

    def test_without_any_graph_the_reason_is_told(self, host: ModelHost, models: Path) -> None:
        (models / "chain.tflite").unlink()
        loaded = host.load(SEGMENTS)
        assert "runs chain_segment_0_of_3_edgetpu.tflite only with its graph" in loaded.unsupported_reason
        with pytest.raises(ModelUnsupportedError, match="model 'chain' cannot run here"):
            host.invoke("chain", {"x0": np.zeros((1, 8), np.int8)})

    def test_segments_in_another_order_are_refused(self, host: ModelHost) -> None:
        with pytest.raises(ModelFormatError, match="expected the segments of one model in their order"):
            host.load([SEGMENTS[1], SEGMENTS[0]])

    def test_plain_segments_run_on_the_cpu_backend(self, models: Path) -> None:
        from edgetpu_driver.tflite.subgraph_extraction import extract

        whole = (models / "chain.tflite").read_bytes()
        for number, name in enumerate(SEGMENTS):
            graph = extract(whole, [f"x{number}"], [f"x{number + 1}"])
            (models / f"{name}.tflite").write_bytes(graph)
        host = ModelHost(CpuBackend(), [models])
        host.connect()
        host.load(SEGMENTS)
        x = {"x0": RNG.integers(-128, 128, (1, 8), np.int8)}
        check_same(host.invoke("chain", x).outputs, by_litert(whole, x))
        host.close()


@pytest.mark.usefixtures("graphs_in_this_process")
class TestOverlap:
    def test_a_stick_runs_other_requests_while_the_cpu_is_busy(
        self, host: ModelHost, held: threading.Event
    ) -> None:
        host.load("parts_edgetpu")
        answers: SimpleQueue[Any] = SimpleQueue()
        host.submit_invoke("parts", IMAGE, answers.put)
        host.invoke("parts", {"a0": np.zeros((1, 8), np.int8)}, part=1)
        assert answers.empty()
        assert host.status().sticks[0].inferences == 1
        held.set()
        check_same(answers.get(timeout=30).outputs, by_litert(source_graph(2), IMAGE))

    def test_many_requests_are_answered_each_with_its_own_result(self, host: ModelHost) -> None:
        host.load("parts_edgetpu")
        engine = CpuEngine(source_graph(2))
        images = [{"image": RNG.integers(0, 256, (1, 8), np.uint8)} for _ in range(50)]
        answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()

        def done_of(number: int) -> Callable[[Any], None]:
            return lambda answer: answers.put((number, answer))

        for number, image in enumerate(images):
            host.submit_invoke("parts", image, done_of(number))
        for _ in images:
            number, answer = answers.get(timeout=30)
            check_same(answer.outputs, engine.run(images[number]))


@pytest.mark.usefixtures("graphs_in_this_process")
class TestTerms:
    def test_a_request_that_waits_for_the_cpu_too_long_is_answered_expired(
        self, host: ModelHost, held: threading.Event
    ) -> None:
        host.load("parts_edgetpu")
        first: SimpleQueue[Any] = SimpleQueue()
        host.submit_invoke("parts", IMAGE, first.put)
        with pytest.raises(ExpiredError, match=r"the deadline, 0\.01 s after its arrival"):
            host.invoke("parts", IMAGE, RequestTerms(deadline=0.01))
        assert host.status().expired == 1
        held.set()
        assert first.get(timeout=30).outputs.keys() == {"b0", "last"}

    def test_requests_that_wait_for_the_cpu_count_for_the_limit(
        self, sticks: list[VirtualEdgeTpu], models: Path, held: threading.Event
    ) -> None:
        host = ModelHost(backend_of(sticks[0]), [models], limits=HostLimits(waiting=3))
        host.connect()
        host.load("parts_edgetpu")
        answers: SimpleQueue[Any] = SimpleQueue()
        for _ in range(4):  # one runs, three wait
            host.submit_invoke("parts", IMAGE, answers.put)
        with pytest.raises(BusyError, match="3 requests wait"):
            host.submit_invoke("parts", IMAGE, answers.put)
        held.set()
        assert all(answers.get(timeout=30).outputs for _ in range(4))
        host.close()

    def test_latencies_are_those_of_whole_requests(self, host: ModelHost) -> None:
        host.load("parts_edgetpu")
        host.end_period()
        for _ in range(3):
            host.invoke("parts", IMAGE)
        host.end_period()
        assert len(host.status().period.latencies) == 3
        assert host.status().inferences == 6

    def test_requests_for_a_model_that_is_being_loaded_wait_and_are_run(
        self, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate, parse = threading.Event(), VirtualStickBackend.parse

        def slow_parse(backend: VirtualStickBackend, path: Path, data: bytes) -> Any:
            assert gate.wait(30)
            return parse(backend, path, data)

        monkeypatch.setattr(VirtualStickBackend, "parse", slow_parse)
        loaded = host.submit_load("parts_edgetpu")
        assert loaded.state is ModelState.QUEUED
        answers: SimpleQueue[Any] = SimpleQueue()
        host.submit_invoke("parts", IMAGE, answers.put)
        host.submit_invoke("parts", {"other": np.zeros(3)}, answers.put)
        gate.set()
        got = [answers.get(timeout=30) for _ in range(2)]
        (wrong,) = [each for each in got if isinstance(each, Exception)]
        assert isinstance(wrong, InputError)
        (right,) = [each for each in got if not isinstance(each, Exception)]
        check_same(right.outputs, by_litert(source_graph(2), IMAGE))

    def test_a_model_that_is_loaded_while_a_request_arrives_runs_it(
        self, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate, loaded = threading.Event(), threading.Event()
        parse, submit = VirtualStickBackend.parse, host._scheduler.submit

        def slow_parse(backend: VirtualStickBackend, path: Path, data: bytes) -> Any:
            assert gate.wait(30)
            return parse(backend, path, data)

        def late_submit(request: Any) -> None:
            gate.set()
            assert loaded.wait(30)
            monkeypatch.undo()
            submit(request)

        monkeypatch.setattr(VirtualStickBackend, "parse", slow_parse)
        monkeypatch.setattr(host._scheduler, "submit", late_submit)
        host.submit_load("parts_edgetpu", done=lambda _: loaded.set())
        check_same(host.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))


@pytest.mark.usefixtures("graphs_in_this_process")
class TestFaults:
    @pytest.mark.parametrize("gone", [0, 1])
    def test_a_stick_that_dies_between_two_steps_leaves_the_rest_to_the_other(
        self,
        two_sticks: ModelHost,
        sticks: list[VirtualEdgeTpu],
        monkeypatch: pytest.MonkeyPatch,
        gone: int,
    ) -> None:
        two_sticks.load("parts_edgetpu")
        run = CpuStepEngine.run

        def unplugging(engine: CpuStepEngine, inputs: Any) -> Any:
            if "b0" in inputs:  # between the two parts for the Edge TPU
                sticks[gone].unplug()
            return run(engine, inputs)

        monkeypatch.setattr(CpuStepEngine, "run", unplugging)
        for _ in range(2):
            check_same(two_sticks.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))

    def test_a_stick_that_dies_within_a_step_hands_it_to_the_other(
        self, two_sticks: ModelHost, sticks: list[VirtualEdgeTpu]
    ) -> None:
        two_sticks.load("parts_edgetpu")
        sticks[0].fail(Fault.UNPLUG, Transfer.OUTPUT)
        for _ in range(3):
            check_same(two_sticks.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))
        assert [stick.is_plugged for stick in sticks] == [False, True]

    def test_without_a_stick_requests_are_refused_before_anything_runs(
        self, host: ModelHost, sticks: list[VirtualEdgeTpu], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host.load("parts_edgetpu")
        sticks[0].unplug()
        with pytest.raises(DeviceLostError):
            host.invoke("parts", IMAGE)
        monkeypatch.setattr(CpuStepEngine, "run", None)
        with pytest.raises(UnavailableError, match="no device"):
            host.invoke("parts", IMAGE)

    def test_sticks_pulled_and_plugged_at_random_lose_nothing_and_give_nothing_wrong(
        self, models: Path
    ) -> None:
        sticks = [VirtualEdgeTpu(ports=(number + 1,)) for number in range(3)]
        host = ModelHost([backend_of(stick) for stick in sticks], [models])
        host.connect()
        host.load("parts_edgetpu")
        host.load(SEGMENTS)
        host.start(refresh_period=0.02, retry_period=0.002)
        random, free = np.random.default_rng(4), threading.Semaphore(16)
        answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        requests: list[tuple[str, dict[str, NDArray[Any]]]] = []
        pulled = 0

        def disturb() -> int:
            chosen = int(random.integers(len(sticks)))
            ready = [stick.state is State.READY for stick in host.status().sticks]
            others = sum(ready[:chosen] + ready[chosen + 1 :])
            plugged = all(stick.is_plugged for stick, is_ready in zip(sticks, ready, strict=True) if is_ready)
            if not sticks[chosen].is_plugged:
                sticks[chosen].plug()
            elif others and plugged:
                sticks[chosen].unplug()
                return 1
            return 0

        def done(number: int, answer: Any) -> None:
            free.release()
            answers.put((number, answer))

        for number in range(CHAOS_REQUESTS):
            assert free.acquire(timeout=30)
            pulled += disturb() if number % 20 == 10 else 0
            name, source = ("parts", "image") if random.random() < 0.5 else ("chain", "x0")
            dtype = np.uint8 if name == "parts" else np.int8
            requests.append((name, {source: random.integers(0, 256, (1, 8), np.uint8).view(dtype)}))
            host.submit_invoke(*requests[-1], partial(done, number))
        got = dict(answers.get(timeout=30) for _ in requests)
        host.close()
        engines = {"parts": CpuEngine(source_graph(2)), "chain": CpuEngine(segments(3)[0])}
        for number, (name, inputs) in enumerate(requests):
            assert isinstance(got[number], InferenceResult), got[number]
            check_same(got[number].outputs, engines[name].run(inputs))
        assert pulled > 3

    def test_a_process_of_litert_that_dies_costs_one_request(
        self, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host.load("parts_edgetpu")
        run, deaths = CpuStepEngine.run, [GraphProcessError("died of SIGSEGV")]

        def dying(engine: CpuStepEngine, inputs: Any) -> Any:
            if deaths:
                raise deaths.pop()
            return run(engine, inputs)

        monkeypatch.setattr(CpuStepEngine, "run", dying)
        with pytest.raises(GraphProcessError, match="SIGSEGV"):
            host.invoke("parts", IMAGE)
        check_same(host.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))

    def test_a_host_that_was_closed_answers_what_waits_and_runs_again(
        self, host: ModelHost, held: threading.Event
    ) -> None:
        host.load("parts_edgetpu")
        answers: SimpleQueue[Any] = SimpleQueue()
        for _ in range(3):
            host.submit_invoke("parts", IMAGE, answers.put)
        threading.Timer(0.05, held.set).start()
        host.close()
        got = [answers.get(timeout=30) for _ in range(3)]
        assert any(isinstance(each, UnavailableError) for each in got)
        host.connect()
        check_same(host.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))


class TestUnloading:
    def test_requests_under_way_are_answered(self, host: ModelHost, held: threading.Event) -> None:
        host.load("parts_edgetpu")
        answers: SimpleQueue[Any] = SimpleQueue()
        for _ in range(3):
            host.submit_invoke("parts", IMAGE, answers.put)
        host.unload("parts")
        held.set()
        expected = by_litert(source_graph(2), IMAGE)
        for _ in range(3):
            check_same(answers.get(timeout=30).outputs, expected)
        assert host.models() == ()

    def test_processes_end_with_their_model(self, host: ModelHost) -> None:
        loaded = host.load("parts_edgetpu")
        host.invoke("parts", IMAGE)
        engines = [part.replicas[0].engine for part in loaded.parts if not part.on_device]
        runners: Any = [engine._engine._runner for engine in engines]  # type: ignore[union-attr]
        assert all(runner.pid for runner in runners)
        host.unload("parts")
        host._whole.cpu.reach()
        assert not any(runner.pid for runner in runners)


@pytest.mark.usefixtures("graphs_in_this_process")
class TestWeights:
    def test_those_of_the_only_part_are_replaced(self, host: ModelHost, models: Path) -> None:
        from edgetpu_driver.tflite.graph_builder import GraphBuilder
        from edgetpu_driver.toolchain import dense_graph

        (models / "first.tflite").write_bytes(dense_graph.build(64))
        builder = GraphBuilder("second")
        y = parse_model(dense_graph.build(64)).subgraphs[0].output_specs[0]
        shaped = builder.input("y", y.shape, y.dtype, scale=y.scale, zero_point=y.zero_point)
        builder.output(builder.reshape(shaped, (2, 32), name="pair"))  # the chip cannot have two rows
        (models / "second.tflite").write_bytes(builder.build())
        loaded = host.load(["first.tflite", "second.tflite"], "both")
        assert [part.on_device for part in loaded.parts] == [True, False]
        engine = CpuEngine(dense_graph.build(64))
        x = {"x": RNG.integers(0, 256, (1, 64), np.uint8)}
        for version in (1, 2):
            weights = WeightRequest(RNG.uniform(-0.1, 0.1, (64, 64)).astype(np.float32))
            assert host.set_weights("both", weights).version == version
            engine.set_weights(weights)
            answer = host.invoke("both", x)
            assert (answer.weights_version, loaded.weights_version) == (version, version)
            np.testing.assert_array_equal(answer.outputs["pair"].ravel(), engine.run(x)["y"].ravel())

    def test_a_layer_between_operators_on_the_cpu_takes_weights_by_its_name(self, host: ModelHost) -> None:
        loaded = host.load("one_edgetpu")
        assert [part.on_device for part in loaded.parts] == [False, True, False]
        (tensor,) = weight_tensors(parse_model(source_graph(1)))
        steps = RNG.integers(-127, 128, tensor.shape).astype(np.int8)
        swap = host.set_weights("one", WeightRequest(steps * tensor.scales[:, np.newaxis], tensor.name))
        assert (swap.version, swap.clipped) == (1, 0)
        changed = replace_tensor(source_graph(1), tensor.name, steps)
        check_same(host.invoke("one", IMAGE).outputs, by_litert(changed, IMAGE))

    def test_with_several_parts_it_is_not_known_which_are_meant(self, host: ModelHost) -> None:
        host.load("parts_edgetpu")
        with pytest.raises(
            ModelUnsupportedError, match=r"one part for the Edge TPU.*'parts' has 2: name the tensor"
        ):
            host.set_weights("parts", WeightRequest(np.zeros((8, 8), np.float32)))

    def test_those_of_one_of_several_parts_are_replaced(self, host: ModelHost, models: Path) -> None:
        from edgetpu_driver.tflite.graph_builder import GraphBuilder
        from edgetpu_driver.toolchain import dense_graph

        first = dense_graph.build(64)
        (models / "first.tflite").write_bytes(first)
        y = parse_model(first).subgraphs[0].output_specs[0]
        builder = GraphBuilder("second")
        grey = builder.input("y", y.shape, y.dtype, scale=y.scale, zero_point=y.zero_point)
        inner = builder.quantize(grey, np.int8, scale=y.scale, zero_point=y.zero_point - 128)
        outer = builder.fully_connected(
            inner, RNG.integers(-127, 128, (64, 64)), weight_scale=0.01, scale=0.1, zero_point=0, name="z"
        )
        builder.output(outer)
        (models / "second.tflite").write_bytes(builder.build())
        loaded = host.load(["first.tflite", "second.tflite"], "both")
        assert [part.on_device for part in loaded.parts] == [True, True]
        engines = [CpuEngine(first), CpuEngine(builder.build())]
        x = RNG.integers(0, 256, (1, 64), np.uint8)
        for version, part in enumerate((2, 1, 2), start=1):
            weights = WeightRequest(RNG.uniform(-0.1, 0.1, (64, 64)).astype(np.float32))
            assert host.set_weights("both", weights, part=part).version == version
            engines[part - 1].set_weights(weights)
            answer = host.invoke("both", {"x": x})
            assert (answer.weights_version, loaded.weights_version) == (version, version)
            middle = engines[0].run({"x": x})["y"]
            np.testing.assert_array_equal(answer.outputs["z"], engines[1].run({"y": middle})["z"])

    def test_the_part_that_has_the_tensor_is_found_by_its_name(self, host: ModelHost) -> None:
        loaded = host.load("parts_edgetpu")
        source = source_graph(2)
        tensors = weight_tensors(parse_model(source))
        for version, tensor in enumerate(tensors[::-1], start=1):
            steps = RNG.integers(-127, 128, tensor.shape).astype(np.int8)
            swap = host.set_weights("parts", WeightRequest(steps * tensor.scales[:, np.newaxis], tensor.name))
            assert swap.version == loaded.weights_version == version
            source = replace_tensor(source, tensor.name, steps)
        assert [part.weights.version for part in loaded.device_parts] == [1, 1]
        check_same(host.invoke("parts", IMAGE).outputs, by_litert(source, IMAGE))

    def test_a_tensor_of_no_part_is_refused_with_what_each_has(self, host: ModelHost) -> None:
        host.load("parts_edgetpu")
        with pytest.raises(InputError, match=r"'x' is in none: part 1: .*; part 2: expected one of"):
            host.set_weights("parts", WeightRequest(np.zeros((8, 8), np.float32), "x"))

    def test_a_part_that_is_not_there_is_refused(self, host: ModelHost) -> None:
        host.load("parts_edgetpu")
        with pytest.raises(
            InputError, match="expected part 1 to 2 of 'parts', or 0 for the whole model; got 3"
        ):
            host.set_weights("parts", WeightRequest(np.zeros((8, 8), np.float32)), part=3)


@pytest.mark.usefixtures("graphs_in_this_process")
class TestStateThatLiteRtKeeps:
    @pytest.mark.parametrize("backend", ["cpu", "virtual"])
    def test_it_is_set_to_zero_on_request(self, backend: str, sticks: Any, models: Path) -> None:
        (models / "cell.tflite").write_bytes(recurrent_cell())
        host = ModelHost(CpuBackend() if backend == "cpu" else backend_of(sticks[0]), [models])
        host.connect()
        host.load("cell")
        x = {"x": np.ones((1, 1), np.float32)}
        resets = [True, False, False, True, False]
        found = [float(host.invoke("cell", x, reset=reset).outputs["y"][0, 0]) for reset in resets]
        host.close()
        assert found == [1.0, 2.0, 3.0, 1.0, 2.0]
