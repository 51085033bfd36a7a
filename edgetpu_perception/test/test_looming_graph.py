"""Time to contact: its graph, and the models it takes."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import GraphError, ModelUnsupportedError
from edgetpu_driver.images.region import Region
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.graphs import looming_slopes as graph
from edgetpu_perception.time_to_contact.looming import Looming


class TestGraph:
    def test_is_the_same_every_time(self) -> None:
        assert graph.build() == graph.build()
        assert graph.name() == Looming().model == "looming_64x64"
        assert Looming(size=128).model == "looming_128x128"

    def test_is_wide_if_asked(self) -> None:
        assert Looming(size=96, width=288).model == "looming_96x288"

    @pytest.mark.parametrize(
        ("width", "height", "model"),
        [
            (1242, 375, "looming_64x192"),
            (640, 320, "looming_64x128"),
            (1920, 1080, "looming_64x64"),
            (320, 20, "looming_64x256"),
        ],
    )
    def test_does_not_squeeze_wide_images(self, width: int, height: int, model: str) -> None:
        looming = Looming()
        looming.update(np.zeros((height, width), np.uint8), 0.0)
        assert looming.model == model

    def test_suits_the_region_that_is_seen_first(self) -> None:
        looming = Looming()
        looming.region = Region(600, 100, 70, 60)
        looming.update(np.zeros((375, 1242), np.uint8), 0.0)
        assert looming.model == "looming_64x64"

    def test_gives_the_brightness_and_the_slopes_of_a_ramp(self, looming_engine: CpuEngine) -> None:
        y, x = np.mgrid[:64, :64]
        image = (10 + 2 * x + y).astype(np.uint8).reshape(1, 64, 64, 1)
        brightness, right, down = graph.SlopeReader.of(64, 64, looming_engine.outputs).read(
            looming_engine.run({"image": image})
        )
        assert brightness.shape == (60, 60)
        assert np.array_equal(brightness, 10.0 + 2 * x[2:-2, 2:-2] + y[2:-2, 2:-2] - 128)
        assert (right == 2).all()
        assert (down == 1).all()

    def test_of_128_px_gives_slopes_per_element(self) -> None:
        looming_engine = CpuEngine(graph.build(128, 128))
        x = np.mgrid[:128, :128][1]
        image = (20 + x).astype(np.uint8).reshape(1, 128, 128, 1)
        brightness, right, down = graph.SlopeReader.of(128, 128, looming_engine.outputs).read(
            looming_engine.run({"image": image})
        )
        assert np.array_equal(brightness, 20.0 + x[3:-3:2, 3:-3:2] - 128)
        assert (right == 2).all()
        assert not down.any()

    def test_knows_its_own_noise(self) -> None:
        random = np.random.default_rng(3)
        image = random.normal(128, 4, (256, 256))
        planes = [cv2.filter2D(image, -1, kernel) for kernel in graph.kernels()]
        measured = planes[1].std() / planes[0].std()
        assert graph.Layout.of_size(64, 64).noise == pytest.approx(measured, rel=0.03)

    def test_refuses_an_image_that_is_too_small(self) -> None:
        with pytest.raises(GraphError, match="at least 16x16 px; got 8x64"):
            graph.build(8, 64)


class TestModels:
    def test_of_another_kind_are_refused(self) -> None:
        image = TensorSpec("image", (1, 64, 64, 1), np.dtype(np.uint8), 1.0, 0)
        other = TensorSpec("evidence", (1, 64, 64, 1), np.dtype(np.uint8), 1.0, 0)
        with pytest.raises(ModelUnsupportedError, match="expected slopes of a 64x64 image; got 'evidence'"):
            Looming().bind([image], [other])

    def test_must_be_bound_before_images_come(self) -> None:
        with pytest.raises(ModelUnsupportedError, match="bound"):
            Looming().preprocess(np.zeros((64, 64), np.uint8), 0.0)
