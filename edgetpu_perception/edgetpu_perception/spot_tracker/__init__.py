"""The spot tracker: position of the brightest spot of an image, or of the strongest spot of a colour.

The model makes an evidence map: the brightness, or the amount of the colour, without hot pixels and averaged
over 3x3 cells. A threshold clear of the background cuts out connected cells, the blobs. The weighted centroid
of the strongest one is the position, unless its outline in the camera's pixels, or a circle fitted to the
outline (Hough transform, then least squares), shows it better.

The way of an image:

1. `SpotTracker.postprocess` (`spot_tracker`) gives the model's output (`graphs.spot_tracker_evidence`) and
   input, the camera's pixels, and the position that `SpotMotion` (`spot_motion`) expects to
   `EvidenceDecoder.decode` (`evidence_decoder`), which takes steps 2 to 5.
2. `EvidenceMap` (`evidence_map`) has the peak and the `Background` (`background`): its level and noise. From
   these, `clear_thresholds` (`background`) chooses one or two thresholds, or none.
3. At each, until one gives enough confidence, `find_blob` (`blob`) finds the heaviest blob, or of several
   similar ones that nearest to the expected position. `measure_blob` (`blob_measurement`) makes a `Spot`
   (`spot_decoder`) with sigmas and a confidence; of a coloured blob it fills the holes.
4. `place_by_outline` (`fine_outline`) places coloured spots other than white ones, any that the border cuts
   off, and bright ones in very wide or high images, in the camera's pixels. A colour that is still uncertain
   is looked for by its shape: `flat_target`, `round_target`, and `fine_disc` with `shaded_disc` for balls.
   `disc_around_spot` chooses between spot and disc. The last attempt is a lower threshold, for a dark side.
5. A lamp of about a cell, which the graph removes, is looked for in the model's input (`small_spot`) and, if
   that leaves doubt, in the camera's pixels (`camera_lamp`).
6. `SpotTracker` makes a `SpotResult` of the `Spot`; if it is valid, `SpotMotion` learns position and
   velocity.

Kept between images: only `SpotMotion`, with position and velocity, and whether two spots have merged.

Only for special inputs: `coordinate_decoder` for models that give two coordinates; all shapes of step 4 but
the outline, and `color_purity`, for colours; `spot_size` if a diameter is asked for. `circle_fit` (a circle
through the points of an outline) and `lamp_centroid` (a centroid and its sigma) serve several of these.
"""
