"""Images and stamps that no camera sends; perception algorithms may only raise EdgeTpuErrors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_perception import (
    Looming,
    OpticalFlow,
    PatternTracker,
    Pinhole,
    SpotTracker,
    VisualCompass,
)

IMAGES = 40
"""Number of images of a sequence."""
_WIDTH, _HEIGHT = 320, 240
_STAMPS = (0.0, -5.0, 5.0, 1e3, 2e9, 2.0**31 - 1, -(2.0**31))
"""Times to which a clock jumps, s: of a robot without a clock, of a bag, and the ends of a stamp's range."""
_STEPS = (0.0, 1e-9, 1e-6, 10.0, 1e3)
"""Periods of images, s, in addition to the camera's own."""
_PERIOD = 0.033
_NEEDS_CAMERA = "bearing"
"""Prefix of fields that are NaN without intrinsics."""
_MAY_BE_UNKNOWN = ("diameter",)
"""Fields of a valid result that may be NaN according to their documentation."""
_ALGORITHMS: dict[str, Callable[[], Any]] = {
    "spot_tracker": SpotTracker,
    "looming": Looming,
    "optical_flow": OpticalFlow,
    "visual_compass": lambda: VisualCompass(None, Pinhole(_WIDTH, _HEIGHT, 300.0, 300.0, 159.5, 119.5)),
    "pattern_tracker": PatternTracker,
}

Image = NDArray[np.uint8]


def run_sequence(seed: int) -> int:
    """Show a sequence to each algorithm; return the number of results.

    Raises AssertionError for exceptions other than EdgeTpuError, and for a valid result with NaN in it.
    """
    results = 0
    for name, create in _ALGORITHMS.items():
        generator = np.random.default_rng(seed)
        scene = _scene(generator)
        algorithm = create()
        if isinstance(algorithm, PatternTracker):
            algorithm.set_template(scene[100:140, 100:140])
        for image, stamp in _images(scene, generator):
            try:
                result = algorithm.update(image, stamp)
            except EdgeTpuError:
                continue
            except Exception as error:
                shape = "x".join(map(str, image.shape))
                raise AssertionError(
                    f"{name}, seed {seed}, image of {shape} at {stamp} s: {error!r}"
                ) from error
            unknown = _unknown(result)
            assert not unknown, f"{name}, seed {seed}, at {stamp} s: valid, with NaN as {', '.join(unknown)}"
            results += 1
    return results


def _unknown(result: Any) -> list[str]:
    if not result.valid:
        return []
    values = {each.name: getattr(result, each.name) for each in fields(result)}
    return [
        name
        for name, value in values.items()
        if isinstance(value, float) and math.isnan(value)
        if not (name.startswith(_NEEDS_CAMERA) or name in _MAY_BE_UNKNOWN)
    ]


def _scene(generator: np.random.Generator) -> Image:
    noise = generator.integers(0, 256, (_HEIGHT, _WIDTH)).astype(np.uint8)
    blurred = cv2.GaussianBlur(noise, (0, 0), 2.0)
    return np.asarray(cv2.normalize(blurred, None, 0, 255, cv2.NORM_MINMAX), np.uint8)


def _images(scene: Image, generator: np.random.Generator) -> Iterator[tuple[Image, float]]:
    kinds = (_same, _same, _same, _shifted, _shifted, _turned_and_scaled, _flat, _noise, _resized)
    stamp = 1000.0
    for _ in range(IMAGES):
        kind = generator.integers(8)
        if kind == 0:
            stamp = float(generator.choice(_STAMPS))
        else:
            stamp += float(generator.choice(_STEPS)) if kind == 1 else _PERIOD
        yield kinds[generator.integers(len(kinds))](scene, generator), stamp


def _same(scene: Image, _: np.random.Generator) -> Image:
    return scene


def _shifted(scene: Image, generator: np.random.Generator) -> Image:
    return np.roll(scene, generator.integers(-9, 10, 2), (0, 1))


def _turned_and_scaled(scene: Image, generator: np.random.Generator) -> Image:
    angle, scale = float(generator.uniform(-50.0, 50.0)), float(generator.uniform(0.5, 3.0))
    matrix = cv2.getRotationMatrix2D((_WIDTH / 2, _HEIGHT / 2), angle, scale)
    return np.asarray(
        cv2.warpAffine(scene, matrix, (_WIDTH, _HEIGHT), borderMode=cv2.BORDER_REFLECT), np.uint8
    )


def _flat(scene: Image, generator: np.random.Generator) -> Image:
    return np.full_like(scene, generator.integers(256))


def _noise(scene: Image, generator: np.random.Generator) -> Image:
    return generator.integers(0, 256, scene.shape).astype(np.uint8)


def _resized(scene: Image, generator: np.random.Generator) -> Image:
    width, height = generator.integers(1, 400, 2).tolist()
    return np.asarray(cv2.resize(scene, (width, height)), np.uint8)
