"""Which images are used to measure motion."""

from __future__ import annotations

import numpy as np

from edgetpu_perception.time_to_contact.image_structure import ImageStructure
from edgetpu_perception.time_to_contact.relative_depth_filter import RelativeDepth
from edgetpu_perception.time_to_contact.surface import Surface

STEEP, LEVEL = np.full((60, 60), 20.0, np.float32), np.zeros((60, 60), np.float32)


def claimed_at(rate: float) -> Surface:
    """A surface that was claimed to approach; its rate has a standard deviation of 1/s."""
    return Surface(np.ones((60, 60), np.float32), depth=RelativeDepth(rate), claimed=True)


def shows_stripes(structure: ImageStructure, stamp: float, main: Surface | None) -> bool:
    """Whether an image at `stamp` whose edges are all upright is used."""
    return structure.shows_motion(STEEP, LEVEL, STEEP**2, 0.0, stamp, main)


def test_one_without_edges_is_not_used() -> None:
    assert not ImageStructure().shows_motion(LEVEL, LEVEL, LEVEL, 0.0, 0.0, claimed_at(10.0))


def test_one_with_edges_in_two_directions_is_used() -> None:
    mixed = STEEP * np.tri(60, dtype=np.float32)
    assert ImageStructure().shows_motion(STEEP - mixed, mixed, STEEP**2, 0.0, 0.0, None)


def test_stripes_alone_are_not_used() -> None:
    assert not shows_stripes(ImageStructure(), 0.0, None)


def test_stripes_of_what_approaches_are_used_until_the_expected_contact() -> None:
    structure, main = ImageStructure(), claimed_at(10.0)
    assert [shows_stripes(structure, stamp, main) for stamp in (0.0, 0.1, 0.15)] == [True, True, False]


def test_stripes_before_what_has_stopped_since_its_claim_are_not_used() -> None:
    assert not shows_stripes(ImageStructure(), 0.0, claimed_at(0.002))


def test_stripes_cause_a_variance_of_the_depth_while_they_are_followed() -> None:
    structure = ImageStructure()
    assert structure.depth_variance == 0.0
    shows_stripes(structure, 0.0, claimed_at(10.0))
    assert structure.depth_variance == 0.03**2
