"""The anchors of SSD models whose files do not contain them."""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError

# Defaults of ssd_anchor_generator in TensorFlow's object detection API, which the published SSDs use.
_LAYERS = 6
_MIN_SCALE, _MAX_SCALE = 0.2, 0.95
_LOWEST_SCALE = 0.1
_ASPECT_RATIOS = (1.0, 2.0, 1 / 2, 3.0, 0.3333)
_LOWEST_ASPECT_RATIOS = (2.0, 1 / 2)
_STRIDE = 16
"""Px of the input per cell of the first feature map; each further map has half as many cells per axis."""

# Defaults of multiscale_anchor_generator, which the published SSDs with a feature pyramid (FPN, FPNLite) use.
_PYRAMID_STRIDES = (8, 16, 32, 64, 128)
_PYRAMID_SCALE = 4.0
"""Size of an anchor, in cells."""
_OCTAVE = (1.0, sqrt(2.0))
"""Factors of that size, for each aspect ratio."""
_PYRAMID_ASPECT_RATIOS = (1.0, 2.0, 1 / 2)


def published_anchors(input_height: int, input_width: int, count: int) -> NDArray[np.float32] | None:
    """The anchors of the published SSD that has `count` of them, as in ssd_anchors; None if there is none."""
    if count == ssd_anchor_count(input_height, input_width):
        return ssd_anchors(input_height, input_width, count)
    anchors = _pyramid_anchors(input_height, input_width)
    return anchors if len(anchors) == count else None


def ssd_anchors(input_height: int, input_width: int, count: int) -> NDArray[np.float32]:
    """The anchors of an SSD with six feature maps.

    float32[count, 4]: y, x, height and width as parts of the image. Raises ModelUnsupportedError if such an
    SSD has another number of anchors.
    """
    scales = [*np.linspace(_MIN_SCALE, _MAX_SCALE, _LAYERS).tolist(), 1.0]
    maps = []
    for layer, (rows, columns) in enumerate(_map_sizes(input_height, input_width)):
        if layer == 0:
            shapes = [(_LOWEST_SCALE, 1.0), *((scales[0], ratio) for ratio in _LOWEST_ASPECT_RATIOS)]
        else:
            shapes = [(scales[layer], ratio) for ratio in _ASPECT_RATIOS]
            shapes.append((sqrt(scales[layer] * scales[layer + 1]), 1.0))
        maps.append(_anchors_of_map(rows, columns, shapes))
    anchors = np.concatenate(maps)
    if len(anchors) != count:
        raise ModelUnsupportedError(
            f"expected the anchors of this model; it has {count}, and an SSD of {input_width}x{input_height} "
            f"px with {_LAYERS} feature maps has {len(anchors)}"
        )
    return anchors


def ssd_anchor_count(input_height: int, input_width: int) -> int:
    """Number of anchors of an SSD with six feature maps."""
    cells = [rows * columns for rows, columns in _map_sizes(input_height, input_width)]
    return cells[0] * (len(_LOWEST_ASPECT_RATIOS) + 1) + sum(cells[1:]) * (len(_ASPECT_RATIOS) + 1)


def _pyramid_anchors(input_height: int, input_width: int) -> NDArray[np.float32]:
    """The anchors of an SSD with a feature pyramid, float32[n, 4] as in ssd_anchors.

    Along an axis that the stride divides, the generator centres anchors in their cells; otherwise it puts
    them at the upper or left edge.
    """
    image = np.array((input_height, input_width), np.float64)
    shapes = [
        (factor / sqrt(ratio), factor * sqrt(ratio)) for ratio in _PYRAMID_ASPECT_RATIOS for factor in _OCTAVE
    ]
    maps = []
    for stride in _PYRAMID_STRIDES:
        offset = np.where(image % stride == 0, stride / 2, 0.0)
        y, x = (
            np.arange(ceil(extent / stride)) * stride + start
            for extent, start in zip(image, offset, strict=True)
        )
        centres = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1).reshape(-1, 1, 2)
        centres = centres.repeat(len(shapes), axis=1)
        sizes = np.broadcast_to(np.array(shapes) * _PYRAMID_SCALE * stride, centres.shape)
        maps.append(np.concatenate((centres / image, sizes / image), axis=2).reshape(-1, 4))
    return np.concatenate(maps).astype(np.float32)


def _map_sizes(input_height: int, input_width: int) -> list[tuple[int, int]]:
    """Rows and columns of each feature map."""
    sizes = [(ceil(input_height / _STRIDE), ceil(input_width / _STRIDE))]
    for _ in range(_LAYERS - 1):
        sizes.append((ceil(sizes[-1][0] / 2), ceil(sizes[-1][1] / 2)))
    return sizes


def _anchors_of_map(rows: int, columns: int, shapes: list[tuple[float, float]]) -> NDArray[np.float32]:
    """Anchors of each cell, row by row. shapes: scale and aspect ratio of each anchor of a cell."""
    sizes = np.array([(scale / sqrt(ratio), scale * sqrt(ratio)) for scale, ratio in shapes])
    y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
    centres = np.stack((y, x), axis=-1).reshape(-1, 1, 2).repeat(len(sizes), axis=1)
    boxes = np.concatenate((centres, np.broadcast_to(sizes, centres.shape)), axis=2)
    return boxes.reshape(-1, 4).astype(np.float32)
