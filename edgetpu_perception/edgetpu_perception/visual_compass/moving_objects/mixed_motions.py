"""Separates the scene from an object with which it was aligned together.

A person may walk along with a turning camera, in front of a scene with little horizontal texture. An
alignment then finds a mean of the two motions. Both deviate from it by less than the width of their features,
so neither looks like an outlier; the picture only seems noisier. If the noise is limited to that of earlier
views without objects, an alignment that starts next to the mean finds one of the two motions.
"""

from __future__ import annotations

from edgetpu_perception.visual_compass.alignment_records import Key, RotationAlignment, View
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotation_between_frames import NOISE_RISE
from edgetpu_perception.visual_compass.rotations import Vector, angle_between, to_matrix

BESIDE_CELLS = 1.5
"""Difference of the two initial guesses from the mean motion, cells.

Rows: none; turn of make drive: 5 of 60 worlds end more than 1 deg off without this search, 1 with it.
Uncritical from 1 to 1.5; with 2.5 alignments miss the motion.
"""

LEAST_NOISE = 0.1
"""Lower bound of an alignment's noise limit, grey levels. Derived: the rounding of the model's output."""

MIN_OFFSET_CELLS = 0.3
"""Least difference of the scene's motion from the mean, cells. Uncritical from 0.1."""

MIN_AREA_SHARE = 0.55
"""Least area that the scene's motion explains better than the mean motion, over the area where they differ.

Derived: more than half. Rows: as BESIDE_CELLS; uncritical from 0.5 to 0.6.
"""


def separated(
    aligner: RotationAligner, mixed: RotationAlignment, key: Key, view: View, axis: Vector, noise: float
) -> RotationAlignment:
    """Align a view to a key by the scene alone; returns `mixed` unless an alignment fits better.

    `mixed`: the alignment that may be a mean of two motions. `axis`: axis of the turns in the key's frame, a
    unit vector. `noise`: of views without independent motion, grey levels.
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
        # A single motion fits its part exactly. When the camera passes near objects, no motion does.
        if found.agreement.measure(usual)[0] < similarity:
            continue
        share = aligner.area_share(found, mixed)
        if share > largest:
            best, largest = found, share
    return best
