"""Whole models: parts on a virtual stick, the rest on the CPU, and the state of recurrent ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import CpuEngine, EdgeTpu, Model, VirtualEdgeTpu
from edgetpu_driver.engines.whole_model.recurrence import likely_feedback
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.subgraph_extraction import extract
from edgetpu_driver.tflite.tensor import TensorSpec
from testdata import GOLDEN, ModelFolder
from testdata.devices.graph_processes import PATIENT
from testdata.graphs.compiled_graphs import compiled_graph, segments, source_graph
from testdata.graphs.recurrent_cell import recurrent_cell

IMAGE = np.array([[0, 255, 7, 130, 128, 64, 200, 31]], np.uint8)


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    path = tmp_path / "parts_edgetpu.tflite"
    path.write_bytes(compiled_graph(2))
    return path


@pytest.fixture
def tpu(compiled: Path) -> Iterator[EdgeTpu]:
    with EdgeTpu.open(usb_backend=VirtualEdgeTpu().register_model(compiled, source_graph(2))) as tpu:
        yield tpu


@pytest.fixture
def recurrent(tmp_path: Path) -> Path:
    """int8 sum = x + previous, both at scale 1."""
    builder = GraphBuilder("counter")
    x = builder.input("x", (1, 1), np.int8, scale=1, zero_point=0)
    before = builder.input("inputs/sum", (1, 1), np.int8, scale=1, zero_point=0)
    builder.output(builder.add(x, before, scale=1, zero_point=0, name="outputs/sum"))
    path = tmp_path / "counter.tflite"
    path.write_bytes(builder.build())
    return path


FEEDBACK = {"outputs/sum": "inputs/sum"}


def one() -> dict[str, NDArray[Any]]:
    return {"x": np.ones((1, 1), np.int8)}


def test_operators_around_and_between_the_parts_give_the_graphs_own_outputs(
    compiled: Path, tpu: EdgeTpu
) -> None:
    outputs = Model.load(compiled, tpu).run({"image": IMAGE})
    expected = CpuEngine(source_graph(2)).run({"image": IMAGE})
    assert list(outputs) == ["b0", "last"]
    for name in outputs:
        np.testing.assert_array_equal(outputs[name], expected[name])


def test_the_same_with_litert_in_processes_of_its_own(compiled: Path, tpu: EdgeTpu) -> None:
    with Model.load(compiled, tpu, isolated=True, limits=PATIENT) as model:
        outputs = model.run({"image": IMAGE})
    assert outputs["last"].tolist() == CpuEngine(source_graph(2)).run({"image": IMAGE})["last"].tolist()


def test_a_plain_graph_needs_no_edge_tpu(tmp_path: Path) -> None:
    path = tmp_path / "parts.tflite"
    path.write_bytes(source_graph(1))
    outputs = Model.load(path).run({"image": IMAGE})
    assert outputs["last"].tolist() == CpuEngine(source_graph(1)).run({"image": IMAGE})["last"].tolist()


def test_a_compiled_model_without_an_edge_tpu_is_refused(compiled: Path) -> None:
    with pytest.raises(ModelUnsupportedError, match=r"'parts part 1' is compiled.*expected an engine"):
        Model.load(compiled)


def test_something_else_than_an_edge_tpu_is_refused(compiled: Path) -> None:
    with pytest.raises(InputError, match="expected an EdgeTpu, or several, as engine; got str"):
        Model.load(compiled, ["cpu"])  # type: ignore[list-item]


def test_an_array_without_a_name_is_refused(compiled: Path, tpu: EdgeTpu) -> None:
    with pytest.raises(InputError, match=r"by name, such as {'image': array}; got ndarray"):
        Model.load(compiled, tpu).run(IMAGE)  # type: ignore[arg-type]


def test_something_else_than_an_array_is_refused(compiled: Path, tpu: EdgeTpu) -> None:
    with pytest.raises(InputError, match=r"expected a NumPy array for 'image' uint8\[1, 8\]; got list"):
        Model.load(compiled, tpu).run({"image": [[0] * 8]})  # type: ignore[dict-item]


@pytest.mark.parametrize("sticks", [1, 2])
def test_segments_run_as_one_model_on_one_stick_and_on_several(tmp_path: Path, sticks: int) -> None:
    whole, parts = segments(3)
    paths = [tmp_path / f"chain_segment_{n}_of_3_edgetpu.tflite" for n in range(3)]
    engines = []
    for index in range(sticks):
        stick = VirtualEdgeTpu(ports=(index + 1,))
        for path, data in zip(paths, parts, strict=True):
            path.write_bytes(data)
            stick.register_model(path, whole)
        engines.append(EdgeTpu.open(usb_backend=stick))
    x = np.arange(-4, 4, dtype=np.int8).reshape(1, 8)
    outputs = Model.load(paths, engines).run({"x0": x})
    counts = [tpu.info().inferences for tpu in engines]
    for tpu in engines:
        tpu.close()
    assert outputs["x3"].tolist() == CpuEngine(whole).run({"x0": x})["x3"].tolist()
    assert counts == ([3] if sticks == 1 else [2, 1])


def test_a_virtual_stick_says_that_it_lacks_the_graph_of_a_model(compiled: Path) -> None:
    with (
        EdgeTpu.open(usb_backend=VirtualEdgeTpu()) as tpu,
        pytest.raises(ModelUnsupportedError, match=r"it needs the graph of every model: .*register_model"),
    ):
        Model.load(compiled, tpu).run({"image": IMAGE})


def test_a_state_is_fed_back_until_it_is_reset(recurrent: Path) -> None:
    model = Model.load(recurrent, feedback=FEEDBACK)
    assert [spec.name for spec in model.inputs] == ["x"]
    assert [int(model.run(one())["outputs/sum"][0, 0]) for _ in range(3)] == [1, 2, 3]
    model.reset()
    assert int(model.run(one())["outputs/sum"][0, 0]) == 1


def test_a_jump_in_time_resets_the_state(recurrent: Path) -> None:
    model = Model.load(recurrent, feedback=FEEDBACK, longest_gap=0.5)
    stamps = [10.0, 10.5, 11.0, 11.6, 11.7, 11.6]
    assert [int(model.run(one(), stamp)["outputs/sum"][0, 0]) for stamp in stamps] == [1, 2, 3, 1, 2, 1]


@pytest.mark.parametrize("isolated", [False, True])
def test_a_state_that_litert_keeps_is_reset_too(tmp_path: Path, isolated: bool) -> None:
    path = tmp_path / "cell.tflite"
    path.write_bytes(recurrent_cell())
    x = {"x": np.ones((1, 1), np.float32)}
    with Model.load(path, isolated=isolated, limits=PATIENT) as model:
        assert model.is_recurrent
        assert [float(model.run(x)["y"][0, 0]) for _ in range(3)] == [1.0, 2.0, 3.0]
        model.reset()
        stamps = [10.0, 10.5, 9.0]
        assert [float(model.run(x, stamp)["y"][0, 0]) for stamp in stamps] == [1.0, 2.0, 1.0]


def test_a_closed_model_says_so(tmp_path: Path) -> None:
    path = tmp_path / "cell.tflite"
    path.write_bytes(recurrent_cell())
    model = Model.load(path)
    model.close()
    model.close()
    with pytest.raises(ModelUnsupportedError, match="model 'cell' is closed; load it again to run it"):
        model.run({"x": np.ones((1, 1), np.float32)})


@pytest.mark.parametrize("model", [None, 3, [None], b"x.tflite"])
def test_something_else_than_paths_is_refused(model: Any) -> None:
    with pytest.raises(InputError, match="expected the path of a model, or those of its segments; got"):
        Model.load(model)


def test_without_a_feedback_the_state_is_an_input(recurrent: Path) -> None:
    outputs = Model.load(recurrent).run({**one(), "inputs/sum": np.full((1, 1), 41, np.int8)})
    assert outputs["outputs/sum"].tolist() == [[42]]


@pytest.mark.parametrize(
    ("feedback", "message"),
    [
        ({"sum": "inputs/sum"}, r"expected the outputs 'outputs/sum' int8\[1, 1\]; got 'sum'"),
        ({"outputs/sum": "y"}, r"expected the inputs 'x' .*; got 'y'"),
    ],
)
def test_a_feedback_between_other_tensors_is_refused(
    recurrent: Path, feedback: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Model.load(recurrent, feedback=feedback)


def test_a_state_is_rescaled_to_its_input(tmp_path: Path) -> None:
    builder = GraphBuilder("doubling")
    x = builder.input("x", (1, 1), np.int8, scale=1, zero_point=0)
    before = builder.input("state_in", (1, 1), np.int8, scale=0.5, zero_point=-10)
    builder.output(builder.add(x, before, scale=1, zero_point=0, name="state_out"))
    path = tmp_path / "doubling.tflite"
    path.write_bytes(builder.build())
    model = Model.load(path, feedback={"state_out": "state_in"})
    assert [int(model.run(one())["state_out"][0, 0]) for _ in range(3)] == [1, 2, 3]


def test_a_stamp_that_is_no_number_is_refused(recurrent: Path) -> None:
    with pytest.raises(InputError, match="expected a stamp in seconds; got nan"):
        Model.load(recurrent, feedback=FEEDBACK).run(one(), float("nan"))


def test_a_likely_feedback_is_found_by_shape_and_name(recurrent: Path) -> None:
    model = Model.load(recurrent)
    assert likely_feedback(model.inputs, model.outputs) == FEEDBACK


def test_an_image_to_image_model_is_not_mistaken_for_a_recurrent_one() -> None:
    image, result = (
        TensorSpec(name, (1, 8, 8, 3), np.dtype(np.uint8), 1.0, 0) for name in ("image", "image_out")
    )
    mask = TensorSpec("mask", (1, 8, 8, 1), np.dtype(np.uint8), 1.0, 0)
    assert likely_feedback([image], [result]) == {}
    assert likely_feedback([image, mask], [result]) == {"image_out": "image"}


def test_a_plain_graph_may_be_a_segment(tmp_path: Path) -> None:
    whole, parts = segments(2)
    first, second = tmp_path / "first_edgetpu.tflite", tmp_path / "second.tflite"
    first.write_bytes(parts[0])
    second.write_bytes(extract(whole, ["x1"], ["x2"]))
    x = np.arange(-4, 4, dtype=np.int8).reshape(1, 8)
    with EdgeTpu.open(usb_backend=VirtualEdgeTpu().register_model(first, whole)) as tpu:
        outputs = Model.load([first, second], tpu).run({"x0": x})
    assert outputs["x2"].tolist() == CpuEngine(whole).run({"x0": x})["x2"].tolist()


@pytest.mark.parametrize("name", ["deeplabv3_mnv2_pascal_quant"])
def test_a_real_model_gives_what_litert_gives_for_its_graph(golden: ModelFolder, name: str) -> None:
    compiled, graph = golden.model(f"{name}_edgetpu.tflite"), golden.model(f"{name}.tflite")
    with EdgeTpu.open(usb_backend=VirtualEdgeTpu().register_model(compiled, graph)) as tpu:
        model = Model.load(compiled, tpu)
        (image,) = model.inputs
        x = np.random.default_rng(0).integers(0, 256, image.shape, np.uint8)
        outputs = model.run({image.name: x})
    expected = CpuEngine(graph).run({image.name: x})
    assert list(outputs) == list(expected)
    for key, array in expected.items():
        np.testing.assert_array_equal(outputs[key], array)


@pytest.mark.parametrize(
    ("compiled", "graph"),
    [
        ("vision/split_concat_edgetpu.tflite", "vision/split_concat.tflite"),
        (
            "models/movenet_single_pose_lightning_ptq_edgetpu.tflite",
            "vision/movenet_single_pose_lightning_ptq.tflite",
        ),
        (
            "vision/mobilenet_v1_1.0_224_quant_embedding_extractor_edgetpu.tflite",
            "vision/mobilenet_v1_1.0_224_quant_embedding_extractor.tflite",
        ),
    ],
)
def test_outputs_have_the_names_and_the_order_of_the_graph(compiled: str, graph: str) -> None:
    source = GOLDEN.path(graph)
    stick = VirtualEdgeTpu().register_model(GOLDEN.path(compiled), source)
    engine, rng = CpuEngine(source), np.random.default_rng(0)
    inputs = {spec.name: rng.integers(0, 256, spec.shape, np.uint8) for spec in engine.inputs}
    with EdgeTpu.open(usb_backend=stick) as tpu:
        outputs = Model.load(GOLDEN.path(compiled), tpu).run(inputs)
    expected = engine.run(inputs)
    assert list(outputs) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array)


def test_posenet_ends_with_an_operator_of_this_package(golden: ModelFolder) -> None:
    name = "posenet_mobilenet_v1_075_353_481_16_quant_decoder"
    compiled, graph = golden.model(f"{name}_edgetpu.tflite"), golden.model(f"{name}.tflite")
    image = np.random.default_rng(0).integers(0, 256, (1, 353, 481, 3), np.uint8)
    with EdgeTpu.open(usb_backend=VirtualEdgeTpu().register_model(compiled, graph)) as tpu:
        outputs = Model.load(compiled, tpu).run({"sub_2": image})
    expected = Model.load(graph).run({"sub_2": image})
    assert [(key, array.shape) for key, array in outputs.items()] == [
        ("poses", (1, 20, 17, 2)),
        ("poses:1", (1, 20, 17)),
        ("poses:2", (1, 20)),
        ("poses:3", (1,)),
    ]
    for key, array in expected.items():
        np.testing.assert_array_equal(outputs[key], array)


def test_the_traffic_models_state_is_found_and_fed_back() -> None:
    path = GOLDEN.path("vision/traffic_model.tflite")
    plain = Model.load(path)
    feedback = likely_feedback(plain.inputs, plain.outputs)
    assert feedback == {
        "raw_outputs/lstm_c": "raw_inputs/init_lstm_c",
        "raw_outputs/lstm_h": "raw_inputs/init_lstm_h",
    }
    model = Model.load(path, feedback=feedback)
    (image,) = model.inputs
    outputs = model.run({image.name: np.full(image.shape, 128, np.uint8)}, stamp=0.0)
    assert [array.shape for array in outputs.values()][:4] == [(1, 40, 4), (1, 40), (1, 40), (1,)]
