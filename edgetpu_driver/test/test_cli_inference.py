"""Running, measuring and testing models from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.cli.main import main
from edgetpu_driver.cli.tensor_files import fitted, read_inputs, write_outputs
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.engines.whole_model.input_ranges import input_ranges
from edgetpu_driver.engines.whole_model.pipeline_segments import load_plan
from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import Tensor, per_tensor
from edgetpu_driver.tflite.model_writer import OperatorRecord, write_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.toolchain.edgetpu_compiler import compile_command
from testdata import GOLDEN, ModelFolder
from testdata.graphs.compiled_graphs import compiled_graph, segments, source_graph

pytest.importorskip("ai_edge_litert", reason="LiteRT computes the results (pip install ai-edge-litert)")
pytestmark = pytest.mark.usefixtures("graphs_in_this_process")

IMAGE = TensorSpec("image", (1, 2, 2, 1), np.dtype(np.uint8), 0.5, 10)


@pytest.mark.parametrize("backend", ["cpu", "virtual"])
def test_run_gives_the_values_of_the_outputs(
    graph: Path, capsys: pytest.CaptureFixture[str], backend: str
) -> None:
    (graph.parent / "x.raw").write_bytes(bytes([130, 131]))
    arguments = ["run", graph, "--input", graph.parent / "x.raw", "--backend", backend, "--json"]
    assert main(list(map(str, arguments))) == 0
    (output,) = json.loads(capsys.readouterr().out)["outputs"]
    assert (output["name"], output["dtype"], output["values"]) == ("y", "uint8", [[133]])


def test_run_quantises_real_numbers_and_writes_the_output(graph: Path) -> None:
    source, target = graph.parent / "x.npy", graph.parent / "y.npy"
    np.save(source, np.array([1.0, 1.5]))
    arguments = ["run", graph, "--input", f"x={source}", "--backend", "cpu", "--output", target]
    assert main(list(map(str, arguments))) == 0
    np.testing.assert_array_equal(np.load(target), [[133]])


def test_run_refuses_an_input_of_another_size(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (graph.parent / "x.raw").write_bytes(bytes(3))
    arguments = ["run", graph, "--input", graph.parent / "x.raw", "--backend", "cpu"]
    assert main(list(map(str, arguments))) == 1
    assert "expected 2 bytes for 'x' uint8[1, 2]" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
@pytest.mark.parametrize("content", ["nothing", "text", "objects", "the other kind", "a header alone"])
def test_files_that_hold_no_numbers_are_refused(tmp_path: Path, name: str, content: str) -> None:
    save: Any = np.save if (name == "x.npy") == (content == "objects") else np.savez
    path = tmp_path / name
    with path.open("wb") as file:
        if content == "text":
            file.write(b"a, b")
        elif content == "a header alone":
            array = np.lib.format.header_data_from_array_1_0(np.zeros(1))
            np.lib.format.write_array_header_1_0(file, array | {"shape": (10**12,)})
        elif content != "nothing":
            save(file, np.array([{}] if content == "objects" else [1.0]))
    with pytest.raises(InputError, match=rf"x\{path.suffix} is not a \{path.suffix} file of numbers"):
        read_inputs([IMAGE], [str(path)])


def test_run_refuses_a_plain_graph_on_a_stick_before_it_looks_for_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = GraphBuilder("softmax")
    builder.output(builder.softmax(builder.input("x", (1, 4), np.int8, scale=1.0, zero_point=0)))
    (tmp_path / "softmax.tflite").write_bytes(builder.build())
    assert main(["run", str(tmp_path / "softmax.tflite"), "--input", "x.raw"]) == 1
    assert f"run `{compile_command(tmp_path / 'softmax.tflite')}`" in capsys.readouterr().err


def test_benchmark_counts_the_bytes_of_an_inference(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", str(graph), "--backend", "virtual", "--runs", "5", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["runs"] == 5
    assert 0 < value["milliseconds"]["min"] <= value["milliseconds"]["p50"] <= value["milliseconds"]["max"]
    assert (value["uploads"], value["retries"]) == (0, 0)
    assert value["bytes_received_per_run"] >= 8 + 16


@pytest.mark.parametrize("backend", ["cpu", "virtual"])
def test_selftest_passes_on_a_working_device(capsys: pytest.CaptureFixture[str], backend: str) -> None:
    assert main(["selftest", "--backend", backend, "--runs", "3", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    outcomes = {each["name"]: each["outcome"] for each in value["checks"]}
    assert value["passed"] is True
    assert outcomes["results"] == outcomes["repetition"] == "passed"


def test_selftest_fails_where_results_are_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = StickEngine.run

    def wrong(engine: StickEngine, inputs: Any) -> Any:
        return {name: array ^ np.uint8(2) for name, array in right(engine, inputs).items()}

    monkeypatch.setattr(StickEngine, "run", wrong)
    assert main(["selftest", "--backend", "virtual", "--runs", "1"]) == 1
    assert "failed   results" in capsys.readouterr().out


def test_selftest_of_a_compiled_model_wants_its_graph(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "x_edgetpu.tflite"
    path.write_bytes(b"")
    assert main(["selftest", "--model", str(path)]) == 1
    assert f"expected the graph {tmp_path / 'x.tflite'} to compare results with" in capsys.readouterr().err


def test_an_array_is_given_the_extents_of_one_it_lacks() -> None:
    array = np.array([[1, 2], [3, 4]], np.uint8)
    np.testing.assert_array_equal(fitted(IMAGE, array), array.reshape(1, 2, 2, 1))


def test_an_array_of_another_shape_or_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected 'image' uint8\[1, 2, 2, 1\]; got uint8\[4\]"):
        fitted(IMAGE, np.zeros(4, np.uint8))
    with pytest.raises(InputError, match="got int64"):
        fitted(IMAGE, np.zeros((2, 2), np.int64))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    with pytest.raises(InputError, match=r"expected finite numbers for 'image'"):
        fitted(IMAGE, np.array([0.0, 1.0, 2.0, number]).reshape(1, 2, 2, 1))


def test_an_image_is_resized_to_the_input(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV reads images")
    path = tmp_path / "grey.png"
    cv2.imwrite(str(path), np.full((8, 8), 77, np.uint8))
    np.testing.assert_array_equal(read_inputs([IMAGE], [str(path)])["image"], np.full((1, 2, 2, 1), 77))


def test_an_archive_holds_inputs_by_name(tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, image=np.ones((2, 2), np.uint8))
    assert read_inputs([IMAGE], [str(path)]).keys() == {"image"}


def test_an_input_given_twice_is_refused(tmp_path: Path) -> None:
    raw, archive = tmp_path / "x.raw", tmp_path / "x.npz"
    raw.write_bytes(bytes(4))
    np.savez(archive, image=np.ones((2, 2), np.uint8))
    for second in (raw, archive, f"image={raw}"):
        with pytest.raises(InputError, match="expected each input once; got image again from"):
            read_inputs([IMAGE], [str(raw), str(second)])


@pytest.mark.parametrize("runs", ["0", "-3", "x", "1.5"])
def test_runs_are_a_positive_whole_number(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["benchmark", "model.tflite", f"--runs={runs}"])
    assert left.value.code == 2
    assert f"expected a positive whole number; got '{runs}'" in capsys.readouterr().err


def test_several_outputs_need_an_archive(tmp_path: Path) -> None:
    outputs = {"a": np.zeros(1, np.uint8), "b": np.ones(2, np.uint8)}
    with pytest.raises(InputError, match=r"2 outputs \(a, b\)"):
        write_outputs(tmp_path / "out.npy", outputs)
    write_outputs(tmp_path / "out.npz", outputs)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["b"], [1, 1])


def test_no_output_is_not_an_array(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the model has 0 outputs: give --output"):
        write_outputs(tmp_path / "out.npy", {})


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """A compiled model with operators around and between its two parts, and its graph next to it."""
    path = tmp_path / "parts_edgetpu.tflite"
    path.write_bytes(compiled_graph(2))
    (tmp_path / "parts.tflite").write_bytes(source_graph(2))
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.uint8) * 30)
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_run_gives_the_graphs_own_outputs(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, x = compiled.with_name("parts.tflite"), compiled.with_name("x.npy")
    whole = answer(capsys, "run", compiled, "--input", x, "--backend", "virtual")["outputs"]
    assert [output["name"] for output in whole] == ["b0", "last"]
    assert whole == answer(capsys, "run", graph, "--input", x, "--backend", "cpu")["outputs"]


def test_the_cpu_runs_the_graph_next_to_a_compiled_model_and_says_so(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", compiled, "--input", compiled.with_name("x.npy"), "--backend", "cpu"]
    assert main(list(map(str, arguments))) == 0
    note = "the CPU runs parts.tflite, which parts_edgetpu.tflite was compiled from"
    assert capsys.readouterr().out.startswith(note + "\n")
    compiled.with_name("parts.tflite").unlink()
    assert main(list(map(str, arguments))) == 1
    assert "expected the graph it was compiled from, parts.tflite" in capsys.readouterr().err


def test_a_part_gives_its_inner_tensors_and_says_so(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(compiled.with_name("x.npy"), np.zeros(8, np.int8))
    arguments = ["run", compiled, "--input", compiled.with_name("x.npy"), "--backend", "virtual", "--part", 2]
    assert main(list(map(str, arguments))) == 0
    note, heading, row = capsys.readouterr().out.splitlines()
    assert note == "part 2 of the model only: inner tensors; the model's own outputs are b0, last"
    assert heading.split()[0] == "output"
    assert row.split()[:3] == ["b1", "int8", "1x8"]


def test_a_part_that_is_not_there_is_refused(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", compiled, "--input", "x.npy", "--backend", "virtual", "--part", 3]
    assert main(list(map(str, arguments))) == 1
    assert "expected --part from 1 to 2; got 3" in capsys.readouterr().err


def test_segments_run_with_the_graph_of_all_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, parts = segments(2)
    (tmp_path / "chain.tflite").write_bytes(whole)
    paths = [tmp_path / f"chain_segment_{n}_of_2_edgetpu.tflite" for n in range(2)]
    for path, data in zip(paths, parts, strict=True):
        path.write_bytes(data)
    x = tmp_path / "x.npy"
    np.save(x, np.arange(8, dtype=np.int8))
    (output,) = answer(capsys, "run", *paths, "--input", x, "--backend", "virtual")["outputs"]
    (on_cpu,) = answer(capsys, "run", *paths, "--input", x, "--backend", "cpu")["outputs"]
    assert main(["run", str(paths[1]), "--input", str(x), "--backend", "cpu"]) == 1
    assert "chain_segment_1_of_2.tflite or chain.tflite" in capsys.readouterr().err
    (expected,) = answer(capsys, "run", tmp_path / "chain.tflite", "--input", x, "--backend", "cpu")[
        "outputs"
    ]
    assert output == on_cpu == expected


def test_benchmark_measures_the_whole_model_or_a_part(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("benchmark", compiled, "--backend", "virtual", "--runs", 2)
    whole, part = (answer(capsys, *arguments, *more) for more in ((), ("--part",)))
    assert (whole["part"], part["part"]) == (None, 1)
    assert part["bytes_sent_per_run"] < whole["bytes_sent_per_run"]
    assert [step["runs_on"] for step in whole["steps"]] == [
        *("CPU, LiteRT", "Edge TPU", "CPU, LiteRT", "Edge TPU", "CPU, LiteRT")
    ]
    total = sum(step["mean_milliseconds"] for step in whole["steps"])
    assert 0 < total <= whole["milliseconds"]["mean"]
    assert part["steps"] == []


def test_the_state_of_a_recurrent_model_starts_at_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = GraphBuilder("counter")
    x = builder.input("x", (1, 1), np.int8, scale=1, zero_point=0)
    before = builder.input("inputs/sum", (1, 1), np.int8, scale=1, zero_point=5)
    builder.output(builder.add(x, before, scale=1, zero_point=0, name="outputs/sum"))
    path, file = tmp_path / "counter.tflite", tmp_path / "x.raw"
    path.write_bytes(builder.build())
    file.write_bytes(bytes([3]))
    value = answer(capsys, "run", path, "--input", file, "--backend", "cpu")
    assert value["states_from_zero"] == ["inputs/sum"]
    assert value["outputs"][0]["values"] == [[3]]
    given = answer(capsys, "run", path, "--input", file, "--input", f"inputs/sum={file}", "--backend", "cpu")
    assert given["states_from_zero"] == []
    assert given["outputs"][0]["values"] == [[1]]


def test_an_input_without_a_file_is_named(tmp_path: Path) -> None:
    other = TensorSpec("other", (1,), np.dtype(np.uint8), 0.5, 0)
    (tmp_path / "x.raw").write_bytes(bytes(4))
    with pytest.raises(InputError, match=r"expected --input NAME=FILE for each of 'other' uint8\[1\] too"):
        read_inputs([IMAGE, other], [f"image={tmp_path / 'x.raw'}"])


def test_selftest_compares_every_part_of_a_model(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = answer(capsys, "selftest", "--model", compiled, "--backend", "virtual", "--runs", 2)
    details = {check["name"]: check["detail"] for check in value["checks"]}
    assert "largest 0, between LiteRT's own kernels" in details["results"]
    assert details["top results"] == "2 runs: 4 of 4 have the largest value where LiteRT has it"


@pytest.mark.parametrize("name", ["deeplabv3_mnv2_pascal_quant"])
def test_selftest_passes_on_a_deep_network_with_operators_on_the_cpu(
    golden: ModelFolder, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    golden.model(f"{name}.tflite")
    path = golden.model(f"{name}_edgetpu.tflite")
    assert answer(capsys, "selftest", "--model", path, "--backend", "virtual", "--runs", 1)["passed"] is True


def test_a_plain_graph_that_the_virtual_stick_cannot_have_runs_on_the_cpu_and_says_so(
    golden: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, image = golden.model("deeplabv3_mnv2_pascal_quant.tflite"), tmp_path / "x.raw"
    image.write_bytes(bytes(513 * 513 * 3))
    assert main(["run", str(path), "--input", str(image), "--backend", "virtual"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("all of it runs on the CPU, nothing on the virtual stick: expected")
    assert "ArgMax  int64  1x513x513" in output


def test_interpolated_grey_levels_are_rounded_down(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV reads images")
    path = tmp_path / "grey.png"
    cv2.imwrite(str(path), np.array([[10, 12, 20, 23], [10, 12, 20, 23]], np.uint8))
    image = TensorSpec("image", (1, 2, 2, 1), np.dtype(np.uint8), 0.5, 10)
    assert read_inputs([image], [str(path)])["image"].reshape(2, 2).tolist() == [[11, 21], [11, 21]]


def test_run_finds_the_vendors_poses_in_a_picture(
    golden: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cv2", reason="OpenCV reads images")
    name = "posenet_mobilenet_v1_075_353_481_16_quant_decoder"
    path, _ = golden.model(f"{name}_edgetpu.tflite"), golden.model(f"{name}.tflite")
    picture = GOLDEN.path("vision/pictures/test_image.bmp")
    reference = np.loadtxt(
        GOLDEN.path(f"vision/references/{name}_reference.csv"), delimiter=",", skiprows=1
    ).reshape(2, 17, 6)
    outputs = answer(capsys, "run", path, "--input", picture, "--backend", "virtual")["outputs"]
    poses, keypoint_scores, scores, count = (np.array(output["values"])[0] for output in outputs)
    assert count == 2
    for pose, expected in enumerate(reference):
        keypoints = poses[pose][:, ::-1] / (481, 353)
        assert np.abs(keypoints - expected[:, 4:]).max() < 0.01
        assert np.abs(keypoint_scores[pose] - expected[:, 3]).max() < 0.02
        assert abs(scores[pose] - expected[0, 1]) < 0.02


@pytest.mark.parametrize(
    ("scale", "zero_point", "expected"), [(1 / 255, -128, [0.0, 1.0]), (2 / 255, 0, [-256 / 255, 254 / 255])]
)
def test_a_picture_covers_the_range_that_a_float_input_is_quantised_to(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    scale: float,
    zero_point: int,
    expected: list[float],
) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV reads images")
    shape = (1, 1, 2, 1)
    image = Tensor("image", shape, np.dtype(np.float32))
    pixels = Tensor("pixels", shape, np.dtype(np.int8), quantization=per_tensor(scale, zero_point))
    operator = OperatorRecord("QUANTIZE", 1, (0,), (1,))
    path, picture = tmp_path / "float.tflite", tmp_path / "grey.png"
    path.write_bytes(write_model("float", [image, pixels], [operator], [0], [1]))
    cv2.imwrite(str(picture), np.array([[0, 255]], np.uint8))
    ranges = input_ranges(load_plan(path))
    np.testing.assert_allclose(ranges["image"], expected, atol=1e-6)
    np.testing.assert_allclose(
        read_inputs([image.spec], [str(picture)], ranges=ranges)["image"].ravel(), expected, atol=1e-6
    )
    (output,) = answer(capsys, "run", path, "--input", picture, "--backend", "cpu")["outputs"]
    assert output["values"] == [[[[-128], [127]]]]


def test_selftest_compares_outputs_whose_shapes_the_file_does_not_state(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = GOLDEN.path("vision/traffic_model.tflite")
    assert answer(capsys, "selftest", "--model", path, "--backend", "cpu", "--runs", 1)["passed"] is True
