"""Tracks a pattern, given as a patch of an image, in other images."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import Engine, SwappableEngine
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.encodings import ImageError, ImageFault, Pixels, to_grey
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.weight_request import WeightRequest
from edgetpu_perception.algorithm import Frame, ImageInput, ImageLike, PerceptionAlgorithm, camera_image
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from edgetpu_perception.pattern_tracker.coordinate_locator import CoordinateLocator
from edgetpu_perception.pattern_tracker.correlation_locator import (
    MAX_CANDIDATES,
    MAX_POOLED_CANDIDATES,
    CorrelationLocator,
    Locator,
)
from edgetpu_perception.pattern_tracker.fine_alignment import FineAligner
from edgetpu_perception.pattern_tracker.match_selection import MIN_CERTAINTY, Matcher, Matches
from edgetpu_perception.pattern_tracker.patch_alignment import PatchAlignment
from edgetpu_perception.pattern_tracker.scale_search import ScaleSearch, scale_of
from edgetpu_perception.pattern_tracker.template import Template, TemplateOutcome, View, fit, judge
from edgetpu_perception.pattern_tracker.template_search import Finding, TemplateSearch

MIN_TEMPLATE_CONTRAST = 0.01
"""Minimum usable contrast of a template, in grey levels.

Derived: far below the 1/sqrt(12) of rounding; only uniform patches have less.
"""


@dataclass(frozen=True)
class MatchResult:
    """Position of the template in the image. Positions and bearings are NaN unless `valid`."""

    stamp: float
    """Time of the image, s."""
    valid: bool
    """False if the template is not in view, or none is set."""
    confidence: float
    """0..1; at most 0.5 when ambiguous"""
    ambiguous: bool = False
    """Another position matches nearly as well."""
    x: float = math.nan
    """Centre in px of the image, right positive; (0, 0) is the centre of the first pixel."""
    y: float = math.nan
    """Centre in px of the image, down positive."""
    width: float = math.nan
    """Size of the template as it appears, px of the image."""
    height: float = math.nan
    x_sigma: float = math.nan
    """One standard deviation, px."""
    y_sigma: float = math.nan
    score: float = math.nan
    """Normalised cross-correlation of the best match, -1..1; NaN if there is none."""
    runner_up_score: float = math.nan
    """The same for the best match elsewhere."""
    offset_x: float = math.nan
    """`x` in other units: -1 is the centre of the first column of pixels, 1 that of the last one."""
    offset_y: float = math.nan
    """`y` in other units: -1 is the centre of the first row of pixels, 1 that of the last one."""
    offset_x_sigma: float = math.nan
    offset_y_sigma: float = math.nan
    bearing_x: float = math.nan
    """atan2(x, z) in the optical frame, right positive, rad; NaN without a camera of the image's size."""
    bearing_y: float = math.nan
    """atan2(y, z) in the optical frame, down positive, rad."""
    bearing_x_sigma: float = math.nan
    bearing_y_sigma: float = math.nan
    scale: float = math.nan
    """Size in the image over that in the image that the patch was cut out of."""
    scale_sigma: float = math.nan


@dataclass(frozen=True, eq=False)
class JudgedTemplate:
    """A patch fitted to the template's size, and whether it is accepted."""

    outcome: TemplateOutcome
    template: Template
    matcher: Matcher | None
    """None if the template has no contrast."""
    weights: NDArray[np.float64] | None
    """Real weights of the model's filter for the template, [1, h, w, channels]; None if it is refused."""


class PatternTracker(PerceptionAlgorithm[MatchResult]):
    """Finds a template in images, rotated by up to about 5 degrees and half to twice as large.

        tracker = PatternTracker(search=(64, 64), template=(16, 16))
        outcome = tracker.set_template(image[20:36, 30:46], view=image)
        result = tracker.update(next_image, stamp)

    The model correlates the template with the whole image. The few best candidates are aligned, and their
    scores compared with those expected of this template. A template that is smaller or larger than where it
    was cut out by more than a few percent is searched for on the host: see TemplateSearch.

    If inference runs elsewhere, use `bind`, `preprocess` and `postprocess` instead of `update`, and
    `judge_template` and `use_template` instead of `set_template`; in between give the model the weights.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        camera: Pinhole | None = None,
        *,
        search: pattern.Size = (64, 64),
        template: pattern.Size = (16, 16),
        min_confidence: float = 0.2,
        scale_range: float = 2.0,
    ) -> None:
        """`search`: height and width that images are resized to; `template`: those of the template, px.

        `engine`: runs the model; None for the suite's own graph on the CPU. `camera`: intrinsics of the
        images, for bearings. Results below `min_confidence`, 0..1, are not valid. `scale_range`, 1 or more:
        factor by which the template may be larger or smaller; at 1, by a few percent.
        Raises GraphError for sizes without a graph and ModelUnsupportedError for an engine with an unsuitable
        model.
        """
        super().__init__(camera, min_confidence)
        self._scale_range = scale_range
        self._template_size = template
        self._template: Template | None = None
        self._matcher: Matcher | None = None
        self._locator: Locator | None = None
        self._search: TemplateSearch | None = None
        self._view: View | None = None
        self._search_size = search
        self._outputs: tuple[TensorSpec, ...] = ()
        if engine is None:
            self.bind((pattern.image(search),), (pattern.response(search, template),))
        self._use_engine(engine)

    @property
    def model(self) -> str:
        """Name of the suite's own graph for these sizes."""
        return pattern.name(self._search_size, self._template_size)

    @property
    def weights(self) -> NDArray[np.int8] | None:
        """The template as int8 weights of the model's filter, [h, w]; None until one is accepted."""
        return None if self._locator is None else self._locator.weights

    @property
    def model_weights(self) -> NDArray[np.float64] | None:
        """The template as real weights of the model's filter, [1, h, w, channels]: see SwappableEngine."""
        return None if self._locator is None else self._values_of(self._locator)

    def set_template(
        self,
        patch: Pixels,
        mask: NDArray[Any] | None = None,
        accept_ambiguous: bool = False,
        *,
        view: Pixels | None = None,
    ) -> TemplateOutcome:
        """Track another pattern if it can be distinguished from other objects; otherwise nothing changes.

        `patch`: uint8 [h, w] or [h, w, 3] RGB, cut out of an image like those to come. `mask`: [h, w],
        non-zero where the patch counts. `view`: the image it was cut out of, by default the tracker's last
        one; it gives the scale, and shows whether something else looks like the patch. Without any view the
        patch is resized to the template, and look-alikes remain unknown. A larger patch is cropped.

        `accept_ambiguous` accepts any patch with contrast. The engine's model gets the template as weights;
        no compiler is needed. If that fails the tracker keeps the previous pattern. Raises ImageError for
        other arrays, ModelUnsupportedError for an engine whose weights cannot be replaced or whose weight
        locations are unknown, and DeviceError.
        """
        if self._engine is not None and not hasattr(self._engine, "set_weights"):
            raise ModelUnsupportedError(
                f"expected an engine whose weights can be replaced; got {type(self._engine).__name__}"
            )
        judged = self.judge_template(patch, mask, accept_ambiguous, view=view)
        if judged.weights is not None:
            if self._engine is not None:
                self._give_weights(cast(SwappableEngine, self._engine), judged.weights)
            self.use_template(judged)
        return judged.outcome

    def judge_template(
        self,
        patch: Pixels,
        mask: NDArray[Any] | None = None,
        accept_ambiguous: bool = False,
        *,
        view: Pixels | None = None,
    ) -> JudgedTemplate:
        """First half of `set_template`, with the same arguments; the tracker does not change."""
        seen = self._view if view is None else self._look(camera_image(view))
        template = fit(patch, mask, seen, self._template_size)
        if template.contrast < MIN_TEMPLATE_CONTRAST:
            return JudgedTemplate(judge(template, None, None, accept_ambiguous), template, None, None)
        matcher = self._make_matcher(template)
        matches = None if seen is None else self._matches_in(seen, template, matcher)
        outcome = judge(template, matcher, matches, accept_ambiguous)
        weights = self._values_of(self._make_locator(template)) if outcome.accepted else None
        return JudgedTemplate(outcome, template, matcher, weights)

    def use_template(self, judged: JudgedTemplate) -> None:
        """Second half of `set_template`, after the model got `judged.weights`."""
        self._use(judged.template, judged.matcher)

    def adopt_template(self, template: Template) -> None:
        """Track a template that a tracker with the same sizes has accepted before, without an engine.

        Raises ImageError for one of another size or without contrast.
        """
        if template.values.shape != self._template_size or template.contrast < MIN_TEMPLATE_CONTRAST:
            raise ImageError(
                ImageFault.CONTENT,
                f"expected a template {list(self._template_size)} with contrast; got "
                f"{list(template.values.shape)} with {template.contrast:.3g} grey levels",
            )
        matcher = self._make_matcher(template)
        self._use(template, matcher)

    def _use(self, template: Template, matcher: Matcher | None) -> None:
        self._template, self._matcher = template, matcher
        self._locator = self._make_locator(template)
        self._search = None if matcher is None else self._make_search(template, matcher, self._locator)

    def update(self, image: ImageLike, stamp: float = 0.0) -> MatchResult:
        """See PerceptionAlgorithm.update; without a template no inference runs, and no result is valid."""
        if self._template is not None:
            return super().update(image, stamp)
        self.preprocess(image, stamp)
        return MatchResult(stamp, False, 0.0)

    def preprocess(self, image: ImageLike, stamp: float = 0.0) -> Frame:
        """First half of `update`: make the model's input, and keep it as the view for `set_template`."""
        frame = super().preprocess(image, stamp)
        self._view = self._view_of(frame)
        return frame

    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> MatchResult:
        """Second half of `update`: make the result from a frame and the model's outputs by name."""
        if self._template is None or self._search is None:
            return MatchResult(frame.stamp, False, 0.0)
        grey = self._grey(frame.inputs[self._bound_input().name])
        found = self._search.find(frame, grey, outputs, self.min_confidence)
        best = found.matches.best
        if best is None:
            return MatchResult(frame.stamp, False, 0.0)
        if not found.is_valid(self.min_confidence):
            return MatchResult(
                frame.stamp,
                False,
                found.confidence,
                score=best.score,
                runner_up_score=found.matches.runner_up_score,
            )
        return self._result(frame, self._template, found, best)

    def _look(self, image: CameraImage) -> View:
        return self._view_of(Frame.of(image, 0.0, self.region, self._bound_input()))

    def _view_of(self, frame: Frame) -> View:
        # A copy: an input of the image's own size shares memory with the image, which the caller may reuse.
        grey = self._grey(frame.inputs[self._bound_input().name]).copy()
        return View(grey, frame.width, frame.height, frame.region_scale)

    @staticmethod
    def _grey(filled: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Brightness [H, W] of a model's input."""
        return filled[0, :, :, 0] if filled.shape[3] == 1 else to_grey(filled[0])

    def _cells(self, grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return pattern.cells(grey, pattern.pooling(self._template_size))

    def _matches_in(self, view: View, template: Template, matcher: Matcher) -> Matches:
        """Matches of a template in its own view; no best match if the template itself is not found there."""
        expected = pattern.response(self._search_size, self._template_size)
        candidates = self._correlator(template, expected).find_without_model(self._cells(view.grey))
        matches = matcher.match(view.grey, candidates)
        if matches.best is not None and matcher.certainty(matches.best) < MIN_CERTAINTY:
            return Matches(None, matches.best.score)
        return matches

    def _values_of(self, locator: Locator) -> NDArray[np.float64]:
        channels = self._bound_input().channels
        values = locator.weights * locator.weight_scale
        return np.repeat(values[np.newaxis, :, :, np.newaxis], channels, axis=3)

    def _give_weights(self, engine: SwappableEngine, weights: NDArray[np.float64]) -> None:
        try:
            engine.set_weights(WeightRequest(weights))
        except InputError as error:  # from a model of another kind, which two coordinates do not reveal
            height, width = self._template_size
            raise ModelUnsupportedError(
                f"expected a model with one kernel, for templates of {width}x{height} px: {error}"
            ) from error

    def _make_matcher(self, template: Template) -> Matcher:
        pool = pattern.pooling(self._template_size)
        return Matcher(template.values, template.mask, pool, refined=template.fine is not None)

    def _make_locator(self, template: Template) -> Locator:
        if len(self._outputs[0].shape) == 4:
            return self._correlator(template, self._outputs[0])
        return CoordinateLocator(template.values, template.mask, self._outputs, self._search_size)

    def _make_search(self, template: Template, matcher: Matcher, locator: Locator) -> TemplateSearch:
        sizes = self._search_size, self._template_size
        return TemplateSearch(
            matcher,
            locator,
            self._correlator(template, pattern.response(*sizes)),
            None if template.fine is None else FineAligner(template.fine),
            ScaleSearch(*sizes, self._scale_range, template.region_scale),
            pattern.pooling(self._template_size),
        )

    def _correlator(self, template: Template, output: TensorSpec) -> CorrelationLocator:
        pool = pattern.pooling(self._template_size)
        most = MAX_CANDIDATES if pool == 1 else MAX_POOLED_CANDIDATES
        return CorrelationLocator(*template.cells(pool), output, most)

    def _graph(self) -> bytes:
        return pattern.build(self._search_size, self._template_size, self.weights)

    def _recognise(self, image: ImageInput, outputs: Sequence[TensorSpec]) -> None:
        """Accept a response map, as of the suite's own graphs, or two softmax coordinates.

        Two coordinates are the outputs of the pattern models of LibrEdgeTPU. The template size is the one
        that this tracker was made for.
        """
        expected = pattern.response((image.height, image.width), self._template_size)
        mapped = len(outputs) == 1 and outputs[0].shape == expected.shape
        if not mapped and sum(math.prod(spec.shape) for spec in outputs) != 2:
            came = ", ".join(map(str, outputs)) or "none"
            raise ModelUnsupportedError(
                f"expected an output {list(expected.shape)} or two coordinates for templates of "
                f"{self._template_size[0]}x{self._template_size[1]} px; got {came}"
            )
        resized = self._search_size != (image.height, image.width)
        self._search_size = image.height, image.width
        self._outputs = tuple(outputs)
        if self._template is not None and self._search is not None and not resized:
            self._locator = self._search.locator = self._make_locator(self._template)
        elif self._template is not None:
            self._use(self._template, self._matcher)

    def _result(self, frame: Frame, template: Template, found: Finding, match: PatchAlignment) -> MatchResult:
        """The result for an accepted match, whose position is in px of the image of `found.size`."""
        rows, columns = found.size
        image = dataclasses.replace(self._bound_input(), height=rows, width=columns)
        scale = match.scale * scale_of(found.size, self._search_size)
        scale *= frame.region_scale / (template.region_scale or frame.region_scale)
        x, y = match.x + template.offset[0], match.y + template.offset[1]
        at = frame.position(image, x, y, match.x_sigma, match.y_sigma, self.camera)
        x_cell, y_cell = frame.width / columns, frame.height / rows
        # The template keeps its shape even if px of the search image now have another aspect ratio.
        wider = math.sqrt((template.px_aspect or x_cell / y_cell) / (x_cell / y_cell))
        return MatchResult(
            frame.stamp,
            True,
            found.confidence,
            bool(found.matches.rivals),
            at.u,
            at.v,
            match.scale * template.size[1] * x_cell * wider,
            match.scale * template.size[0] * y_cell / wider,
            at.u_sigma,
            at.v_sigma,
            match.score,
            found.matches.runner_up_score,
            at.x,
            at.y,
            at.x_sigma,
            at.y_sigma,
            *at.bearing,
            scale=scale,
            scale_sigma=scale * match.growth_sigma,
        )
