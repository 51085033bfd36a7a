"""The virtual Edge TPU computes the model's graph, using only data that crossed the bus."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import CompiledModel, CpuEngine, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.darwinn.executable import InstructionBitstream
from edgetpu_driver.errors import ModelNotFoundError, ModelUnsupportedError, TransferTimeoutError
from edgetpu_driver.stick.dma_transfers import PreparedExecutable
from edgetpu_driver.stick.inference import PreparedInference
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.usb.chip_bringup import bring_up
from edgetpu_driver.usb.chip_clock import ClockPreset
from edgetpu_driver.usb.discovery import find_sticks
from edgetpu_driver.usb.framing import Frame, Tag
from edgetpu_driver.usb.link import Reception, UsbLink
from edgetpu_driver.virtual import program_library
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.virtual.program_library import Program, ProgramLibrary
from testdata import ModelFolder
from testdata.graphs.color_embedding_graph import color_embedding_graph

GOLDEN_MODELS = (
    "bright_64x64",
    "color_red_64x64",
    "dense_256",
    "gabor_64x64_7k_4o_2s",
    "gabor_64x64_p4",
    "looming_64x64_3x3",
)
X = np.arange(16, dtype=np.uint8).reshape(1, 16) * np.uint8(16)


def random_inputs(engine: CpuEngine, rng: np.random.Generator) -> list[NDArray[Any]]:
    limits = [(spec, np.iinfo(spec.dtype)) for spec in engine.inputs]
    return [rng.integers(info.min, info.max, spec.shape, spec.dtype, endpoint=True) for spec, info in limits]


def largest_difference(tpu: EdgeTpu, model: CompiledModel, cpu: CpuEngine, inputs: list[NDArray[Any]]) -> int:
    """Difference between the stick's and the graph's outputs, in output steps."""
    ours = tpu.run(model, dict(zip([spec.name for spec in model.inputs], inputs, strict=True)))
    theirs = cpu.run(dict(zip([spec.name for spec in cpu.inputs], inputs, strict=True)))
    pairs = zip(ours.values(), theirs.values(), strict=True)
    return max(int(np.abs(a.astype(int).ravel() - b.astype(int).ravel()).max()) for a, b in pairs)


@pytest.fixture
def graph(make_dense: Callable[[int], bytes]) -> bytes:
    return make_dense(1)


@pytest.fixture
def model(graph: bytes) -> CompiledModel:
    return CompiledModel.parse(pack(graph, name="dense"), "dense")


@pytest.fixture
def stick(model: CompiledModel, graph: bytes) -> VirtualEdgeTpu:
    return VirtualEdgeTpu().register_model(model, graph)


@pytest.fixture
def link(stick: VirtualEdgeTpu) -> Iterator[UsbLink]:
    """A link to the stick, its chip brought up."""
    with closing(UsbLink(stick, find_sticks(stick)[0])) as link:
        bring_up(link, ClockPreset.HIGH)
        yield link


def test_a_graph_that_cannot_be_read_is_an_error_of_this_package(
    model: CompiledModel, tmp_path: Path
) -> None:
    with pytest.raises(ModelNotFoundError, match=r"cannot read .*absent\.tflite: No such file"):
        VirtualEdgeTpu().register_model(model, tmp_path / "absent.tflite")


@pytest.mark.parametrize("name", GOLDEN_MODELS)
def test_real_models_are_within_one_step_of_their_source_graphs(golden: ModelFolder, name: str) -> None:
    compiled, source = golden.model(f"{name}_edgetpu.tflite"), golden.model(f"{name}.tflite")
    stick = VirtualEdgeTpu().register_model(compiled, source)
    model, cpu = CompiledModel.load(compiled), CpuEngine(source)
    rng = np.random.default_rng(0)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        for _ in range(30):
            assert largest_difference(tpu, model, cpu, random_inputs(cpu, rng)) <= 1


@pytest.mark.filterwarnings("ignore:.*experimental_preserve_all_tensors")
def test_a_model_with_a_cpu_tail_gives_the_inner_tensors_of_its_graph(
    golden: ModelFolder,
) -> None:
    name = "deeplabv3_mnv2_pascal_quant"
    compiled, source = golden.model(f"{name}_edgetpu.tflite"), golden.model(f"{name}.tflite")
    model = CompiledModel.load(compiled)
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs LiteRT")
    whole = litert.Interpreter(str(source), experimental_preserve_all_tensors=True)
    whole.allocate_tensors()
    (spec,) = model.inputs
    x = np.random.default_rng(0).integers(0, 256, spec.shape, spec.dtype)
    whole.set_tensor(whole.get_input_details()[0]["index"], x)
    whole.invoke()
    indices = {each["name"]: each["index"] for each in whole.get_tensor_details()}
    with EdgeTpu.open(usb_backend=VirtualEdgeTpu().register_model(compiled, source)) as tpu:
        outputs = tpu.run(model, {spec.name: x})
    assert len(outputs) == 2
    for output, y in outputs.items():
        inside = whole.get_tensor(indices[output])
        assert np.abs(y.astype(int) - inside.astype(int)).max() <= 1
        assert np.ptp(inside) > 50


@pytest.mark.parametrize("name", GOLDEN_MODELS)
def test_nor_does_usb_2_change_anything(golden: ModelFolder, name: str) -> None:
    compiled, source = golden.model(f"{name}_edgetpu.tflite"), golden.model(f"{name}.tflite")
    stick = VirtualEdgeTpu(speed="high").register_model(compiled, source)
    model, cpu = CompiledModel.load(compiled), CpuEngine(source)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        for seed in range(3):
            inputs = random_inputs(cpu, np.random.default_rng(seed))
            assert largest_difference(tpu, model, cpu, inputs) == 0


def test_a_graph_of_another_calibration_gives_results_in_the_steps_of_the_compiled_file() -> None:
    """The file has steps of 0.5 from 128 on, its graph steps of 0.25 from 100 on; both copy their input."""

    def identity(scale: float, zero_point: int) -> bytes:
        graph = GraphBuilder("identity")
        x = graph.input("x", (1, 4), np.uint8, scale=0.25, zero_point=128)
        inner = graph.quantize(x, np.int8, scale=0.25, zero_point=0)
        graph.output(graph.quantize(inner, np.uint8, scale=scale, zero_point=zero_point, name="y"))
        return graph.build()

    model = CompiledModel.parse(pack(identity(0.5, 128), name="identity"), "identity")
    stick = VirtualEdgeTpu().register_model(model, identity(0.25, 100))
    with EdgeTpu.open(usb_backend=stick) as tpu:
        (y,) = tpu.run(model, {"x": np.array([[120, 128, 130, 160]], np.uint8)}).values()
    np.testing.assert_array_equal(y, [[124, 128, 129, 144]])


def test_weights_of_packed_models_are_those_that_crossed_the_bus(
    stick: VirtualEdgeTpu, model: CompiledModel, make_dense: Callable[[int], bytes]
) -> None:
    other = make_dense(2)
    parameters = CompiledModel.parse(pack(other, name="other")).caching
    assert parameters is not None
    with EdgeTpu.open(usb_backend=stick) as tpu:
        tpu.upload(model, parameters.parameters)
        outputs = tpu.run(model, {"x": X})
    np.testing.assert_array_equal(outputs["y"], CpuEngine(other).run({"x": X})["y"])


def test_other_parameters_than_the_files_own_give_noise_for_a_real_model(golden: ModelFolder) -> None:
    compiled = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    assert compiled.caching is not None
    stick = VirtualEdgeTpu().register_model(compiled, golden.model("dense_256.tflite"))
    x = {compiled.inputs[0].name: np.zeros(compiled.inputs[0].shape, np.uint8)}
    name = compiled.outputs[0].name
    with EdgeTpu.open(usb_backend=stick) as tpu:
        good = tpu.run(compiled, x)[name]
        tpu.upload(compiled, compiled.caching.parameters[::-1])
        bad = tpu.run(compiled, x)[name]
    assert np.count_nonzero(good != bad) > 200


def test_running_without_parameters_in_memory_gives_wrong_numbers(
    link: UsbLink, model: CompiledModel, graph: bytes
) -> None:
    prepared, expected = PreparedInference(model), CpuEngine(graph).run({"x": X})["y"]
    assert model.caching is not None
    without = prepared.run(link, {"x": X})["y"]
    PreparedExecutable(model.caching).run(link)
    np.testing.assert_array_equal(prepared.run(link, {"x": X})["y"], expected)
    assert (without != expected).any()


def test_parameters_of_another_token_evict_those_in_memory(
    stick: VirtualEdgeTpu, link: UsbLink, model: CompiledModel, graph: bytes, golden: ModelFolder
) -> None:
    compiled = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    stick.register_model(compiled, golden.model("dense_256.tflite"))
    assert model.caching is not None
    assert compiled.caching is not None
    PreparedExecutable(model.caching).run(link)
    PreparedExecutable(compiled.caching).run(link)
    expected = CpuEngine(graph).run({"x": X})["y"]
    assert (PreparedInference(model).run(link, {"x": X})["y"] != expected).any()


def test_unknown_instructions_make_it_hang(stick: VirtualEdgeTpu, link: UsbLink) -> None:
    link.send(Frame(Tag.INSTRUCTIONS, bytes(64)))
    with pytest.raises(TransferTimeoutError):
        link.read_event()
    assert stick.hang_reason.startswith("no known program starts with a frame with tag 0 of 64 bytes;")


def test_an_input_of_another_size_than_hinted_makes_it_hang(
    stick: VirtualEdgeTpu, link: UsbLink, model: CompiledModel
) -> None:
    link.send(Frame(Tag.INSTRUCTIONS, model.execution.bitstreams[0].data))
    link.send(Frame(Tag.INPUT_ACTIVATIONS, bytes(15)))
    with pytest.raises(TransferTimeoutError):
        link.receive(Reception(8))
    assert "a frame with tag 1 of 15 bytes came" in stick.hang_reason


def test_a_frame_before_the_output_was_read_makes_it_hang(
    stick: VirtualEdgeTpu, link: UsbLink, model: CompiledModel
) -> None:
    instructions = Frame(Tag.INSTRUCTIONS, model.execution.bitstreams[0].data)
    link.send(instructions)
    link.send(Frame(Tag.INPUT_ACTIVATIONS, bytes(16)))
    link.send(instructions)
    with pytest.raises(TransferTimeoutError):
        link.read_event()
    assert "before the last output was read" in stick.hang_reason


def test_a_chip_that_was_not_brought_up_takes_no_frames(stick: VirtualEdgeTpu, model: CompiledModel) -> None:
    with closing(UsbLink(stick, find_sticks(stick)[0])) as link, pytest.raises(TransferTimeoutError):
        link.send(Frame(Tag.INSTRUCTIONS, model.execution.bitstreams[0].data))
    assert stick.hang_reason == "a frame came before the chip was brought up"


def test_reading_too_much_takes_the_whole_simulated_timeout(stick: VirtualEdgeTpu, link: UsbLink) -> None:
    before = stick.clock.monotonic()
    with pytest.raises(TransferTimeoutError):
        link.receive(Reception(8))
    assert stick.clock.monotonic() - before == 6.0


def test_a_frame_may_come_in_any_number_of_transfers(
    stick: VirtualEdgeTpu,
    link: UsbLink,
    model: CompiledModel,
    graph: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared = PreparedInference(model)
    assert model.caching is not None
    write = stick.bulk_write

    def write_in_pieces(handle: Any, ep: int, intf: int, data: array[int], timeout: int) -> int:
        return sum(write(handle, ep, intf, data[i : i + 100], timeout) for i in range(0, len(data), 100))

    monkeypatch.setattr(stick, "bulk_write", write_in_pieces)
    PreparedExecutable(model.caching).run(link)
    np.testing.assert_array_equal(prepared.run(link, {"x": X})["y"], CpuEngine(graph).run({"x": X})["y"])


def test_a_source_graph_with_other_inputs_is_refused(model: CompiledModel, golden: ModelFolder) -> None:
    with pytest.raises(ModelUnsupportedError, match="expected a source graph with the inputs 'x'"):
        VirtualEdgeTpu().register_model(model, golden.model("dense_256.tflite"))


def test_the_same_instructions_with_other_transfers_are_refused(
    stick: VirtualEdgeTpu, model: CompiledModel, graph: bytes
) -> None:
    fewer = replace(model, execution=replace(model.execution, hints=model.execution.hints[:-1]))
    with pytest.raises(ModelUnsupportedError, match="other transfers"):
        stick.register_model(fewer, graph)


def test_a_program_is_found_while_those_of_released_models_are_dropped(
    make_dense: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = ProgramLibrary()
    found: list[Any] = []
    graphs = [make_dense(1), color_embedding_graph()]
    models = [CompiledModel.parse(pack(graph, name="model"), "model") for graph in graphs]
    releases = [library.register_model(*each) for each in zip(models, graphs, strict=True)]
    fields = program_library._fields

    def look(bitstream: InstructionBitstream) -> tuple[int, ...]:  # as the thread of a stick might
        found.append(library.find(models[0].execution.bitstreams[0].data))
        return fields(bitstream)

    monkeypatch.setattr(program_library, "_fields", look)
    releases[1]()
    library.register_model(models[0], graphs[0])
    assert {type(each) for each in found} == {Program}
