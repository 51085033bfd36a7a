"""Accuracy of the compass in swings at a high image rate: lag of the yaw rate, and its sigma."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.compass_scenes import SETTLED
from accuracy.scenes.panorama_turns import PANORAMAS, Turntable, load, nodding, orientation, pinhole
from edgetpu_driver.engines.protocol import Engine
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from measured_figures.row import Row

FRAME_RATE = 100.0
SECONDS = 3.0
FOV = 75.0
"""Horizontal field of view, deg."""

KINDS = ((20.0, 0.5), (5.0, 1.5))
"""Amplitude, deg, and frequency, Hz, of each kind of swing."""

SCENES = (*PANORAMAS, "brick.png", "grass.png", "coffee.png")
"""Panoramas, and photographs that are wrapped into panoramas."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Swing:
    """A camera that swings to and fro inside a panorama."""

    panorama: str
    amplitude: float
    """deg"""
    frequency: float
    """Hz"""

    def follow(self, engine: Engine) -> tuple[Floats, Floats]:
        """Run the compass over the swing: errors of the yaw rate and their sigmas, deg/s."""
        seed = len(self.panorama) * 7 + int(self.amplitude)
        random = np.random.default_rng(seed)
        camera = pinhole(64, 64, FOV)
        table, start = Turntable(load(self.panorama), camera), float(random.uniform(0.0, 360.0))
        compass = VisualCompass(engine, camera)
        times = np.arange(round(SECONDS * FRAME_RATE)) / FRAME_RATE
        yaws = self.amplitude * np.sin(2.0 * math.pi * self.frequency * times)
        results = [
            compass.update(table.image(orientation(start + yaw, nodding(time)), random), time)
            for yaw, time in zip(yaws.tolist(), times.tolist(), strict=True)
        ]
        rate, sigma = (np.degrees([getattr(each, name) for each in results]) for name in _RATE)
        error = rate[1:] - np.diff(yaws) * FRAME_RATE
        return error[SETTLED:], sigma[1:][SETTLED:]


_RATE = ("yaw_rate", "yaw_rate_sigma")


def measure(engine: Engine, names: tuple[str, ...], quick: bool) -> list[Row]:
    """Rows of the swings; `names`: the panoramas that are present."""
    scenes = [name for name in SCENES if name in names or name not in PANORAMAS]
    swings = [Swing(name, *kind) for name in scenes for kind in KINDS]
    followed = [swing.follow(engine) for swing in swings[:: 3 if quick else 1]]
    error, sigma = (np.concatenate(each) for each in zip(*followed, strict=True))
    inside = 100.0 * float(np.mean(np.abs(error) <= sigma))
    case = "swings at 100 Hz, 20 deg at 0.5 Hz and 5 deg at 1.5 Hz, noise 2"
    return [
        Row("compass", case, "yaw rate RMSE", float(np.sqrt(np.mean(error**2))), "deg/s", None, "lower"),
        Row("compass", case, "yaw rates within one sigma (68)", inside, "%", 55.0, "higher"),
        Row("compass", case, "yaw rates within one sigma (68), at most", inside, "%", 80.0, "lower"),
    ]
