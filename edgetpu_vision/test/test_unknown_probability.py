"""The probability that an image is of a taught class at all."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from edgetpu_vision.learning.taught_examples import ExampleSet
from edgetpu_vision.learning.unknown_probability import calibrate


def at(*degrees: float) -> np.ndarray:
    """Unit vectors of a plane."""
    angles = np.radians(degrees)
    return np.column_stack((np.cos(angles), np.sin(angles)))


def test_the_threshold_is_between_known_and_unknown_similarities() -> None:
    # Known: each example and its neighbour, 10 degrees away; unknown: 60 or 70 degrees to the other class.
    shown = ExampleSet(("a", "b"), at(0, 10, 70, 80), np.array([0, 0, 1, 1]))
    known, unknown = np.cos(np.radians(10)), np.cos(np.radians([60, 70])).mean()
    familiarity = calibrate(shown)
    assert (familiarity.known, familiarity.unknown) == (4, 4)
    expected = ((4 * known + 2 * 0.85) / 6 + (4 * unknown + 2 * 0.57) / 6) / 2
    assert familiarity.threshold == pytest.approx(expected)
    assert familiarity.probability(familiarity.threshold) == 0.5
    assert familiarity.probability(known) > 0.9 > 0.1 > familiarity.probability(unknown)


def test_one_example_leaves_the_usual_threshold() -> None:
    familiarity = calibrate(ExampleSet(("a",), at(0), np.array([0])))
    assert (familiarity.known, familiarity.unknown) == (0, 0)
    assert familiarity.threshold == pytest.approx(0.71)


def test_embeddings_that_do_not_tell_classes_apart_give_a_flat_probability() -> None:
    shown = ExampleSet(("a", "b"), np.repeat(at(0, 0), 50, axis=0), np.repeat([0, 1], 50))
    familiarity = calibrate(shown)
    assert 0 < familiarity.slope < 50
    assert familiarity.probability(-1.0) < 0.5 < familiarity.probability(1.0)


def test_far_from_the_threshold_it_stays_a_probability() -> None:
    shown = ExampleSet(("a", "b"), np.vstack((at(*[0] * 900), at(*[90] * 900))), np.repeat([0, 1], 900))
    assert 0.0 < calibrate(shown).probability(-1.0) < calibrate(shown).probability(1.0) <= 1.0


def test_many_examples_take_little_memory() -> None:
    count = 4000
    shown = ExampleSet(("a", "b"), at(*np.linspace(0, 90, count)), np.arange(count) % 2)
    tracemalloc.start()
    familiarity = calibrate(shown)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (familiarity.known, familiarity.unknown) == (count, count)
    assert most < 8 * count**2 / 4  # the cosines of all pairs have 8 bytes each
