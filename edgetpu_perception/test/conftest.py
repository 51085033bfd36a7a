"""Shared by the tests of the perception package: pictures of spots with known centres, and looming."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_perception.graphs import looming_slopes
from edgetpu_perception.pattern_tracker.pattern_tracker import PatternTracker
from edgetpu_perception.time_to_contact.looming import Looming
from testdata.pictures.patterns import Image, cut, texture


class Scenes:
    """Draws 64x64 pictures; every centre is in px."""

    y, x = np.mgrid[:64, :64]

    def __init__(self) -> None:
        self.random = np.random.default_rng(4)

    def disc(self, x: float, y: float, radius: float, level: int = 255) -> NDArray[np.uint8]:
        inside = (self.x - x) ** 2 + (self.y - y) ** 2 <= radius**2
        return np.where(inside, level, 0).astype(np.uint8)

    def gaussian(
        self,
        x: float,
        y: float,
        sigma: float,
        amplitude: float = 200,
        background: float = 0,
        noise: float = 0,
    ) -> NDArray[np.uint8]:
        squared = (self.x - x) ** 2 + (self.y - y) ** 2
        picture = background + amplitude * np.exp(-squared / (2 * sigma**2))
        picture = picture + self.random.normal(0, noise, picture.shape) if noise else picture
        return np.clip(np.rint(picture), 0, 255).astype(np.uint8)

    def position(self, margin: float) -> tuple[float, float]:
        """A random centre at least `margin` px from the border."""
        x, y = self.random.uniform(margin, 63 - margin, 2)
        return float(x), float(y)


@pytest.fixture
def scenes() -> Scenes:
    return Scenes()


@pytest.fixture(scope="module")
def looming_engine() -> CpuEngine:
    """The graph of brightness and slopes on the CPU."""
    return CpuEngine(looming_slopes.build())


@pytest.fixture
def looming(looming_engine: CpuEngine) -> Looming:
    return Looming(looming_engine)


@pytest.fixture(scope="module")
def trained_tracker() -> tuple[PatternTracker, Image]:
    """A tracker with a template, and the image it was cut out of, at (20, 30)."""
    image = texture(1)
    tracker = PatternTracker()
    assert tracker.set_template(cut(image, 20, 30), view=image).accepted
    return tracker, image
