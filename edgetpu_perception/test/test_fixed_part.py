"""Looming: parts of the image that are fixed to the camera."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_perception.time_to_contact.fixed_part import FixedPartSearch, fixed_part
from edgetpu_perception.time_to_contact.surface_tracker_limits import NOISE_CORRELATION


class TestFixedPart:
    def test_is_what_a_motion_leaves_unexplained_and_standing_still_explains(self) -> None:
        moving, standing = np.ones((2, 60, 60), np.float32)
        moving[40:] = 3.0
        standing[:40] = 9.0
        part, evidence = fixed_part(moving, standing, np.ones((60, 60), bool))
        assert not part[:38].any()
        assert part[42:].all()
        assert evidence == pytest.approx((3 - 1) * 18 * 60 / NOISE_CORRELATION**2, rel=0.05)

    def test_has_no_evidence_in_noise(self) -> None:
        moving, standing = np.random.default_rng(1).chisquare(1, (2, 60, 60)).astype(np.float32)
        assert fixed_part(moving, standing, np.ones((60, 60), bool))[1] < 20

    def test_has_no_evidence_outside_the_keyframe(self) -> None:
        moving, standing = np.full((60, 60), 9, np.float32), np.ones((60, 60), np.float32)
        assert fixed_part(moving, standing, np.zeros((60, 60), bool))[1] == 0.0

    def test_is_no_speck(self) -> None:
        moving, standing = np.ones((2, 60, 60), np.float32)
        moving[20:28, 20:28] = 25.0
        assert fixed_part(moving, standing, np.ones((60, 60), bool))[1] == 0.0


class TestFixedPartSearch:
    """Images in which standing still explains 20 of 60 rows, from a row on."""

    @staticmethod
    def found(*images: int | None, twice: bool = True) -> list[bool]:
        """Whether each image shows a part; `images`: first row of what seems to stand still in it."""
        search, shown = FixedPartSearch(), []
        for row in images:
            moving, standing = np.ones((2, 60, 60), np.float32)
            if row is not None:
                moving[row : row + 20] = 3.0
            shown.append(search.find(moving, standing, np.ones((60, 60), bool), twice=twice) is not None)
        return shown

    def test_finds_a_part_in_one_image(self) -> None:
        assert self.found(40, None, 0, twice=False) == [True, False, True]

    def test_finds_what_two_images_have_to_show_in_the_second(self) -> None:
        assert self.found(40, 40) == [False, True]

    def test_finds_nothing_that_the_next_image_does_not_show(self) -> None:
        assert self.found(40, None, 40) == [False, False, False]

    def test_finds_nothing_that_is_elsewhere_in_the_next_image(self) -> None:
        assert self.found(40, 0, 0) == [False, False, True]
