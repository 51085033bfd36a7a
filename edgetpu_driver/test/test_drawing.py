from __future__ import annotations

import numpy as np

from edgetpu_driver.images import drawing
from edgetpu_driver.images.region import WHOLE, Region


def outlined(region: Region) -> list[tuple[int, int]]:
    """Rows and columns of the pixels that are drawn on a black picture of 5x4 px."""
    picture = drawing.with_region(np.zeros((4, 5, 3), np.uint8), region)
    return [(int(row), int(column)) for row, column in np.argwhere((picture == drawing.FAINT).all(axis=2))]


def test_the_region_is_outlined_by_its_outermost_pixels() -> None:
    assert outlined(Region(1, 1, 3, 2)) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]


def test_a_region_of_size_zero_reaches_to_the_edges() -> None:
    assert outlined(Region(3, 2)) == [(2, 3), (2, 4), (3, 3), (3, 4)]


def test_the_whole_picture_is_not_outlined() -> None:
    assert outlined(WHOLE) == []


def test_a_region_outside_the_picture_is_not_outlined() -> None:
    assert outlined(Region(4, 0, 9, 2)) == []


def test_tags_are_equally_tall_whatever_their_letters() -> None:
    heights = []
    for text in ("aeo", "Ag", "jpq"):
        picture = np.zeros((120, 160, 3), np.uint8)
        drawing.tag(picture, 20, 60, text, drawing.FOUND)
        heights.append(np.count_nonzero(picture.any(axis=(1, 2))))
    assert len(set(heights)) == 1
