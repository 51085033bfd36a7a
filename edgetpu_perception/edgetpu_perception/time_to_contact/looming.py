"""Looming: time to contact with the surface that the camera approaches, and edge energy of the image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.region import Region
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.algorithm import (
    MAX_REPEATED_S,
    Frame,
    ImageInput,
    ImageLike,
    PerceptionAlgorithm,
    camera_image,
)
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.graphs import looming_slopes as graph
from edgetpu_perception.time_to_contact.contact_time import contact_time, share_left
from edgetpu_perception.time_to_contact.homography_alignment import Grid
from edgetpu_perception.time_to_contact.rectified_maps import RectifiedMaps
from edgetpu_perception.time_to_contact.surface import APPROACH_SIGMAS, STEADY_FRAMES, Surface
from edgetpu_perception.time_to_contact.surface_tracker import SurfaceTracker
from edgetpu_perception.time_to_contact.zone_output_decoder import ZoneOutputDecoder
from edgetpu_perception.time_to_contact.zone_tau import ZONES, ZoneEnergies, tau_of, third_borders

MAX_GAP_S = 1.0
"""Two images are compared only if less than this time is between them, s.

Derived: MAX_KEYFRAME_AGE_S of the tracker.
"""

DEFAULT_FOCAL_LENGTH = 0.7
"""Focal length over the width of the image if no camera is given.

Results hardly depend on it. Derived: a horizontal field of view of 71 degrees, that of common cameras.
"""

MIN_EXPANSION_RATE = 0.15
"""Default of the least rate at which an approach is claimed, 1/s: contact within 6.7 s.

Rows: looming, static, rotation and lateral, no approach claimed.
"""

WIDE_ASPECT_RATIO, MAX_WIDTH_TO_SIZE = 2.0, 4
"""Least width over height for which an image gets a wider input, and the greatest width of that input over
`size`, which limits the time.

Rows: looming, car ahead brakes, 1242x375, 10 Hz, whole image.
"""

USUAL_RATE = 0.15
"""The uncertainty of a smaller rate is judged as if the rate were this large, 1/s.

Rows: looming, static, no approach claimed; test_of_a_static_view.
"""

MIN_GROWTH = 0.12
"""Relative growth that must have been followed before a surface is claimed to approach.

Swaying objects grow for a moment, too. Rows: looming, leaves, no approach claimed.
"""

MAX_UNEXPLAINED = 0.5
"""Largest share of the image that moves like no surface at which a claim begins: beyond it what seems to be a
surface may be parts of many objects. A surface that was claimed before may fill the image and hide all else.

Derived: half of the image. Rows: looming, leaves, no approach claimed.
"""

_NO_ZONES = (math.nan,) * ZONES


@dataclass(frozen=True)
class LoomingResult:
    """Time until the camera touches a surface in view.

    Unless `valid`, ttc, expansion rate and their sigmas are NaN, and `region` is None. Tau and zones come
    from a single image and are always measured.
    """

    stamp: float
    """Time of the image, s."""
    valid: bool
    confidence: float
    """0..1"""
    ttc: float = math.nan
    """Time to contact, s; +inf unless the expansion rate is above its sigma."""
    ttc_sigma: float = math.nan
    """One standard deviation, s; +inf if ttc is."""
    expansion_rate: float = math.nan
    """Relative growth of the image per second, 1/s; negative: receding."""
    expansion_rate_sigma: float = math.nan
    """One standard deviation, 1/s."""
    tau: float = math.nan
    """Edge energy of the centre zone over the mean of the other eight; NaN without any edges."""
    zones: tuple[float, ...] = _NO_ZONES
    """Edge energy of a 3 x 3 grid, row-major from the top left, (grey levels per element)^2. An element is
    1 px of the model's input, or 2 px in the suite's own graph of at least 128 x 128 px."""
    approaching: bool = False
    """The claim to act on: the expansion rate is at least `min_expansion_rate` and at least 5 sigma, for a
    surface that was followed for ten images, in which it has grown by 12 %."""
    region: Region | None = None
    """Bounds of the surface that was measured, px of the image."""

    def at(self, stamp: float) -> LoomingResult:
        """The same result at a later time, s, if the speed stays the same."""
        left = share_left(self.expansion_rate, stamp - self.stamp) if self.valid else 1.0
        return replace(
            self,
            stamp=stamp,
            ttc=self.ttc * left,
            expansion_rate=self.expansion_rate / left,
            expansion_rate_sigma=self.expansion_rate_sigma / left**2,
        )


class Looming(PerceptionAlgorithm[LoomingResult]):
    """Time to contact from the growth of the image.

        looming = Looming()
        result = looming.update(image, stamp)

    The whole image is compared with one of up to a second ago, or up to three seconds while the surface grows
    or shrinks slowly. Up to two surfaces are followed; the result belongs to the one with the soonest
    contact. A third one that approaches replaces the second if its contact is sooner. Rotation of the camera,
    motion to the side, slant of the surface and changes of brightness are distinguished from growth. `region`
    may move with a target from image to image. If inference runs elsewhere, use `bind`, `preprocess` and
    `postprocess` instead of `update`.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        camera: Pinhole | None = None,
        *,
        size: int = 64,
        width: int | None = None,
        min_confidence: float = 0.1,
        min_expansion_rate: float = MIN_EXPANSION_RATE,
    ) -> None:
        """`engine`: runs the model; None for the suite's own graph on the CPU.

        `camera`: intrinsics of the images; they make rotation and slant more exact, and a lens with
        distortion needs them. `size`: width and height of the own graph's input, 16 px or more; 96 sees
        smaller objects, 128 has less noise. `width`: width of that input if it differs; None: `size`, which
        `update` and `choose_width` multiply by 2 to 4 if the first image is that many times wider than high,
        so that wide images are not squeezed. Results below `min_confidence`, 0..1, are not valid.
        `min_expansion_rate`: least rate at which a result is `approaching`, 1/s. Raises ModelUnsupportedError
        for an engine with an unsuitable model.
        """
        super().__init__(camera, min_confidence)
        self.min_expansion_rate = min_expansion_rate
        self._size, self._width = size, width
        self._slopes: graph.SlopeReader | None = None
        self._zone_decoder: ZoneOutputDecoder | None = None
        self._zones: ZoneEnergies | None = None
        self._tracker: SurfaceTracker | None = None
        self._rectified: RectifiedMaps | None = None
        """Removes the distortion of the camera; None if the camera has none, or is unknown."""
        self._view: tuple[object, ...] | None = None
        self._seen: Region | None = None
        self._before = self._stamp = self._astray = math.nan
        """Times of the last two images, s, and of a later one whose stamp did not follow theirs, else NaN."""
        self._last = LoomingResult(math.nan, False, 0.0)
        self._shown: tuple[object, ...] = ()
        """View, region and features of the last image."""
        self._changed = math.nan
        """Time of the first image with these features, s."""
        self._use_engine(engine)

    @property
    def model(self) -> str:
        """Name of the suite's own graph; `graphs.families.build` builds it."""
        return graph.name(self._size, self._width or self._size)

    def update(self, image: ImageLike, stamp: float = 0.0) -> LoomingResult:
        """Make a result from an image; see PerceptionAlgorithm.update."""
        image = camera_image(image)
        if self._engine is None:
            self.choose_width(image)
        return super().update(image, stamp)

    def choose_width(self, image: CameraImage) -> str:
        """Choose the width of the own graph by the first image, unless it was given; returns its `model`.

        Raises ImageError if `region` exceeds the image.
        """
        if self._width is None:
            self._width = self._size * self._widths_of(image)
        return self.model

    def _widths_of(self, image: CameraImage) -> int:
        """Width over height of an input in which an image is not squeezed, up to MAX_WIDTH_TO_SIZE."""
        part = self.region.within(image.width, image.height)
        ratio = part.width / part.height
        return min(round(ratio), MAX_WIDTH_TO_SIZE) if ratio >= WIDE_ASPECT_RATIO else 1

    def _recognise(self, image: ImageInput, outputs: Sequence[TensorSpec]) -> None:
        """Accept the suite's own graph, or a model with nine zone energies as output.

        Results of such a model have zones and tau only.
        """
        self._slopes = self._zone_decoder = self._zones = self._tracker = self._view = None
        if len(outputs) == 1 and math.prod(outputs[0].shape) == ZONES:
            self._zone_decoder = ZoneOutputDecoder(outputs[0], image.height, image.width)
        else:
            self._slopes = graph.SlopeReader.of(image.height, image.width, outputs)
            layout = self._slopes.layout
            self._zones = ZoneEnergies(
                third_borders(image.height, layout.first, layout.stride, layout.rows),
                third_borders(image.width, layout.first, layout.stride, layout.columns),
            )

    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> LoomingResult:
        """Second half of `update`: make the result from a frame and the model's outputs by name."""
        bound = self._bound_input()
        if self._zone_decoder is not None:
            zones = self._zone_decoder.read(frame.inputs[bound.name], outputs)
            return LoomingResult(frame.stamp, False, 0.0, tau=tau_of(zones), zones=tuple(zones))
        assert self._slopes is not None
        assert self._zones is not None
        features = self._slopes.read(outputs)
        brightness, slope_x, slope_y = features
        energy = slope_x**2 + slope_y**2
        zones = self._zones.measure(energy)
        follows = _follows(frame.stamp, self._stamp)
        # The same image again shows no motion.
        if frame.stamp == self._stamp or (not follows and self._is_astray(frame.stamp)):
            return LoomingResult(frame.stamp, False, 0.0, tau=tau_of(zones), zones=tuple(zones))
        self._before, self._stamp, self._astray = self._stamp, frame.stamp, math.nan
        tracker = self._tracker_for(frame)
        if self._is_repeated(features, frame, follows):
            self._last = self._last.at(frame.stamp)
            return self._last
        if not follows:
            tracker.restart()
        if self._rectified is not None:
            brightness, slope_x, slope_y = self._rectified.apply(brightness, slope_x, slope_y)
            energy = slope_x**2 + slope_y**2
        surface = tracker.update(brightness, slope_x, slope_y, energy, frame.stamp)
        self._last = self._result(frame, tracker, surface, zones)
        return self._last

    def _is_astray(self, stamp: float) -> bool:
        """Whether a stamp that does not follow the last one may be wrong, as no image has confirmed it."""
        if self._before < stamp < self._stamp and _follows(self._stamp, self._before):
            return True  # a late image from between the last two
        if math.isnan(self._stamp) or _follows(stamp, self._astray):
            return False
        self._astray = stamp
        return True

    def _is_repeated(self, features: NDArray[np.float32], frame: Frame, follows: bool) -> bool:
        """Whether the camera has sent the last image once more, which tells nothing of its motion."""
        before, self._shown = self._shown, (self._view, frame.region, features.tobytes())
        same = follows and self._shown == before
        if not same:
            self._changed = frame.stamp
        return same and frame.stamp - self._changed <= MAX_REPEATED_S

    def _result(
        self, frame: Frame, tracker: SurfaceTracker, surface: Surface | None, zones: Sequence[float]
    ) -> LoomingResult:
        stamp, tau, energies = frame.stamp, tau_of(zones), tuple(zones)
        if surface is None:
            return LoomingResult(stamp, False, 0.0, tau=tau, zones=energies)
        rate, sigma = surface.rate, surface.rate_sigma
        relative = sigma / max(abs(rate), USUAL_RATE)
        confidence = float(max(1.0 - 2.0 * relative, 0.0) * (1 - tracker.unexplained))
        if confidence < self.min_confidence:
            return LoomingResult(stamp, False, confidence, tau=tau, zones=energies)
        lead = tracker.rate_lead_of_others(surface)
        observed = surface.depth.observed_rate_sigma
        errors = surface.focal_error, surface.deviation_sigma, surface.jump_sigma
        sigma = math.hypot(observed, *errors, lead)
        ttc, ttc_sigma = contact_time(rate, sigma)
        # A surface whose slant is unknown may seem to approach; only `comes_nearer` allows for that.
        certain = surface.comes_nearer and rate >= APPROACH_SIGMAS * sigma
        lasting = surface.steady >= STEADY_FRAMES and surface.growth >= MIN_GROWTH
        # Before a camera that stands still, what seems to grow may be a shadow.
        main = tracker.surfaces[0]
        solid = surface is main or main.moves or surface.carries_texture
        told_apart = surface.claimed or tracker.unexplained <= MAX_UNEXPLAINED
        claimed = bool(certain and lasting and solid and told_apart and rate >= self.min_expansion_rate)
        surface.claimed |= claimed
        part = self._part_of(frame, surface)
        return LoomingResult(
            stamp, True, confidence, ttc, ttc_sigma, rate, sigma, tau, energies, claimed, part
        )

    def _part_of(self, frame: Frame, surface: Surface) -> Region:
        """The part of the image, px, that a surface occupies."""
        assert self._input is not None
        assert self._slopes is not None
        layout, part = self._slopes.layout, frame.region
        extent = surface.extent() if self._rectified is None else self._rectified.part(surface.extent())
        left, top, right, bottom = (
            (edge + 0.5) * layout.stride + layout.first - (layout.stride - 1) / 2 for edge in extent
        )
        x, width = _pixels(left, right, part.width, self._input.width)
        y, height = _pixels(top, bottom, part.height, self._input.height)
        return Region(part.x_offset + x, part.y_offset + y, width, height)

    def _tracker_for(self, frame: Frame) -> SurfaceTracker:
        """The tracker for this image size and camera, looking at this region."""
        assert self._input is not None
        assert self._slopes is not None
        view = frame.image_width, frame.image_height, self.camera
        if self._tracker is None or view != self._view or frame.region != self._seen:
            camera = frame.camera(self.camera)
            calibrated = camera is not None
            layout = self._slopes.layout
            if camera is None:
                focal = DEFAULT_FOCAL_LENGTH * frame.image_width
                width, height = frame.image_width, frame.image_height
                whole = Pinhole(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)
                camera = frame.camera(whole)
                assert camera is not None
            x_scale = self._input.width / frame.width / layout.stride
            y_scale = self._input.height / frame.height / layout.stride
            grid = Grid(
                layout.rows,
                layout.columns,
                (camera.fx * x_scale, camera.fy * y_scale),
                (
                    (camera.cx + 0.5) * x_scale - (0.5 + layout.first) / layout.stride,
                    (camera.cy + 0.5) * y_scale - (0.5 + layout.first) / layout.stride,
                ),
            )
            self._rectified = RectifiedMaps.of(grid, camera)
            grid = grid if self._rectified is None else self._rectified.grid
            if self._tracker is None or view != self._view:
                self._tracker = SurfaceTracker(grid, layout.noise, calibrated=calibrated)
            else:
                self._tracker.look_at(grid)
            self._view, self._seen = view, frame.region
        return self._tracker


def _follows(stamp: float, last: float) -> bool:
    """Whether an image at `stamp` is compared with the one at `last`, s."""
    return 0.0 < stamp - last < MAX_GAP_S


def _pixels(begin: float, end: float, size: int, cells: int) -> tuple[int, int]:
    """First px and number of px, out of `size`, of a range in cells of the model's input, out of `cells`."""
    first = min(max(round(begin * size / cells), 0), size - 1)
    last = min(max(round(end * size / cells), first + 1), size)
    return first, last - first
