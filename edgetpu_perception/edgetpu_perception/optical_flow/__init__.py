"""Optical flow: motion of most of the image from one frame to the next.

Two frames are registered by a shift. Normalised cross-correlation by FFT scores all whole shifts of their
feature maps. A gradient-based least-squares step over dx, dy and the contrast refines the best ones. The
normal equations are summed over neighbourhoods of a few cells, whose robust weights select the dominant
motion: the one that most of the area follows, whatever its contrast.

The way of an image:

1. The model (`graphs.flow_and_compass_features`) gives a band-pass map and its exact derivatives.
   `OpticalFlow.postprocess` (`optical_flow`) has them decoded (`flow_features`) and prepared as a `Texture`
   by `Registration.describe` (`shift_registration`): maps, gradients, weights and spectra.
2. `ShiftChoice.choose` (`shift_choice`) gets the textures of the last frame and of this one.
   `Registration.compare` scores all whole shifts (`ShiftScores`); `Registration.refine` refines the best one
   in steps 3 and 4.
3. `PartFinder.find` (`followed_part`) sums `NormalEquations` (`normal_equations`). Unless nearly all
   neighbourhoods follow one motion, `NeighbourhoodMotions` (`dominant_motion`) finds the dominant one. If two
   parts move apart, the larger one counts (`larger_part`, `part_areas`). The `FollowedPart` has the weights.
4. A least-squares step over all cells with these weights gives the `Shift`; `ShiftSigmas` (`shift_sigmas`)
   gives its errors.
5. `ShiftChoice` compares it with other shifts of a repeating texture (`repeating_texture`) and with the
   motions of the rest of the picture, and returns the one with the largest area and a confidence. If most of
   the picture is flat, its faint texture (`faint_part`) tells whether it follows another motion.
6. `OpticalFlow` converts it to px of the image and makes a `FlowResult`.

Kept between images: `OpticalFlow` has the last frame with its `Texture`, and the last velocity, which may
decide between the shifts of a repeating texture; `ShiftChoice` has the last whole shift. There are no
keyframes.

Only for special inputs: `smooth_motion` and `motion_field` if the motion changes across the picture, as when
the camera rolls; `magnification` for small images that are enlarged to the model's input; `GaborMaps`
(`flow_features`) for models with oriented filters. Maps with few neighbourhoods are registered as a whole.
"""
