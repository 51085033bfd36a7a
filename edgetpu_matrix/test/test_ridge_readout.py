"""The readout trained by ridge regression."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver.errors import ArchiveError, InputError
from edgetpu_matrix.errors import NotTrainedError
from edgetpu_matrix.reservoir.ridge_readout import RidgeReadout

random = np.random.default_rng(2)
FEATURES = np.concatenate([np.ones((100, 1)), random.normal(size=(100, 4))], axis=1)
WEIGHTS = np.array([[3.0, 1, -2, 0, 0.5], [-1.0, 0, 0, 4, 0]])
TARGETS = FEATURES @ WEIGHTS.T


def trained(features: np.ndarray = FEATURES, targets: np.ndarray = TARGETS) -> RidgeReadout:
    readout = RidgeReadout(features.shape[1], targets.shape[1])
    for sample, target in zip(features, targets, strict=True):
        readout.add(sample, target)
    return readout


def test_a_linear_relation_is_found() -> None:
    readout = trained()
    training = readout.solve(0.0)
    assert training.samples == 100
    assert readout.weights == pytest.approx(WEIGHTS)
    assert training.residual_rms == pytest.approx([0, 0], abs=1e-6)
    assert training.target_sigma == pytest.approx(TARGETS.std(axis=0))
    assert readout.predict(FEATURES[7]) == pytest.approx(TARGETS[7])


def test_it_is_the_ridge_regression_of_all_samples_at_once() -> None:
    targets = TARGETS + random.normal(size=TARGETS.shape)
    readout = trained(FEATURES, targets)
    training = readout.solve(0.3)
    penalty = 0.3 * np.diag([0, 1, 1, 1, 1])
    expected = np.linalg.solve(FEATURES.T @ FEATURES / 100 + penalty, FEATURES.T @ targets / 100).T
    assert readout.weights == pytest.approx(expected)
    residual = targets - FEATURES @ expected.T
    assert training.residual_rms == pytest.approx(np.sqrt((residual**2).mean(axis=0)))


def test_regularization_spares_the_offset() -> None:
    readout = trained(FEATURES, TARGETS + 1000)
    readout.solve(1e9)
    assert readout.predict([1, 0, 0, 0, 0]) == pytest.approx((TARGETS + 1000).mean(axis=0), rel=1e-6)


@pytest.mark.parametrize("offset", [0.0, 5e6, 1.7e9])
def test_the_residual_does_not_depend_on_the_offset_of_the_targets(offset: float) -> None:
    noise = 0.05 * np.random.default_rng(3).normal(size=TARGETS.shape)
    centred = trained(FEATURES, TARGETS + noise)
    expected = centred.solve(1e-6)
    readout = trained(FEATURES, TARGETS + noise + offset)
    training = readout.solve(1e-6)
    assert training.residual_rms == pytest.approx(expected.residual_rms, rel=1e-3)
    assert training.target_sigma == pytest.approx(expected.target_sigma, rel=1e-6)
    assert training.explained == pytest.approx(expected.explained, abs=1e-6)
    assert readout.predict(FEATURES[7]) == pytest.approx(centred.predict(FEATURES[7]) + offset, abs=1e-5)


def test_a_file_of_an_earlier_version_is_read() -> None:
    readout = trained()
    readout.solve(0.1)
    arrays = readout.to_arrays()
    shift, samples = arrays.pop("target_shift"), arrays["samples"]
    arrays["target_square"] += 2 * shift * arrays["target_sum"] + samples * shift**2
    arrays["cross"] += np.outer(arrays["gram"][:, 0], shift)
    arrays["target_sum"] += samples * shift
    earlier = RidgeReadout.from_arrays(arrays)
    training = earlier.solve(0.1)
    assert earlier.weights == pytest.approx(readout.weights)
    assert training.target_sigma == pytest.approx(TARGETS.std(axis=0))


def test_training_can_continue() -> None:
    readout = trained(FEATURES[:40], TARGETS[:40])
    readout.solve(0.1)
    for sample, target in zip(FEATURES[40:], TARGETS[40:], strict=True):
        readout.add(sample, target)
    assert readout.samples == 100
    readout.solve(0.1)
    at_once = trained()
    at_once.solve(0.1)
    assert readout.weights == pytest.approx(at_once.weights)


def test_samples_can_be_forgotten() -> None:
    readout = trained()
    readout.solve()
    readout.clear()
    assert readout.samples == 0
    assert readout.weights is not None
    with pytest.raises(NotTrainedError, match="there are none"):
        readout.solve()


def test_an_unsolvable_training_is_refused_and_changes_nothing() -> None:
    readout = trained(np.ones((100, 3)), TARGETS)
    with pytest.raises(NotTrainedError, match="100 samples of 3 features"):
        readout.solve(0.0)
    assert readout.weights is None
    readout.solve(1e-6)


def test_nothing_is_predicted_before_training() -> None:
    with pytest.raises(NotTrainedError):
        trained().predict(FEATURES[0])


@pytest.mark.parametrize(
    ("features", "target"),
    [
        ([1, 2], [1, 2]),
        ([1] * 5, [1]),
        ([1] * 5, [1, np.nan]),
        ([1, 1, 1, 1, np.inf], [1, 2]),
        ([1, 1, 1, 1, 1e39], [1, 2]),
        ([1] * 5, [1, -1e39]),
        ([[1] * 5], [1, 2]),
    ],
)
def test_a_bad_sample_is_refused(features: list[float], target: list[float]) -> None:
    readout = trained()
    with pytest.raises(InputError):
        readout.add(features, target)
    assert readout.samples == 100


@pytest.mark.parametrize("regularization", [-1.0, np.nan, np.inf])
def test_a_bad_regularization_is_refused(regularization: float) -> None:
    with pytest.raises(InputError, match="regularization"):
        trained().solve(regularization)


def test_it_is_restored_without_the_samples_that_were_forgotten() -> None:
    readout = trained()
    readout.solve()
    readout.clear()
    copy = RidgeReadout.from_arrays(readout.to_arrays())
    assert (copy.samples, copy.predict(FEATURES[3]).tolist()) == (0, readout.predict(FEATURES[3]).tolist())


def test_it_is_restored_from_arrays_and_continues_training() -> None:
    readout = trained(FEATURES[:50], TARGETS[:50])
    readout.solve(0.1)
    copy = RidgeReadout.from_arrays(readout.to_arrays())
    assert copy.predict(FEATURES[3]) == pytest.approx(readout.predict(FEATURES[3]))
    assert copy.residual_rms == pytest.approx(readout.residual_rms)
    for each in (readout, copy):
        for sample, target in zip(FEATURES[50:], TARGETS[50:], strict=True):
            each.add(sample, target)
        each.solve(0.1)
    assert copy.weights == pytest.approx(readout.weights)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.zeros(3)},
        {"gram": np.zeros((4, 4))},
        {"cross": np.full((5, 2), np.nan)},
        {"samples": np.array("many")},
        {"samples": np.array(-1)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_arrays_that_are_not_a_readout_are_refused(change: dict[str, np.ndarray]) -> None:
    readout = trained()
    readout.solve()
    with pytest.raises(ArchiveError):
        RidgeReadout.from_arrays(readout.to_arrays() | change)
