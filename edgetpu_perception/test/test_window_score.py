from __future__ import annotations

import numpy as np

from edgetpu_perception.pattern_tracker.window_score import window_score

WINDOW = np.array([10.0, 20.0, 20.0, 10.0], np.float32)


def test_the_pattern_itself_scores_one_whatever_its_contrast() -> None:
    pattern = np.array([-0.5, 0.5, 0.5, -0.5], np.float32)
    for window in (WINDOW, 3 * WINDOW + 7):
        assert window_score(window, None, float(pattern @ window), float(window.sum()), 4) == 1.0


def test_the_negative_scores_minus_one() -> None:
    pattern = np.array([0.5, -0.5, -0.5, 0.5], np.float32)
    assert window_score(WINDOW, None, float(pattern @ WINDOW), 60.0, 4) == -1.0


def test_a_flat_window_scores_zero() -> None:
    assert window_score(np.full(4, 8.0, np.float32), None, 0.0, 32.0, 4) == 0.0


def test_levels_outside_the_mask_do_not_count() -> None:
    mask = np.array([1.0, 1.0, 0.0, 0.0], np.float32)
    window = np.array([10.0, 20.0, 250.0, 3.0], np.float32)
    pattern = np.array([-1.0, 1.0, 0.0, 0.0], np.float32) / np.float32(np.sqrt(2.0))
    assert window_score(window, mask, float(pattern @ window), 30.0, 2) > 0.999999
