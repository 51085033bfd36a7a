from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import GraphError, ModelUnsupportedError
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.graphs.flow_and_compass_features import BORDER, FeatureMap, FeatureReader

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


def features_of(image: NDArray[np.uint8], order: int = 2) -> FeatureMap:
    engine = CpuEngine(features.build(*image.shape, order))
    reader = FeatureReader.of(*image.shape, engine.outputs)
    return reader.read(engine.run({"image": image[np.newaxis, :, :, np.newaxis]}))


def noise(height: int = 64, width: int = 64) -> NDArray[np.uint8]:
    return np.random.default_rng(2).integers(60, 180, (height, width)).astype(np.uint8)


@pytest.mark.parametrize(("order", "channels"), [(1, 3), (2, 6)])
def test_the_map_is_12_px_smaller_than_the_image(order: int, channels: int) -> None:
    assert features_of(noise(40, 52), order).channels.shape == (channels, 28, 40)


def test_the_name_says_order_and_size() -> None:
    assert features.name() == "features1_64x64"
    assert features.name(48, 128, order=2) == "features2_48x128"


def test_the_graph_is_always_the_same_bytes() -> None:
    assert features.build() == features.build()


def test_channels_alone_are_those_of_the_map() -> None:
    engine = CpuEngine(features.build())
    reader = FeatureReader.of(64, 64, engine.outputs)
    outputs = engine.run({"image": noise()[np.newaxis, :, :, np.newaxis]})
    np.testing.assert_array_equal(reader.channels(outputs), reader.read(outputs).channels)


@pytest.mark.parametrize("level", [0, 77, 255])
def test_brightness_has_no_features(level: int) -> None:
    assert not features_of(np.full((64, 64), level, np.uint8)).channels.any()


def test_a_feature_belongs_to_its_documented_pixel() -> None:
    image = np.full((64, 64), 100, np.uint8)
    image[30, 41] = 200
    d = features_of(image).d
    assert np.unravel_index(d.argmax(), d.shape) == (30 - BORDER, 41 - BORDER)


def test_features_move_with_the_image() -> None:
    wide = noise(64, 80)
    left, right = features_of(wide[:, :64]), features_of(wide[:, 7:71])
    np.testing.assert_array_equal(left.channels[:, :, 7:], right.channels[:, :, :-7])


def test_derivatives_are_those_of_d() -> None:
    y, x = np.mgrid[:64, :64]
    wave_x, wave_y = 2 * np.pi / 9, 2 * np.pi / 14
    phase = wave_x * x + wave_y * y
    found = features_of(np.rint(128 + 40 * np.sin(phase)).astype(np.uint8))
    # D of a wave is the same wave, larger or smaller.
    phase = phase[BORDER:-BORDER, BORDER:-BORDER]
    height = 2 * np.mean(found.d * np.sin(phase))
    expected = [
        np.sin(phase),
        wave_x * np.cos(phase),
        wave_y * np.cos(phase),
        -(wave_x**2) * np.sin(phase),
        -wave_x * wave_y * np.sin(phase),
        -(wave_y**2) * np.sin(phase),
    ]
    assert height > 10
    for channel, wave in zip(found.channels, expected, strict=True):
        error = np.sqrt(np.mean((channel - height * wave) ** 2))
        assert error < 0.02 * height * np.sqrt(np.mean(wave**2)) + features.SCALE / 2


def test_clipped_features_are_marked() -> None:
    image = np.zeros((64, 64), np.uint8)
    image[:, 32:] = 255
    inside = features_of(image).inside
    assert not inside[:, 32 - BORDER].any()
    assert inside[:, : 32 - BORDER - 7].all()


def test_the_graph_rounds_the_result_of_its_kernels() -> None:
    cv2 = pytest.importorskip("cv2")
    image = (noise().astype(np.float64) - 120) / 4 + 120
    image = np.rint(cv2.GaussianBlur(image, (0, 0), 1)).astype(np.uint8)
    band, derivatives = features.kernels(2)
    smooth = cv2.filter2D(image.astype(np.float64), -1, band)
    for channel, kernel in zip(features_of(image).channels, derivatives, strict=True):
        exact = cv2.filter2D(smooth, -1, kernel)[BORDER:-BORDER, BORDER:-BORDER]
        assert np.abs(channel - exact).max() < 3 * features.SCALE


def test_roughness_is_that_of_the_kernels() -> None:
    signal = np.zeros((32, 32))
    signal[16, 16] = 1
    cv2 = pytest.importorskip("cv2")
    band, (d, dx, dy) = features.kernels()
    smooth = cv2.filter2D(signal, -1, band)
    power, power_x, power_y = (np.square(cv2.filter2D(smooth, -1, kernel)).sum() for kernel in (d, dx, dy))
    assert power_x / power == pytest.approx(features.ROUGHNESS, abs=0.005)
    assert power_y / power == pytest.approx(features.ROUGHNESS, abs=0.005)


def test_the_kernel_of_a_feature_is_both_convolutions() -> None:
    dot = np.zeros((25, 25))
    dot[12, 12] = 1
    cv2 = pytest.importorskip("cv2")
    band, (d, _, _) = features.kernels()
    assert features.feature_kernel() == pytest.approx(
        cv2.filter2D(cv2.filter2D(dot, -1, band), -1, d)[6:19, 6:19]
    )


def test_a_graph_for_no_derivatives_or_a_tiny_image_is_refused() -> None:
    with pytest.raises(GraphError, match="order 1 or 2; got 3"):
        features.build(order=3)
    with pytest.raises(GraphError, match="window"):
        features.build(12, 64)


def test_another_model_is_refused() -> None:
    outputs = CpuEngine(features.build()).outputs
    with pytest.raises(ModelUnsupportedError, match=r"expected an output int8\[1, 84, 84, 3 or 6\]; got"):
        FeatureReader.of(96, 96, outputs)
