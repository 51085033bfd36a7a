"""A rectangle of an image, such as the region of interest (`roi`) of a node."""

from __future__ import annotations

from typing import NamedTuple

from edgetpu_driver.images.encodings import ImageError, ImageFault


class Region(NamedTuple):
    """A rectangle of an image, px. A width or height of 0 extends to the right or lower edge."""

    x_offset: int = 0
    y_offset: int = 0
    width: int = 0
    height: int = 0

    def within(self, width: int, height: int) -> Region:
        """The region, its size filled in, in an image of this size; ImageError if it exceeds the image."""
        own_width = self.width or width - self.x_offset
        own_height = self.height or height - self.y_offset
        fits = (
            0 <= self.x_offset < self.x_offset + own_width <= width
            and 0 <= self.y_offset < self.y_offset + own_height <= height
        )
        if not fits:
            raise ImageError(
                ImageFault.REGION,
                f"expected a part of the image of {width}x{height} px; got {own_width}x{own_height} px "
                f"at ({self.x_offset}, {self.y_offset})",
            )
        return Region(self.x_offset, self.y_offset, own_width, own_height)


WHOLE = Region()
"""The whole image, of any size."""
