"""New weights for a model in use: the same on the stick and on the CPU, with exact error reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.protocol import Engine, SwappableEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import ClippingError, InputError, ModelUnsupportedError
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.stick.loaded_model import LoadedModel
from edgetpu_driver.tflite.constant_patch import replace_tensor
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.packed_layout import weight_offsets
from edgetpu_driver.weights.replaceable_weights import INT8_MAX, WeightTensor, select_tensor, weight_tensors
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata import ModelFolder

pytest.importorskip("ai_edge_litert", reason="the virtual device needs ai-edge-litert")

RNG = np.random.default_rng(0)
SIZE = 64


def tensor_of(graph: bytes, name: str = "") -> WeightTensor:
    return select_tensor(weight_tensors(parse_model(graph)), name)


def real_weights(tensor: WeightTensor, share: float = 1.0) -> NDArray[np.float32]:
    """Gaussian values that use a given share of the range."""
    values = RNG.standard_normal(tensor.shape)
    return (values * (127 * share * tensor.scales.min() / np.abs(values).max())).astype(np.float32)


def run(engine: Engine, x: NDArray[np.generic]) -> NDArray[np.int64]:
    (values,) = engine.run({engine.inputs[0].name: x}).values()
    return values.astype(np.int64).ravel()


def stick_for(graph: bytes, model: CompiledModel) -> EdgeTpu:
    stick = VirtualEdgeTpu()
    stick.register_model(model, graph)
    return EdgeTpu.open(usb_backend=stick)


def packed(graph: bytes) -> CompiledModel:
    return CompiledModel.parse(pack(graph, name="model"), "model")


GOLDEN_TENSORS = {
    "dense_256": "",
    "color_red_64x64": "",
    "gabor_64x64_p4": "",
    "looming_64x64_3x3": "tfl.pseudo_qconst",
    "bright_64x64": "tfl.pseudo_qconst1",
}


@pytest.mark.parametrize("name", GOLDEN_TENSORS)
def test_a_real_model_gives_what_its_graph_gives_with_the_same_weights(
    golden: ModelFolder, name: str
) -> None:
    graph = golden.model(f"{name}.tflite").read_bytes()
    model = CompiledModel.load(golden.model(f"{name}_edgetpu.tflite"))
    tensor = tensor_of(graph, GOLDEN_TENSORS[name])
    weights = real_weights(tensor)
    (spec,) = model.inputs
    x = RNG.integers(0, 256, spec.shape).astype(spec.dtype)
    shape = (1,) * (len(tensor.shape) - 1) + (-1,) if tensor.rows_last else (-1,) + (1,) * (weights.ndim - 1)
    steps = np.rint(weights / tensor.scales.reshape(shape)).astype(np.int8)
    expected = CpuEngine(replace_tensor(graph, tensor.name, steps))
    with stick_for(graph, model) as tpu:
        engine: SwappableEngine = StickEngine(tpu, model)
        before = run(engine, x)
        swap = engine.set_weights(WeightRequest(weights, tensor=GOLDEN_TENSORS[name]))
        assert (swap.version, swap.clipped) == (1, 0)
        after = run(engine, x)
    assert np.abs(after - run(expected, x)).max() <= 1
    assert np.any(before != after)


@pytest.mark.parametrize("rescale_rows", [False, True])
def test_only_weights_and_when_asked_for_multipliers_of_a_real_blob_change(
    golden: ModelFolder, rescale_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = golden.model("dense_256.tflite").read_bytes()
    model = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    assert model.caching is not None
    own = np.frombuffer(model.caching.parameters, np.uint8)
    tensor, layout = tensor_of(graph), DenseLayout(256)
    weights = real_weights(tensor)
    uploaded: list[bytes] = []
    with stick_for(graph, model) as tpu:
        upload = LoadedModel.upload
        monkeypatch.setattr(
            LoadedModel, "upload", lambda loaded, blob: (uploaded.append(bytes(blob)), upload(loaded, blob))
        )
        engine = StickEngine(tpu, model, SidecarFiles())  # nothing is known except the model itself
        engine.set_weights(WeightRequest(weights, rescale_rows=True))
        swap = engine.set_weights(WeightRequest(weights, rescale_rows=rescale_rows))
    blob = np.frombuffer(uploaded[-1], np.uint8)
    headers = [own.reshape(4, -1)[:, :512], blob.reshape(4, -1)[:, :512]]
    assert np.array_equal(*headers) is not rescale_rows
    expected = np.rint(weights / swap.row_scales[:, np.newaxis]).astype(np.int8)
    np.testing.assert_array_equal(layout.decode(blob), expected)
    ratio = layout.decode_multipliers(blob) / swap.row_scales
    np.testing.assert_allclose(ratio, layout.decode_multipliers(own) / tensor.scales, rtol=1e-6)


@pytest.fixture
def graph() -> bytes:
    """The suite's own 64 x 64 matrix for weights from -1 to 1."""
    return dense.build(SIZE)


@pytest.fixture(params=["cpu", "stick"])
def engine(request: pytest.FixtureRequest, graph: bytes) -> Iterator[SwappableEngine]:
    """That matrix on either engine."""
    if request.param == "cpu":
        yield CpuEngine(graph)
        return
    model = packed(graph)
    with stick_for(graph, model) as tpu:
        yield StickEngine(tpu, model, SidecarFiles(graph))


def test_a_smaller_matrix_is_padded_with_zeros(engine: SwappableEngine) -> None:
    engine.set_weights(WeightRequest(np.ones((SIZE, SIZE), np.float32), accept_clipping=True))
    swap = engine.set_weights(WeightRequest(np.full((2, 3), 64 / INT8_MAX, np.float32)))
    assert swap.version == 2
    y = run(engine, np.full((1, SIZE), 255, np.uint8)) - 128
    assert y[:2].tolist() == [round(3 * 64 / INT8_MAX / dense.output_scale(SIZE))] * 2
    assert not y[2:].any()


def test_the_cpu_engine_takes_an_array_for_a_request_with_these_weights() -> None:
    weights = np.full((2, 3), 64 / INT8_MAX, np.float32)
    by_array, by_request = (CpuEngine(dense.build(SIZE)) for _ in range(2))
    by_array.set_weights(weights)
    by_request.set_weights(WeightRequest(weights))
    x = np.full((1, SIZE), 255, np.uint8)
    assert run(by_array, x).tolist() == run(by_request, x).tolist()


def test_a_swap_reports_quantisation_errors(engine: SwappableEngine) -> None:
    scale = np.float32(dense.weight_scales(SIZE)[0])
    swap = engine.set_weights(WeightRequest(np.array([[0.0, 10.25 * scale, -3.0 * scale]], np.float32)))
    assert swap.worst_error == pytest.approx(0.25 * scale, rel=1e-4)
    assert swap.rms_error == pytest.approx(0.25 * scale / np.sqrt(3), rel=1e-4)
    np.testing.assert_allclose(swap.row_scales, dense.weight_scales(SIZE)[:1], rtol=1e-7)


def test_values_out_of_range_are_refused_or_clipped_and_counted(engine: SwappableEngine) -> None:
    engine.set_weights(WeightRequest(np.array([[0.5]], np.float32)))
    x = np.full((1, SIZE), 255, np.uint8)
    before = run(engine, x)
    with pytest.raises(ClippingError, match="1 of 2 are beyond, by up to 1"):
        engine.set_weights(WeightRequest(np.array([[2.0, 1.0]], np.float32)))
    np.testing.assert_array_equal(run(engine, x), before)
    swap = engine.set_weights(WeightRequest(np.array([[2.0, 1.0]], np.float32), accept_clipping=True))
    assert (swap.version, swap.clipped) == (2, 1)
    assert swap.worst_error == pytest.approx(1.0, rel=1e-3)


def test_errors_of_values_close_to_the_largest_are_reported_too(engine: SwappableEngine) -> None:
    weights = np.array([[3e38, 0.0, 0.0, 0.0]], np.float32)
    with pytest.raises(ClippingError, match=r"1 of 4 are beyond, by up to 3e\+38"):
        engine.set_weights(WeightRequest(weights))
    swap = engine.set_weights(WeightRequest(weights, accept_clipping=True))
    assert (swap.worst_error, swap.rms_error) == (pytest.approx(3e38), pytest.approx(1.5e38))


def test_rescaled_rows_use_all_of_int8_whatever_their_size(engine: SwappableEngine) -> None:
    weights = RNG.standard_normal((SIZE, SIZE)).astype(np.float32)
    weights *= np.logspace(-2, 1, SIZE, dtype=np.float32)[:, np.newaxis]
    swap = engine.set_weights(WeightRequest(weights, rescale_rows=True))
    assert swap.clipped == 0
    np.testing.assert_allclose(swap.row_scales, np.abs(weights).max(axis=1) / 127, rtol=1e-6)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full((SIZE, SIZE), np.nan, np.float32), "weights that are finite as float32; got 4096 NaN"),
        (np.array([[np.inf, 0.0]]), "got 1 infinite"),
        (np.array([[1e39, 0.0]]), "got 1 infinite"),
        (np.zeros((SIZE + 1, SIZE)), r"at most \[64, 64\].*got float64\[65, 64\]"),
        (np.zeros(SIZE), "got float64"),
        (np.zeros((0, SIZE)), "got float64"),
        (np.zeros((SIZE, SIZE), complex), "got complex128"),
    ],
)
def test_invalid_weights_are_refused_and_change_nothing(
    engine: SwappableEngine, weights: NDArray[np.float32], message: str
) -> None:
    x = np.full((1, SIZE), 200, np.uint8)
    before = run(engine, x)
    with pytest.raises(InputError, match=message):
        engine.set_weights(WeightRequest(weights))
    np.testing.assert_array_equal(run(engine, x), before)


def test_an_unknown_tensor_is_refused_with_the_names_there_are(engine: SwappableEngine) -> None:
    with pytest.raises(InputError, match="expected one of the weight tensors 'y_steps/weights'; got 'bias'"):
        engine.set_weights(WeightRequest(np.zeros((SIZE, SIZE)), tensor="bias"))


def test_engines_of_one_model_on_one_stick_keep_their_own_weights(graph: bytes) -> None:
    model = packed(graph)
    x = np.full((1, SIZE), 255, np.uint8)
    with stick_for(graph, model) as tpu:
        engines = [StickEngine(tpu, model, SidecarFiles(graph)) for _ in range(3)]
        for share, engine in zip((0.25, 0.5), engines, strict=False):
            engine.set_weights(WeightRequest(np.array([[share]], np.float32)))
        untouched = run(CpuEngine(graph), x)
        for _ in range(2):
            results = [run(engine, x) for engine in engines]
            expected = [round(share / dense.output_scale(SIZE)) for share in (0.25, 0.5)]
            assert [int(result[0]) - 128 for result in results[:2]] == expected
            np.testing.assert_array_equal(results[2], untouched)


def test_a_packed_model_with_a_different_graph_is_refused(graph: bytes) -> None:
    other = dense.build(100)
    with stick_for(other, packed(other)) as tpu:
        engine = StickEngine(tpu, packed(other), SidecarFiles(graph))
        with pytest.raises(ModelUnsupportedError, match="it is not known where 'model' keeps its weights"):
            engine.set_weights(WeightRequest(np.zeros((100, 100))))


def test_a_sidecar_tells_where_a_kernel_is(golden: ModelFolder, tmp_path: Path) -> None:
    """Locations as in sidecars of pattern trackers; here the parameters are in reverse order."""
    graph = golden.model("pattern_64x64_8x8_1ch.tflite").read_bytes()
    sidecar = json.loads(golden.model("pattern_64x64_8x8_1ch_edgetpu.json").read_text())
    model = packed(graph)
    assert model.caching is not None
    parameters = bytes(model.caching.parameters)[::-1]
    tensor = tensor_of(graph)
    first = len(parameters) - 1 - weight_offsets(graph)[tensor.name]
    sidecar["conv_weight_offsets"] = list(range(first, first - 64, -1))
    (tmp_path / "pattern_edgetpu.json").write_text(json.dumps(sidecar))
    reversed_model = replace(
        model,
        caching=replace(model.caching, parameters=parameters),
        path=tmp_path / "pattern_edgetpu.tflite",
    )
    weights = real_weights(tensor)
    x = RNG.integers(0, 256, model.inputs[0].shape).astype(np.uint8)
    on_cpu = CpuEngine(graph)
    with stick_for(graph, reversed_model) as tpu:
        engine = StickEngine(tpu, reversed_model)
        np.testing.assert_array_equal(run(engine, x), run(on_cpu, x))
        assert engine.set_weights(WeightRequest(weights)).row_scales == pytest.approx([1 / 127])
        on_cpu.set_weights(WeightRequest(weights))
        np.testing.assert_array_equal(run(engine, x), run(on_cpu, x))


def test_a_sidecar_of_a_model_that_was_compiled_otherwise_is_refused(golden: ModelFolder) -> None:
    """The offsets are those of Google's compiler; the packer puts the weights elsewhere."""
    graph = golden.model("pattern_64x64_8x8_1ch.tflite").read_bytes()
    sidecar = json.loads(golden.model("pattern_64x64_8x8_1ch_edgetpu.json").read_text())
    with stick_for(graph, packed(graph)) as tpu:
        engine = StickEngine(tpu, packed(graph), SidecarFiles(sidecar=sidecar))
        with pytest.raises(ModelUnsupportedError, match="it belongs to another model than these parameters"):
            engine.set_weights(WeightRequest(np.zeros((1, 8, 8, 1))))


@pytest.mark.parametrize(
    "change",
    [
        {"conv_weight_offsets": list(range(63))},
        {"conv_weight_offsets": [0] * 64},
        {"conv_weight_offsets": list(range(10**6, 10**6 + 64))},
        {"conv_weight_blob": "elsewhere"},
        {"conv_weight_scale": 0.0},
        {"conv_weight_scale": None},
    ],
)
def test_a_sidecar_that_makes_no_sense_is_refused(golden: ModelFolder, change: dict[str, object]) -> None:
    graph = golden.model("pattern_64x64_8x8_1ch.tflite").read_bytes()
    sidecar = json.loads(golden.model("pattern_64x64_8x8_1ch_edgetpu.json").read_text())
    with stick_for(graph, packed(graph)) as tpu:
        engine = StickEngine(tpu, packed(graph), SidecarFiles(sidecar=sidecar | change))
        with pytest.raises(ModelUnsupportedError, match="sidecar of 'model' cannot be used"):
            engine.set_weights(WeightRequest(np.zeros((1, 8, 8, 1))))
