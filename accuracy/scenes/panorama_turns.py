"""Cameras that turn inside a panorama, with known angles."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import cv2
import numpy as np
import skimage.data
from numpy.typing import NDArray

from accuracy.scenes.photographs import as_pixels
from edgetpu_perception.camera_intrinsics import Pinhole, undistorted
from testdata import DATA

Matrix = NDArray[np.float64]

PANORAMAS = ("city", "courtyard", "forest", "interior")
"""Names of the panoramas; constants of the compass were chosen on all of them."""

PHOTOGRAPHS = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "retina.jpg",
    "rocket.jpg",
)
"""Photographs that constants were chosen on as well; the last two have little texture."""

SAMPLES = 4
"""Samples per pixel along each axis, for images as coarse as the model's input."""


def pinhole(width: int, height: int, fov: float, distortion: tuple[float, ...] = ()) -> Pinhole:
    """A camera with square pixels and this horizontal field of view, deg, before distortion."""
    focal = width / 2 / math.tan(math.radians(fov) / 2)
    return Pinhole(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2, distortion)


def orientation(yaw: float, pitch: float = 0.0) -> Matrix:
    """Orientation after a turn by `yaw` deg left, then `pitch` deg up; columns are the optical axes."""
    left = cv2.Rodrigues(np.array([0.0, -math.radians(yaw), 0.0]))[0]
    turned: Matrix = left @ cv2.Rodrigues(np.array([math.radians(pitch), 0.0, 0.0]))[0]
    return turned


def nodding(time: float, rate: float = 2.0, amplitude: float = 3.0) -> float:
    """Pitch at a time, deg: a triangle wave between +-`amplitude` deg at `rate` deg/s that starts upwards."""
    phase = time * rate / amplitude % 4.0
    return amplitude * (phase if phase < 1.0 else 2.0 - phase if phase < 3.0 else phase - 4.0)


def available() -> tuple[str, ...]:
    """Names of the panoramas that are present."""
    return tuple(name for name in PANORAMAS if DATA.find(_file(name)))


@functools.cache
def load(name: str) -> Panorama:
    """A panorama by name; or a photograph of scikit-image, with its mirror image, wrapped into one."""
    if name in PANORAMAS:
        return Panorama(_read(DATA.path(_file(name))))
    folder = Path(skimage.data.__file__).parent
    photo = cv2.resize(_read(folder / name), (512, 512), interpolation=cv2.INTER_AREA)
    return Panorama(np.hstack((photo, photo[:, ::-1])))


def walled(name: str, yaw: float, width: float) -> Panorama:
    """A panorama with a uniform wall with soft edges, `width` deg wide, around `yaw` deg to the left."""
    photo = load(name).photo
    columns = photo.shape[1]
    away = np.abs((np.arange(columns) + 0.5 - (0.5 - yaw / 360.0) * columns) % columns)
    inside = width / 2.0 - np.minimum(away, columns - away) * 360.0 / columns
    wall = np.clip(inside / 5.0 + 0.5, 0.0, 1.0)
    return Panorama(as_pixels(photo * (1.0 - wall) + 128.0 * wall))


class Panorama:
    """An equirectangular photograph, uint8 grey; a camera at rest looks at its middle."""

    def __init__(self, photo: NDArray[np.uint8]) -> None:
        """`photo`: grey, [H, 2 H]."""
        self.photo = photo
        self.height, self.width = photo.shape
        # One more column on each side for interpolation across the seam.
        self._texels = cv2.copyMakeBorder(photo, 0, 0, 1, 1, cv2.BORDER_WRAP).astype(np.float32)

    def look_up(self, directions: NDArray[np.float32]) -> NDArray[np.float32]:
        """Grey levels in directions of any length, [..., 3]: x right, y down, z ahead."""
        x, y, z = np.moveaxis(directions, -1, 0)
        column = (np.arctan2(x, z) / np.float32(2 * math.pi) + np.float32(0.5)) * self.width + np.float32(0.5)
        row = (np.arctan2(y, np.hypot(x, z)) / np.float32(math.pi) + np.float32(0.5)) * self.height
        row -= np.float32(0.5)
        levels: NDArray[np.float32] = cv2.remap(
            self._texels, column, row, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        return levels


class Turntable:
    """A camera that turns inside a panorama."""

    def __init__(
        self, panorama: Panorama, camera: Pinhole, noise: float = 2.0, samples: int = SAMPLES
    ) -> None:
        """`noise`: standard deviation of each pixel, grey levels; `samples` per pixel along each axis.

        Raises ValueError for a lens that shows nothing at some pixel.
        """
        self.camera = camera
        self._panorama = panorama
        self._noise = noise
        u = (np.arange(camera.width * samples) + 0.5) / samples - 0.5
        v = (np.arange(camera.height * samples) + 0.5) / samples - 0.5
        pixels = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 1, 2)
        matrix = np.array([[camera.fx, 0, camera.cx], [0, camera.fy, camera.cy], [0, 0, 1]])
        coefficients = np.array(camera.distortion or (0.0, 0.0, 0.0, 0.0))
        plane = undistorted(pixels, matrix, coefficients).reshape(v.size, u.size, 2)
        if np.isnan(plane).any():
            raise ValueError(f"expected a lens that shows something at every pixel; got {camera}")
        self._rays = np.dstack([plane, np.ones_like(plane[..., :1])]).astype(np.float32)

    def image(self, turned: Matrix, random: np.random.Generator) -> NDArray[np.uint8]:
        """Image of the camera: each pixel the average over its area, with noise, rounded."""
        return self.exposed(self.view(turned), random)

    def view(self, turned: Matrix) -> NDArray[np.float32]:
        """Grey levels of all samples: [height * samples, width * samples]."""
        return self._panorama.look_up(self._rays @ turned.T.astype(np.float32))

    def exposed(self, fine: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.uint8]:
        """Image from the samples of view(): each pixel the average over its area, with noise, rounded."""
        size = (self.camera.width, self.camera.height)
        coarse = cv2.resize(fine, size, interpolation=cv2.INTER_AREA)
        noisy = coarse + random.normal(0.0, self._noise, coarse.shape)
        return as_pixels(noisy)


def _file(name: str) -> str:
    return f"compass/panoramas/{name}.png"


def _read(path: Path) -> NDArray[np.uint8]:
    photo = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if photo is None:
        raise FileNotFoundError(f"expected a picture at {path}; there is none that OpenCV reads")
    levels: NDArray[np.uint8] = photo
    return levels
