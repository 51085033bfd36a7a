"""The pattern tracker: finds a patch of an image in other images.

The model's one convolution, with the template as its weights, correlates it with the whole image. The highest
peaks of the normalised cross-correlation are aligned to a fraction of a px: inverse compositional
Gauss-Newton over a similarity, with a prior on rotation and scale. A match counts if its score is near those
of changed copies of the template. It is aligned again in the camera's px, over a homography if the pattern is
tilted.

The way of a template: `PatternTracker.judge_template` (`pattern_tracker`) turns a patch into a `Template`
(`template`), with a `FinePatch` (`fine_patch`) made of the camera's px. `Matcher` (`match_selection`)
measures `ExpectedScores` (`expected_scores`), `judge` (`template`) accepts it or not, and
`PatternTracker.use_template` makes its `TemplateSearch`.

The way of an image:

1. `PatternTracker.postprocess` gives the model's response to `TemplateSearch.find` (`template_search`). This
   tries one scale after another: the model's, and others from `ScaleSearch` (`scale_search`), correlated on
   the host.
2. `CorrelationLocator` (`correlation_locator`) gives the highest peaks, normalised, as `Candidate`s.
3. `Matcher.match` aligns the first ones with `PatchAligner` (`patch_alignment`), and returns `Matches`: the
   best `PatchAlignment` and its rivals. With a confidence, these are the `Finding` of one scale.
4. `FineAligner` (`fine_alignment`) refines a valid match, or confirms a doubtful one, with `PatchAligner` and
   with `PlaneAligner` (`plane_alignment`). `FinePatchCheck` (`fine_patch_check`) refuses look-alikes by
   gradients.
5. `PatternTracker` makes a `MatchResult` of the best match.

Kept between images: `PatternTracker` has the template, and the last image, for patches that are cut out of
it; `TemplateSearch` has the last position and tilt, and `ScaleSearch` the last scale.

Only for special inputs: step 4 for images with more px than the model's input, `clipped_patch` for images
that are too bright or too dark, and `coordinate_locator` for models that give two coordinates instead of a
response.
"""
