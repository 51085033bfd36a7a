from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.images.encodings import ImageError
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.graphs import spot_tracker_evidence as spot
from edgetpu_perception.optical_flow.optical_flow import FlowResult, OpticalFlow
from edgetpu_perception.shared_engine import SharedEngine
from testdata import ModelFolder
from testdata.same_results import same

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

Image = NDArray[np.uint8]

BLOCK = 4
"""Texels of a photograph per px of a 64x64 window: windows can be 1/4 px apart, exactly."""


class Photographs:
    """Cuts 64x64 windows with a known distance out of photographs."""

    names = ("camera", "coffee", "gravel", "chelsea")

    def __init__(self) -> None:
        data = pytest.importorskip("skimage.data", reason="needs scikit-image for photographs")
        self.random = np.random.default_rng(8)
        self._photos = []
        for name in self.names:
            pixels = getattr(data, name)()
            grey = pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
            # 128 px across, as large as two windows.
            self._photos.append(cv2.resize(grey, (128 * BLOCK, 128 * BLOCK)).astype(np.float64))

    def pair(
        self,
        dx: float,
        dy: float,
        photo: int = 0,
        noise: float = 0.0,
        gain: float = 1.0,
        offset: float = 0.0,
        size: int = 64,
    ) -> tuple[Image, Image]:
        """Two windows whose content moves by (dx, dy) px, multiples of 1/4."""
        shift = np.array([dx, dy]) * BLOCK
        assert np.array_equal(shift, np.rint(shift))
        room = 64 * BLOCK
        x, y = self.random.integers(np.maximum(0, shift), np.minimum(room, room + shift) + 1)
        first = self._window(photo, x, y, size)
        second = self._window(photo, x - int(shift[0]), y - int(shift[1]), size) * gain + offset
        return self._noisy(first, noise), self._noisy(second, noise)

    def _window(self, photo: int, x: int, y: int, size: int) -> NDArray[np.float64]:
        texels = self._photos[photo][y : y + 64 * BLOCK, x : x + 64 * BLOCK]
        block = 64 * BLOCK // size
        return texels.reshape(size, block, size, block).mean(axis=(1, 3))

    def _noisy(self, image: NDArray[np.float64], noise: float) -> Image:
        return np.clip(np.rint(image + self.random.normal(0, noise, image.shape)), 0, 255).astype(np.uint8)


@pytest.fixture
def photographs() -> Photographs:
    return Photographs()


def moved(flow: OpticalFlow, pair: tuple[Image, Image]) -> FlowResult:
    flow.reset()
    flow.update(pair[0], 1.0)
    return flow.update(pair[1], 2.0)


def errors(flow: OpticalFlow, photographs: Photographs, reach: float, count: int, **light: float) -> Any:
    """Errors and sigmas of random shifts of every photograph, px: [n, 2] each; invalid results are NaN."""
    found = []
    for photo in range(len(photographs.names)):
        for _ in range(count):
            dx, dy = np.rint(photographs.random.uniform(-reach, reach, 2) * BLOCK) / BLOCK
            result = moved(flow, photographs.pair(dx, dy, photo, **light))
            found.append((result.dx - dx, result.dy - dy, result.dx_sigma, result.dy_sigma))
    array = np.array(found)
    return array[:, :2], array[:, 2:]


def rmse(error: Any) -> float:
    return math.sqrt(np.mean(np.square(error)))


def test_the_first_frame_has_no_motion(photographs: Photographs) -> None:
    result = OpticalFlow().update(photographs.pair(0, 0)[0], 1.5)
    assert (result.stamp, result.valid, result.confidence) == (1.5, False, 0.0)
    assert all(math.isnan(value) for value in (result.previous_stamp, result.dx, result.dy, result.dx_sigma))


@pytest.mark.parametrize(("dx", "dy"), [(0, 0), (1, 0), (0, 3), (-16, 5), (16, -16)])
def test_a_shift_by_whole_pixels_is_found_exactly(photographs: Photographs, dx: int, dy: int) -> None:
    result = moved(OpticalFlow(), photographs.pair(dx, dy))
    assert (result.stamp, result.previous_stamp, result.valid) == (2.0, 1.0, True)
    assert result.confidence == 1.0
    assert (result.dx, result.dy) == pytest.approx((dx, dy), abs=1e-4)


@pytest.mark.parametrize("size", [96, 128])
def test_a_larger_input_is_at_the_same_scale(photographs: Photographs, size: int) -> None:
    flow = OpticalFlow(size=size)
    assert flow.model == features.name(size, size)
    result = moved(flow, photographs.pair(5.0, -3.0))
    assert (result.dx, result.dy) == pytest.approx((5.0, -3.0), abs=0.1)


def test_fractions_of_a_pixel_are_found_to_half_a_hundredth(photographs: Photographs) -> None:
    # Measured: 0.0037 px.
    error, _ = errors(OpticalFlow(), photographs, 16, 25)
    assert rmse(error) < 0.005


def test_small_shifts_have_no_bias_towards_whole_pixels(photographs: Photographs) -> None:
    flow = OpticalFlow()
    halves = [moved(flow, photographs.pair(0.5, -0.5, photo % 4)) for photo in range(16)]
    assert np.mean([result.dx for result in halves]) == pytest.approx(0.5, abs=0.005)
    assert np.mean([result.dy for result in halves]) == pytest.approx(-0.5, abs=0.005)


def test_errors_with_noise_and_changed_light_are_below_two_hundredths(photographs: Photographs) -> None:
    flow = OpticalFlow()
    brighter, _ = errors(flow, photographs, 16, 12, noise=4, gain=1.2, offset=-20)
    darker, _ = errors(flow, photographs, 16, 12, noise=4, gain=0.8, offset=20)
    # Measured: 0.014 and 0.015 px.
    assert rmse(brighter) < 0.018
    assert rmse(darker) < 0.019


def test_a_dim_picture_is_sufficient(photographs: Photographs) -> None:
    first, second = photographs.pair(3.25, -7.5)
    result = moved(OpticalFlow(), (first // 5, second // 5))
    assert result.valid
    assert (result.dx, result.dy) == pytest.approx((3.25, -7.5), abs=0.05)


@pytest.mark.parametrize("size", [128, 256])
def test_a_larger_image_gives_its_own_pixels(photographs: Photographs, size: int) -> None:
    result = moved(OpticalFlow(), photographs.pair(2.5, -1.25, size=size))
    scale = size / 64
    assert (result.dx, result.dy) == pytest.approx((2.5 * scale, -1.25 * scale), abs=0.02 * scale)


def test_width_and_height_are_scaled_apart(photographs: Photographs) -> None:
    first, second = (np.kron(image, np.ones((2, 5), np.uint8)) for image in photographs.pair(4, 3))
    result = moved(OpticalFlow(), (first, second))
    assert (result.dx, result.dy) == pytest.approx((20, 6), abs=1e-3)


def test_a_color_image_is_followed_by_its_brightness(photographs: Photographs) -> None:
    pair = photographs.pair(4, 3)
    first, second = (np.repeat(image[..., np.newaxis], 3, axis=2) for image in pair)
    assert moved(OpticalFlow(), (first, second)) == moved(OpticalFlow(), pair)


def test_sigmas_cover_68_percent_of_errors(photographs: Photographs) -> None:
    error, sigma = errors(OpticalFlow(), photographs, 12, 30, noise=4)
    assert 0.60 <= np.mean(np.abs(error) < sigma) <= 0.76


def test_sigmas_of_a_camera_at_rest_cover_68_percent_of_errors(photographs: Photographs) -> None:
    error, sigma = errors(OpticalFlow(), photographs, 0, 30, noise=0.5)
    assert 0.60 <= np.mean(np.abs(error) < sigma) <= 0.76


def test_sigmas_are_in_pixels_of_the_image(photographs: Photographs) -> None:
    pair = photographs.pair(2, 1, noise=3)
    large = moved(OpticalFlow(), tuple(np.kron(image, np.ones((2, 3), np.uint8)) for image in pair))
    small = moved(OpticalFlow(), pair)
    assert (large.dx_sigma, large.dy_sigma) == pytest.approx((3 * small.dx_sigma, 2 * small.dy_sigma))


@pytest.mark.parametrize(("dx", "dy"), [(21, 0), (0, -24), (-30, 30), (40, 5)])
def test_a_shift_beyond_the_reach_is_not_valid(photographs: Photographs, dx: int, dy: int) -> None:
    flow = OpticalFlow()
    for photo in range(len(photographs.names)):
        result = moved(flow, photographs.pair(dx, dy, photo))
        assert not result.valid
        assert all(math.isnan(value) for value in (result.dx, result.dy, result.dx_sigma, result.dy_sigma))


def stripes(phase: float) -> Image:
    wave = np.sin(2 * np.pi * (np.arange(64) - phase) / 11)
    return np.tile(np.rint(120 + 60 * wave).astype(np.uint8), (64, 1))


def bare_wall(level: int, noise: float, seed: int) -> Image:
    random = np.random.default_rng(seed)
    return np.clip(np.rint(random.normal(level, noise, (64, 64))), 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    "pair",
    [
        (np.full((64, 64), 90, np.uint8), np.full((64, 64), 90, np.uint8)),
        (np.zeros((64, 64), np.uint8), np.full((64, 64), 255, np.uint8)),
        (bare_wall(120, 4, 1), bare_wall(120, 4, 2)),
        (stripes(0), stripes(3)),
        (np.tile(np.arange(64, dtype=np.uint8) * 2, (64, 1)),) * 2,
    ],
    ids=["even", "black and white", "noise", "stripes", "a slope"],
)
def test_frames_without_texture_are_not_valid(pair: tuple[Image, Image]) -> None:
    assert not moved(OpticalFlow(), pair).valid


def test_unrelated_frames_are_not_valid(photographs: Photographs) -> None:
    flow = OpticalFlow()
    for _ in range(8):
        first = [photographs.pair(0, 0, photo)[0] for photo in range(len(photographs.names))]
        for a, b in ((0, 1), (1, 2), (2, 3), (3, 0)):
            assert not moved(flow, (first[a], first[b])).valid


def test_results_below_the_minimum_confidence_are_not_valid(photographs: Photographs) -> None:
    first, second = photographs.pair(3, 2)
    pair = first // 24, second // 24
    doubtful = moved(OpticalFlow(min_confidence=0.0), pair)
    assert doubtful.valid
    assert 0 < doubtful.confidence < 1
    strict = moved(OpticalFlow(min_confidence=doubtful.confidence + 0.01), pair)
    assert (strict.valid, strict.confidence) == (False, doubtful.confidence)


class CountingEngine(CpuEngine):
    runs = 0

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self.runs += 1
        return super().run(inputs)


def test_each_frame_goes_through_the_model_once(photographs: Photographs) -> None:
    engine = CountingEngine(features.build())
    flow = OpticalFlow(engine)
    for stamp, image in enumerate(photographs.pair(1, 1) + photographs.pair(2, 2)):
        flow.update(image, float(stamp))
    assert engine.runs == 4


def test_algorithms_can_share_one_inference(photographs: Photographs) -> None:
    engine = CountingEngine(features.build())
    shared = SharedEngine(engine)
    one, other = OpticalFlow(shared), OpticalFlow(shared)
    for stamp, image in enumerate(photographs.pair(1, 1)):
        assert same(one.update(image, float(stamp)), other.update(image, float(stamp)))
    assert engine.runs == 2


def test_motion_is_that_between_consecutive_frames(photographs: Photographs) -> None:
    flow = OpticalFlow()
    first, second = photographs.pair(3, 2)
    flow.update(first, 0.1)
    assert flow.update(second, 0.2).dx == pytest.approx(3, abs=1e-4)
    back = flow.update(first, 0.4)
    assert (back.stamp, back.previous_stamp) == (0.4, 0.2)
    assert (back.dx, back.dy) == pytest.approx((-3, -2), abs=1e-4)


def test_an_earlier_stamp_restarts(photographs: Photographs) -> None:
    flow = OpticalFlow()
    first, second = photographs.pair(3, 2)
    flow.update(first, 5.0)
    again = flow.update(second, 0.1)
    assert not again.valid
    assert math.isnan(again.previous_stamp)
    assert flow.update(first, 0.2).dx == pytest.approx(-3, abs=1e-4)


def test_another_image_size_restarts(photographs: Photographs) -> None:
    flow = OpticalFlow()
    first, second = photographs.pair(3, 2)
    flow.update(first)
    assert not flow.update(np.kron(second, np.ones((2, 2), np.uint8))).valid


def test_after_a_reset_there_is_no_previous_frame(photographs: Photographs) -> None:
    flow = OpticalFlow()
    first, second = photographs.pair(3, 2)
    flow.update(first)
    flow.reset()
    assert math.isnan(flow.update(second).previous_stamp)


def test_preprocess_and_postprocess_equal_update(photographs: Photographs) -> None:
    engine = CpuEngine(features.build())
    flow = OpticalFlow()
    flow.bind(engine.inputs, engine.outputs)
    pair = photographs.pair(4.25, -3)
    for stamp, image in enumerate(pair, 1):
        frame = flow.preprocess(image, float(stamp))
        result = flow.postprocess(frame, engine.run(frame.inputs))
    assert result == moved(OpticalFlow(), pair)


def test_the_shift_scores_peak_at_the_shift(photographs: Photographs) -> None:
    flow = OpticalFlow()
    moved(flow, photographs.pair(-5, 9))
    assert flow.surface is not None
    row, column = np.unravel_index(flow.surface.evidence.argmax(), flow.surface.evidence.shape)
    middle = flow.surface.evidence.shape[0] // 2
    assert (column - middle, row - middle) == (-5, 9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("height", "width"), [(64, 64), (48, 96)])
def test_features_of_any_size_and_order_are_accepted(
    photographs: Photographs, height: int, width: int, order: int
) -> None:
    flow = OpticalFlow(CpuEngine(features.build(height, width, order)))
    first, second = photographs.pair(3, -2, size=256)
    pair = cv2.resize(first, (width * 2, height * 2)), cv2.resize(second, (width * 2, height * 2))
    result = moved(flow, pair)
    assert (result.dx, result.dy) == pytest.approx((3 * width / 32, -2 * height / 32), abs=0.06)


@pytest.mark.parametrize(
    ("name", "whole", "limit"), [("gabor_64x64_7k_4o_2s", 0.001, 0.012), ("gabor_64x64_p4", 0.01, 0.4)]
)
def test_gabor_models_are_accepted(
    golden: ModelFolder, photographs: Photographs, name: str, whole: float, limit: float
) -> None:
    flow = OpticalFlow(CpuEngine(golden.model(f"{name}.tflite")))
    result = moved(flow, photographs.pair(8, -4))
    assert (result.dx, result.dy) == pytest.approx((8, -4), abs=whole)
    error, _ = errors(flow, photographs, 6, 8)
    assert np.isfinite(error).mean() > 0.9
    assert math.sqrt(np.nanmean(np.square(error))) < limit


@pytest.mark.parametrize("graph", [spot.build(), features.build(32, 32)], ids=["spots", "another input"])
def test_a_model_of_another_kind_is_refused(graph: bytes) -> None:
    engine = CpuEngine(graph)
    inputs = CpuEngine(features.build()).inputs
    with pytest.raises(ModelUnsupportedError, match="expected an output"):
        OpticalFlow().bind(inputs, engine.outputs)


def test_an_array_that_is_not_an_image_is_refused() -> None:
    with pytest.raises(ImageError, match="expected uint8"):
        OpticalFlow().update(np.zeros((64, 64), np.float32))
