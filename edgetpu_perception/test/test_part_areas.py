"""The areas of two parts of the picture, of which not everything is seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.part_areas import AreaLead, area_lead, picture_areas

WHOLE = picture_areas(48, 48, 48, 48)
"""8x8 neighbourhoods that cover the picture."""
BORDERED = picture_areas(48, 48, 60, 60)
"""The same with a border of one neighbourhood, of which no features are seen."""

Grid = NDArray[np.bool_]


def lead(first: Grid, second: Grid, areas: object = WHOLE) -> AreaLead:
    return area_lead(first.ravel().astype(float), second.ravel().astype(float), areas)  # type: ignore[arg-type]


def left_of(column: int) -> Grid:
    return np.tile(np.arange(8) < column, (8, 1))


def box(left: int, top: int, width: int, height: int) -> Grid:
    cells = np.zeros((8, 8), bool)
    cells[top : top + height, left : left + width] = True
    return cells


def test_neighbourhoods_at_the_edge_stand_for_the_border() -> None:
    shares = picture_areas(18, 18, 30, 30).nearest.reshape(3, 3)
    assert shares == pytest.approx(np.outer((0.4, 0.2, 0.4), (0.4, 0.2, 0.4)))


def test_either_of_two_halves_may_be_the_larger_one() -> None:
    found = lead(left_of(4), ~left_of(4))
    assert found.lead == pytest.approx(0.0)
    assert found.chance == pytest.approx(0.5)


def test_three_quarters_are_surely_the_larger_part() -> None:
    assert lead(left_of(6), ~left_of(6)).chance < 1e-3


def test_what_is_not_seen_may_follow_either() -> None:
    seen = lead(left_of(6), ~left_of(6))
    # The same parts, but no more than four rows have texture.
    top = box(0, 0, 8, 4)
    half = lead(left_of(6) & top, ~left_of(6) & top)
    assert half.sigma > math.sqrt(0.5**2 / 3)
    assert half.chance > 0.1 > seen.chance


def test_the_outline_belongs_to_the_part_in_front() -> None:
    # 24 of 64 neighbourhoods, with an outline of 20 sides, of which a strip of two cells on each side.
    thing = box(1, 1, 6, 4)
    found = lead(~thing, thing)
    outline = math.pi / 4 * 20 / 64 * (2 * 2 / 6)
    assert found.lead == pytest.approx((40 - 24) / 64 + outline, abs=1e-3)
    assert lead(thing, ~thing).lead == pytest.approx(-found.lead)


def test_a_part_that_narrows_towards_the_edge_goes_on_narrowing_outside() -> None:
    thing = box(0, 0, 8, 8)
    thing[0], thing[-1] = box(0, 0, 4, 1)[0], box(0, 0, 4, 1)[0]
    difference = (thing.astype(float) - ~thing).ravel()
    # 12 of 100 in each line at the edge, and 12 of them outside: then narrower by seven eighths of 48 %.
    assert difference @ BORDERED.nearest == pytest.approx(0.6)
    assert difference @ BORDERED.continued < difference @ BORDERED.nearest - 0.05


def test_a_line_along_the_edge_is_not_continued_as_if_it_narrowed() -> None:
    difference = (left_of(4).astype(float) - ~left_of(4)).ravel()
    assert difference @ BORDERED.continued == pytest.approx(0.0)
    assert BORDERED.continued.sum() == pytest.approx(1.0)


def test_a_single_neighbourhood_stands_for_all_of_the_picture() -> None:
    assert picture_areas(6, 6, 60, 60).continued == pytest.approx(1.0)
