"""How much of a patch is seen is told block by block, from gradients."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.pattern_tracker.patch_agreement import PatchAgreement
from testdata.pictures.patterns import texture

WALL = texture(1, side=60, blur=2.0).astype(np.float32)
PATCH = WALL[:24, :32]


def agreement_of(patch: NDArray[np.float32]) -> PatchAgreement:
    return PatchAgreement(patch, np.ones(patch.shape, bool))


def with_noise(window: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    return window + np.random.default_rng(1).normal(0.0, sigma, window.shape).astype(np.float32)


def test_a_patch_agrees_with_itself_in_another_light() -> None:
    agreement = agreement_of(PATCH)
    assert agreement.unexplained(0.5 * PATCH + 40) == pytest.approx(np.zeros(16), abs=1e-6)
    assert agreement.share(0.5 * PATCH + 40, 0.0) == 1.0


def test_hardly_a_block_agrees_with_other_things() -> None:
    others = [WALL[24:48, 20:52], PATCH[::-1], PATCH[:, ::-1], 255 - PATCH, np.zeros_like(PATCH)]
    assert [agreement_of(PATCH).share(other, 1.0) for other in others] == [0.0] * 5


def test_blocks_beside_what_covers_a_patch_agree() -> None:
    covered = PATCH.copy()
    covered[:, :7] = 20  # gradients reach a px farther: the first of four columns of blocks
    assert agreement_of(PATCH).share(covered, 0.0) == 0.75


def test_noise_that_is_to_be_expected_counts_as_agreement() -> None:
    faint = 0.15 * PATCH
    assert agreement_of(faint).share(with_noise(faint, 1.5), 0.0) < 0.2
    assert agreement_of(faint).share(with_noise(faint, 1.5), 1.5) > 0.9


def test_px_outside_the_mask_do_not_count() -> None:
    mask = np.ones(PATCH.shape, bool)
    mask[:, :8] = False
    covered = PATCH.copy()
    covered[:, :8] = 20
    agreement = PatchAgreement(PATCH, mask)
    assert len(agreement.unexplained(covered)) == 12
    assert agreement.share(covered, 0.0) == 1.0


def with_other(rows: slice, columns: slice) -> NDArray[np.float32]:
    """The patch with something else in a part of it."""
    window = PATCH.copy()
    window[rows, columns] = WALL[24:48, 20:52][rows, columns]
    return window


def test_a_patch_is_not_contradicted_by_itself_in_another_light_and_with_noise() -> None:
    agreement = agreement_of(PATCH)
    assert not agreement.is_contradicted(PATCH, 0.0)
    assert not agreement.is_contradicted(0.5 * PATCH + 40, 0.0)
    assert not agreement.is_contradicted(with_noise(0.15 * PATCH, 3.0), 3.0)


def test_other_things_contradict_a_patch() -> None:
    agreement = agreement_of(PATCH)
    for other in (WALL[24:48, 20:52], PATCH[::-1], PATCH[:, ::-1], 255 - PATCH):
        assert agreement.is_contradicted(np.ascontiguousarray(other), 1.0)


def test_a_patch_is_contradicted_if_its_middle_is_something_else() -> None:
    assert agreement_of(PATCH).is_contradicted(with_other(slice(6, 18), slice(8, 24)), 1.0)


@pytest.mark.parametrize("flip", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
def test_a_patch_is_not_contradicted_by_what_covers_one_side_and_is_by_what_covers_a_half(
    flip: tuple[int, int],
) -> None:
    turned = np.s_[:: flip[0], :: flip[1]]
    agreement = agreement_of(np.ascontiguousarray(PATCH[turned]))
    for covered in (np.s_[:5, :], np.s_[:, :7]):
        window = PATCH.copy()
        window[covered] = 20
        assert not agreement.is_contradicted(np.ascontiguousarray(window[turned]), 1.0)
    half = with_other(slice(None), slice(0, 16))
    assert agreement.is_contradicted(np.ascontiguousarray(half[turned]), 1.0)


def test_what_covers_the_side_with_most_of_the_structure_contradicts_a_patch() -> None:
    patch = 0.05 * PATCH
    patch[:6] = PATCH[:6]
    window = patch.copy()
    window[:6] = PATCH[::-1][:6]
    assert agreement_of(patch).is_contradicted(window, 0.1)


def test_structure_that_is_missing_contradicts_a_patch() -> None:
    window = PATCH.copy()
    window[6:18, 8:24] = PATCH[6:18, 8:24].mean()
    assert agreement_of(PATCH).is_contradicted(window, 1.0)


def test_where_noise_is_as_strong_as_a_patch_nothing_contradicts_it() -> None:
    other = 0.02 * WALL[24:48, 20:52]
    assert agreement_of(0.02 * PATCH).is_contradicted(other, 0.0)
    assert not agreement_of(0.02 * PATCH).is_contradicted(other, 4.0)


def test_px_outside_the_mask_contradict_nothing() -> None:
    mask = np.ones(PATCH.shape, bool)
    mask[:, :16] = False
    window = with_other(slice(None), slice(0, 16))
    assert agreement_of(PATCH).is_contradicted(window, 1.0)
    assert not PatchAgreement(PATCH, mask).is_contradicted(window, 1.0)


def waves(x: float, y: float) -> NDArray[np.float32]:
    """Waves of 8 px along x and 10 px along y, moved by (x, y) px."""
    down, right = np.indices((40, 48), dtype=np.float32)
    made: NDArray[np.float32] = (
        90 + 40 * np.sin(np.pi * (right - x) / 4) + 40 * np.sin(np.pi * (down - y) / 5)
    )
    return made


def test_errors_leave_as_much_of_a_patch_as_one_that_is_a_fifth_of_a_px_off() -> None:
    agreement = agreement_of(waves(0, 0))
    for x, y in ((0.19, 0.19), (-0.19, 0.19)):
        assert not agreement.is_contradicted(waves(x, y), 0.0, agreement.left_by_errors)
    for x, y in ((0.21, 0.21), (-0.21, 0.21)):
        assert agreement.is_contradicted(waves(x, y), 0.0, agreement.left_by_errors)


@pytest.mark.parametrize("patch", [np.full((24, 32), 90, np.float32), PATCH[:8, :8]])
def test_a_patch_with_few_blocks_with_structure_cannot_be_confirmed(patch: NDArray[np.float32]) -> None:
    agreement = agreement_of(patch)
    assert not agreement.is_known
    assert agreement.share(patch, 0.0) == 0.0
