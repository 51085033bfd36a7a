"""Which scale of a template to look for in an image, and the image resized for it.

A template is compared with an image in which it has its own size, within a few percent. If it has grown by a
factor, the image is reduced by that factor; if it has shrunk, the image is reduced less.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.resizing import resize
from edgetpu_perception.algorithm import Frame
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern

STEP = 2.0**0.25
"""Factor between neighbouring scales that are looked for.

Derived: the alignment bridges half of it, 9 %. Rows: pattern, scaled, images until it is found.
"""

LEAST_ROOM_CELLS = 4
"""Least number of cells by which a resized image exceeds the template. Uncritical."""

SAME_LOG_SCALE = 1e-6
"""Difference of the logarithms of two scales that are the same. Derived: rounding."""


def scale_of(size: pattern.Size, search: pattern.Size) -> float:
    """Scale of a template that has its own size in an image [h, w] of `size`; `search`: the model's image."""
    return math.sqrt(search[0] / size[0] * (search[1] / size[1]))


class ScaleSearch:
    """Chooses the size of an image in which to look for a template, besides that of the model's input."""

    def __init__(
        self,
        search: pattern.Size,
        template: pattern.Size,
        scale_range: float,
        region_scale: float | None = None,
    ) -> None:
        """`search`, `template`: height and width of the model's image and of the template, px.

        `scale_range`: largest scale to look for, and inverse of the smallest; 1: only the template's own.
        `region_scale`: see Template.
        """
        self.search = search
        """Height and width of the model's image, px."""
        self._template = template
        count = math.floor(math.log(scale_range) / math.log(STEP) + 0.01)
        self._powers = range(-count, count + 1)
        self._region_scale = region_scale
        self._last: float | None = None
        """Scale at which the template was found last, times the region's; None before."""
        self._missed = 0

    def tracked(self, frame: Frame) -> pattern.Size | None:
        """Size of an image in which the template has its own size if it is as large as in the previous image.

        None if the model's own image is near enough, or if the template was not found in the previous image.
        """
        last = self._last_scale(frame)
        if self._missed or abs(math.log(last)) < math.log(STEP) / 2:
            return None
        return self.size(last, frame)

    def next(self, frame: Frame) -> pattern.Size | None:
        """The next size to try, after the model has not found the template in an image; None: there is none.

        Sizes for scales near the last known one come first.
        """
        last = self._last_scale(frame)
        scales = sorted(self._scales(frame), key=lambda scale: abs(math.log(scale / last)))
        sizes = [size for size in (self.size(scale, frame) for scale in scales) if size is not None]
        return sizes[self._missed % len(sizes)] if sizes else None

    def found(self, scale: float, frame: Frame) -> None:
        """Take note of the template's scale in a frame: its size there over its own size."""
        self._last, self._missed = scale * frame.region_scale, 0

    def lost(self) -> None:
        """Take note that the template was not found in an image."""
        self._missed += 1

    def size(self, scale: float, frame: Frame) -> pattern.Size | None:
        """Size of an image in which a template of this scale has its own size.

        None if there is no room for it to move, if the camera image has too few px, or if only the template's
        own scale is looked for.
        """
        if not self._scales(frame):
            return None
        pool = pattern.pooling(self._template)
        rows, columns = (round(side / scale / pool) * pool for side in self.search)
        room = LEAST_ROOM_CELLS * pool
        if rows < self._template[0] + room or columns < self._template[1] + room:
            return None
        fits = frame.image is not None and rows <= frame.height and columns <= frame.width
        return (rows, columns) if fits else None

    def excess(self, scale: float, frame: Frame) -> float:
        """Logarithm of how far a scale is beyond all those that are looked for; 0 between them."""
        scales = [1.0, *self._scales(frame)]
        return max(math.log(scale / max(scales)), math.log(min(scales) / scale), 0.0)

    def _own_scale(self, frame: Frame) -> float:
        """Scale of a template that is as large in the camera's image as where it was cut out."""
        return 1.0 if self._region_scale is None else self._region_scale / frame.region_scale

    def _last_scale(self, frame: Frame) -> float:
        """Scale of a template that is as large in the camera's image as where it was found last."""
        return self._own_scale(frame) if self._last is None else self._last / frame.region_scale

    def _scales(self, frame: Frame) -> list[float]:
        """Scales to look for in addition to that of the model's responses."""
        scales = [self._own_scale(frame) * STEP**power for power in self._powers]
        return [scale for scale in scales if abs(math.log(scale)) > SAME_LOG_SCALE]

    def resized(self, frame: Frame, size: pattern.Size) -> NDArray[np.uint8]:
        """The frame's region in this size, grey [h, w]."""
        assert frame.image is not None
        # In two steps, as resizing takes ten times as long if the sizes have no large common divisor. The
        # size in between is at least twice the final one, as averaging twice blurs.
        factor = 2 if size[0] <= self.search[0] else 4
        height, width = (factor * side for side in self.search)
        if height <= frame.height and width <= frame.width:
            return resize(frame.image.fill(frame.region, height, width, 1)[0, :, :, 0], *size)
        return resize(frame.image.part(frame.region, 1), *size)
