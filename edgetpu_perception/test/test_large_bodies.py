"""Large shaded bodies of a colour, with holes, a dark side and wide edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception import SpotTracker
from edgetpu_perception.spot_tracker.blob import Blob, find_blob, without_holes
from edgetpu_perception.spot_tracker.blob_measurement import FALL_SHARE, STEP_SHARE, has_steep_outline
from edgetpu_perception.spot_tracker.evidence_map import EvidenceMap

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

SIZES = [64, 96, 128]
"""Width and height of the model's input, px."""


def blob_of(*rows: str) -> Blob:
    """A blob with an x for each of its cells, in the middle of a map of 20x20 cells."""
    mask = np.array([[cell == "x" for cell in row] for row in rows]).astype(np.uint8)
    return Blob(mask, 20, 20, 5, 5, mask.shape[1], mask.shape[0], int(mask.sum()))


def test_holes_are_filled_and_bays_are_not() -> None:
    filled = without_holes(blob_of("xxxxx", "x.xx.", "xxx..", "xxxxx"))
    expected = blob_of("xxxxx", "xxxx.", "xxx..", "xxxxx")
    assert filled.mask.tolist() == expected.mask.tolist()
    assert filled.area == expected.area
    assert filled.window == expected.window


def test_touching_corners_close_a_hole() -> None:
    assert without_holes(blob_of("xxxx", "xx.x", "xxx.")).area == 11


@pytest.mark.parametrize("rows", [("x", "x", "x"), ("xxx",), ("xx.xx", "xxxxx", "x.x.x")])
def test_a_blob_without_holes_stays_as_it_is(rows: tuple[str, ...]) -> None:
    blob = blob_of(*rows)
    assert without_holes(blob) is blob


def test_a_frame_around_something_larger_keeps_its_hole() -> None:
    frame = blob_of("xxxxxxxx", *["x......x"] * 6, "xxxxxxxx")
    assert without_holes(frame) is frame


def body(x: float, y: float, radius: float, ambient: float) -> NDArray[np.uint8]:
    """A red ball on grey in 320x240 px, RGB, lit from the left, with a white reflection and a dark hollow."""
    v, u = np.mgrid[:240, :320]
    right, down = (u - x) / radius, (v - y) / radius
    distance = np.hypot(right, down)
    out = np.sqrt(np.maximum(1.0 - distance**2, 0.0))
    shade = ambient + (1.0 - ambient) * np.maximum(0.7 * out - 0.7 * right, 0.0)
    shade *= np.hypot(right, down + 0.4) > 0.15
    color = shade[..., np.newaxis] * np.array([190.0, 25.0, 30.0])
    color += 250.0 * (np.hypot(right + 0.4, down - 0.2) < 0.12)[..., np.newaxis]
    covered = np.clip((1.0 - distance) * radius + 0.5, 0.0, 1.0)[..., np.newaxis]
    return np.clip(120.0 + covered * (color - 120.0), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("radius", "ambient", "error"), [(60.0, 0.7, 0.2), (85.0, 0.5, 0.2), (85.0, 0.35, 8.5)]
)
def test_a_large_body_is_found_by_its_outline(size: int, radius: float, ambient: float, error: float) -> None:
    result = SpotTracker(color="red", size=size).update(body(170.0, 115.0, radius, ambient))
    assert result.valid
    assert math.dist((result.u, result.v), (170.0, 115.0)) < error


def evidence_map(evidence: NDArray[np.float64]) -> EvidenceMap:
    return EvidenceMap.of(np.rint(evidence).astype(np.uint8), np.dtype(np.uint8))


def is_steep(output: EvidenceMap, share: float) -> bool:
    """Whether the blob above this share of the contrast has a steep outline."""
    threshold = output.background.level + share * output.contrast
    blob = find_blob(output.evidence, threshold, output.peak, 0.0, None).blob
    return has_steep_outline(output, without_holes(blob), STEP_SHARE, FALL_SHARE)


@pytest.mark.parametrize("share", [0.25, 0.35, 0.5])
@pytest.mark.parametrize("radius", [10.0, 15.0, 25.0, 40.0])
def test_a_glow_of_any_size_has_no_outline(radius: float, share: float) -> None:
    v, u = np.mgrid[:128, :128]
    sigma = radius / math.sqrt(-2.0 * math.log(share))
    glow = 200.0 * np.exp(-(np.hypot(u - 64, v - 64) ** 2) / (2.0 * sigma**2))
    assert not is_steep(evidence_map(glow), share)


@pytest.mark.parametrize("radius", [10.0, 15.0, 25.0, 40.0])
def test_an_edge_that_is_as_wide_as_a_third_of_the_radius_is_an_outline(radius: float) -> None:
    v, u = np.mgrid[:128, :128]
    inside = np.clip((radius - np.hypot(u - 64, v - 64)) / (0.3 * radius) + 0.5, 0.0, 1.0)
    assert is_steep(evidence_map(200.0 * inside), 0.35)


def test_a_dark_side_has_an_outline_if_it_ends_there() -> None:
    v, u = np.mgrid[:128, :128]
    inside = np.hypot(u - 64, v - 64) < 25.0
    shade = np.interp(u, [40.0, 88.0], [1.0, 0.36])
    assert is_steep(evidence_map(200.0 * inside * shade), 0.25)
    assert not is_steep(evidence_map(200.0 * shade * np.where(inside, 1.0, 0.6)), 0.7)


def test_along_the_border_no_outline_is_seen() -> None:
    v, u = np.mgrid[:64, :64]
    inside = np.hypot(u - 8, v - 30) < 12.0
    assert is_steep(evidence_map(200.0 * inside), 0.35)
    assert not is_steep(evidence_map(200.0 - 3.0 * u), 0.35)
