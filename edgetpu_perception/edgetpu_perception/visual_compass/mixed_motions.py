"""Separates the scene from an object with which it was aligned together.

Somebody may go along with a camera that turns, before a scene with little texture across. Both are then
aligned to a mean of their motions: each is off by less than its features vary, so none looks like an outlier,
and there only seems to be more noise. At the noise of the views without objects, an alignment that starts
beside that mean finds one of the two motions.
"""

from __future__ import annotations

from edgetpu_perception.visual_compass.alignment import Alignment, Key, View
from edgetpu_perception.visual_compass.measured_turn import NOISE_RISE
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotations import Vector, angle_between, to_matrix

BESIDE_CELLS = 1.5
"""Difference of the guesses from the mean of two motions, cells.

Rows: none; turn of make drive: 5 of 60 worlds end more than 1 deg off without this search, 1 with it.
Uncritical from 1 to 1.5; with 2.5 alignments miss the motion.
"""

LEAST_NOISE = 0.1
"""Least noise at which it is searched for, grey levels. Derived: the rounding of the model's output."""

MIN_OFFSET_CELLS = 0.3
"""Least difference of the scene's motion from the mean, cells. Uncritical from 0.1."""

MIN_AREA_SHARE = 0.55
"""Least area that the scene's motion explains better than the mean does, over the area that either does.

Derived: more than half. Rows: as BESIDE_CELLS; uncritical from 0.5 to 0.6.
"""


def separated(
    aligner: RotationAligner, mixed: Alignment, key: Key, view: View, axis: Vector, noise: float
) -> Alignment:
    """The alignment of a view to a key by the scene alone, if there is one that fits better; else `mixed`.

    `mixed`: the alignment that may be to a mean of two motions. `axis`: of the turns, in the key's frame.
    `noise`: of the views without independent motion, grey levels.
    """
    usual = max(noise, LEAST_NOISE)
    if mixed.agreement.noise < NOISE_RISE * usual:
        return mixed
    similarity = mixed.agreement.measure(usual)[0]
    best, largest = mixed, MIN_AREA_SHARE
    for side in (BESIDE_CELLS, -BESIDE_CELLS):
        guess = mixed.rotation.dot(to_matrix(side / aligner.cells_per_radian * axis))
        found = aligner.align(key, view, guess, most_noise=usual)
        difference = angle_between(found.rotation, mixed.rotation) * aligner.cells_per_radian
        if not found.converged or difference < MIN_OFFSET_CELLS:
            continue
        # One motion fits exactly what follows it. Where the camera is carried past near things none does.
        if found.agreement.measure(usual)[0] < similarity:
            continue
        share = aligner.area_share(found, mixed)
        if share > largest:
            best, largest = found, share
    return best
