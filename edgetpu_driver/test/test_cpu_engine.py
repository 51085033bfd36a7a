"""The CPU engine: results, names, threads and errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.engines import launching_thread, litert_interpreter, litert_process_pool
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.errors import (
    DependencyMissingError,
    InputError,
    ModelFormatError,
    ModelNotFoundError,
    ModelUnsupportedError,
)
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.subgraph_extraction import extract
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.toolchain import dense_graph
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata import ModelFolder
from testdata.graphs.graph_variants import with_quantization
from testdata.graphs.recurrent_cell import recurrent_cell
from testdata.timeouts import PATIENCE

pytest.importorskip("ai_edge_litert", reason="the CPU engine needs ai-edge-litert")


def doubling(description: str = "") -> bytes:
    """A graph that gives y = 2 x on int8[1, 4]."""
    graph = GraphBuilder(description)
    x = graph.input("x", (1, 4), np.int8, scale=1, zero_point=0)
    graph.output(graph.add(x, x, scale=1, zero_point=0, name="y"))
    return graph.build()


def test_a_model_runs_by_names() -> None:
    engine: Engine = CpuEngine(doubling())
    assert engine.inputs == (TensorSpec("x", (1, 4), np.dtype(np.int8), 1.0, 0),)
    assert engine.outputs == (TensorSpec("y", (1, 4), np.dtype(np.int8), 1.0, 0),)
    outputs = engine.run({"x": np.array([[1, -2, 3, 100]], np.int8)})
    assert list(outputs) == ["y"]
    assert outputs["y"].dtype == np.int8
    assert outputs["y"].tolist() == [[2, -4, 6, 127]]


@pytest.mark.parametrize("isolated", [False, True])
def test_no_directory_for_temporary_files_is_needed(isolated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    monkeypatch.setattr(litert_interpreter, "_greeted", threading.Event())
    engine = CpuEngine(doubling(), isolated=isolated)
    assert engine.run({"x": np.array([[1, -2, 3, 100]], np.int8)})["y"].tolist() == [[2, -4, 6, 127]]
    engine.close()


def test_a_model_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "doubling.tflite"
    file.write_bytes(doubling())
    x = np.array([[1, 2, 3, 4]], np.int8)
    assert CpuEngine(file).run({"x": x})["y"].tolist() == [[2, 4, 6, 8]]
    assert CpuEngine(str(file)).run({"x": x})["y"].tolist() == [[2, 4, 6, 8]]


def test_a_layer_of_one_row_cannot_be_rescaled_as_on_a_stick() -> None:
    request = WeightRequest(np.ones((1, 1)), rescale_rows=True)
    with pytest.raises(ModelUnsupportedError) as refused:
        CpuEngine(dense_graph.build(1)).set_weights(request)
    assert str(refused.value) == (
        "expected a layer of several rows with a scale for every row to rescale; 'y_steps/weights' of the "
        "model has one row"
    )


def test_outputs_belong_to_the_caller() -> None:
    engine = CpuEngine(doubling())
    first = engine.run({"x": np.full((1, 4), 1, np.int8)})["y"]
    first += 1
    engine.run({"x": np.full((1, 4), 5, np.int8)})
    assert first.tolist() == [[3, 3, 3, 3]]


def test_an_input_need_not_be_contiguous() -> None:
    image = np.arange(8, dtype=np.int8).reshape(1, 8)
    assert CpuEngine(doubling()).run({"x": image[:, ::2]})["y"].tolist() == [[0, 4, 8, 12]]


def test_a_real_graph_finds_the_bright_spot(golden: ModelFolder) -> None:
    engine = CpuEngine(golden.model("bright_64x64.tflite"))
    (image,), (position,) = engine.inputs, engine.outputs
    picture = np.zeros(image.shape, np.uint8)
    picture[0, 50, 10, 0] = 255
    x, y = position.dequantise(engine.run({image.name: picture})[position.name])[0] * 0.1
    # Column 10 and row 50 of 64 in -1..1; y is written with an offset of 1. One quantum is 0.0108.
    assert x == pytest.approx((10 - 31.5) / 31.5, abs=0.0108)
    assert y == pytest.approx((50 - 31.5) / 31.5 + 1, abs=0.0108)


def test_a_graph_that_xnnpack_refuses_runs_on_litert_s_own_kernels(golden: ModelFolder) -> None:
    """A resize from one scale to another, as in DeepLab graphs of 2019; it interpolates the stored values."""
    graph = golden.model("deeplabv3_mnv2_pascal_quant.tflite").read_bytes()
    parts = parse_model(graph).subgraphs[0]
    resize = next(each for each in parts.operators if each.name == "RESIZE_BILINEAR")
    names = [parts.tensors[index].name for index in (resize.inputs[0], *resize.outputs)]
    part = extract(graph, names[:1], names[1:])
    other = with_quantization(part, {names[1]: (0.25, 0)})
    engine, same = CpuEngine(other), CpuEngine(part)
    values = {names[0]: np.arange(256, dtype=np.uint8).reshape(engine.inputs[0].shape)}
    np.testing.assert_array_equal(engine.run(values)[names[1]], same.run(values)[names[1]])


def test_a_real_product_is_that_of_its_weights(golden: ModelFolder) -> None:
    engine = CpuEngine(golden.model("dense_256.tflite"))
    (vector,), (result,) = engine.inputs, engine.outputs
    zero = np.full(vector.shape, vector.zero_point, np.uint8)
    assert (engine.run({vector.name: zero})[result.name] == result.zero_point).all()


def test_threads_get_their_own_results() -> None:
    engine = CpuEngine(doubling())

    def double(value: int) -> list[int]:
        return [int(engine.run({"x": np.full((1, 4), value, np.int8)})["y"][0, 3]) for _ in range(200)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(double, range(4)))
    assert results == [[2 * value] * 200 for value in range(4)]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "expected the inputs 'x' int8[1, 4]; got none"),
        ({"z": np.zeros((1, 4), np.int8)}, "expected the inputs 'x' int8[1, 4]; got 'z'"),
        ({"x": np.zeros((4,), np.int8)}, "expected 'x' int8[1, 4]; got int8[4]"),
        ({"x": np.zeros((1, 4), np.uint8)}, "expected 'x' int8[1, 4]; got uint8[1, 4]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError) as caught:
        CpuEngine(doubling()).run(inputs)
    assert str(caught.value) == message


def test_a_compiled_model_is_refused_with_the_way_out(golden: ModelFolder) -> None:
    with pytest.raises(ModelUnsupportedError) as caught:
        CpuEngine(golden.model("bright_64x64_edgetpu.tflite"))
    assert str(caught.value) == (
        "'bright_64x64_edgetpu.tflite' is compiled for the Edge TPU: run it on the backend 'usb' or "
        "'virtual', or run its source graph on the CPU (the file without '_edgetpu' in its name)"
    )


def test_an_operator_unknown_to_litert_is_named() -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1,), np.int8, scale=1, zero_point=0)
    graph.output(*graph.custom("Mystery", [x], [TensorSpec("y", (1,), np.dtype(np.int8), 1, 0)]))
    with pytest.raises(ModelUnsupportedError, match=r"the model: LiteRT cannot run the graph: .*Mystery"):
        CpuEngine(graph.build())


@pytest.mark.parametrize("scale", [1e-12, 1e35])
def test_scales_that_end_litert_s_process_are_refused(scale: float) -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 4), np.int8, scale=1, zero_point=0)
    graph.output(graph.add(x, x, scale=scale, zero_point=0, name="y"))
    with pytest.raises(ModelUnsupportedError, match=r"the scale .*of 'y'"):
        CpuEngine(graph.build())


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"none\.tflite: No such file"):
        CpuEngine(tmp_path / "none.tflite")


def test_a_malformed_file_is_refused() -> None:
    with pytest.raises(ModelFormatError, match="TFL3"):
        CpuEngine(b"something else")


def test_without_litert_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(DependencyMissingError, match="pip install ai-edge-litert"):
        CpuEngine(doubling())


def test_only_litert_s_own_log_line_is_suppressed(tmp_path: Path) -> None:
    file = tmp_path / "doubling.tflite"
    file.write_bytes(doubling())
    script = (
        "import os, sys\n"
        "from edgetpu_driver.engines import cpu_engine, litert_interpreter\n"
        "with litert_interpreter._without_greeting():\n"
        "    os.write(2, b'another line\\n')\n"
        f"cpu_engine.CpuEngine({str(file)!r})\n"
        f"cpu_engine.CpuEngine({str(file)!r})\n"
        "print('to the end', file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.splitlines() == ["another line", "to the end"]


def test_prepared_weights_are_in_effect_when_they_are_committed_and_need_nothing_else_then(
    make_dense: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgetpu_driver.engines import graph_runner

    engine, twin = CpuEngine(make_dense(1)), CpuEngine(make_dense(1))
    x = {"x": np.arange(16, dtype=np.uint8).reshape(1, 16) * 9}
    weights = np.full((8, 16), 0.5, np.float32)
    before = engine.run(x)["y"]
    commit = engine.prepare_weights(WeightRequest(weights))
    np.testing.assert_array_equal(engine.run(x)["y"], before)
    twin.set_weights(weights)
    monkeypatch.delattr(graph_runner, "make_interpreter")
    assert commit().version == 1
    after = engine.run(x)["y"]
    np.testing.assert_array_equal(after, twin.run(x)["y"])
    assert not np.array_equal(after, before)


def test_a_reset_lets_no_other_thread_swap_weights_that_it_would_undo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = CpuEngine(recurrent_cell())
    prepare, locked = engine._runner.prepare, list[bool]()

    def look(data: bytes) -> Callable[[], None]:
        locked.append(engine._swap_lock.locked())
        return prepare(data)

    monkeypatch.setattr(engine._runner, "prepare", look)
    engine.reset()
    assert locked == [True]


@pytest.mark.parametrize("isolated", [False, True])
def test_a_process_that_was_forked_while_an_engine_is_made_can_make_its_own(isolated: bool) -> None:
    CpuEngine(doubling(), isolated=isolated).close()  # whose process a thread of this one has started
    with litert_interpreter._greeting_lock, litert_process_pool._lock, launching_thread._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE))  # ends the child if it waits for a lock
            status = 1
            try:
                CpuEngine(doubling(), isolated=isolated).close()
                status = 0
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
