"""Limits and precisions of the surface tracker: keyframes, noise, and the second surface."""

from __future__ import annotations

import math

from edgetpu_perception.time_to_contact.homography_alignment import precision_of

MAX_KEYFRAME_AGE_S = 1.0
"""Age of a keyframe at which a new one is taken, s: independently moving objects soon look too different.

Rows: looming, plane, median error of TTC; object approaches a camera that stands still, found.
"""

MAX_SLOW_KEYFRAME_AGE_S = 3.0
"""The same while the main surface grows or shrinks slowly: within a second there would be little to measure,
and few objects before a camera that drives slowly grow many times as fast.

Rows: looming, car ahead brakes, median error of TTC.
"""

SLOW_LOG_DEPTH = 0.12
"""Change of the logarithm of the main surface's depth since the keyframe below which it moves slowly.

With 0.15 an object 3 s away before a background 15 to 25 s away is found later. Rows: looming, car ahead
brakes, region on it, 95th percentile.
"""

MAX_LOG_DEPTH = math.log(1.3)
"""Change of the logarithm of the depth above which a new keyframe is taken.

Rows: looming, plane, TTC 0.5-1 s, 128 px.
"""

MAX_SHIFT_SHARE = 0.25
"""Shift above which a new keyframe is taken, as a share of the picture.

Rows: looming, lateral; plane, up to 10 deg/s of rotation.
"""

MIN_KEYFRAME_OVERLAP = 0.75
"""A new keyframe is taken when less than this share of the picture is in the old one. Rows: the same."""

MIN_OVERLAP = 0.3
"""A surface is lost when less than this share of the picture is in its keyframe.

Rows: looming, rotation, no approach claimed.
"""

FAILED_LOG_DEPTH = 1.0
"""Change of the logarithm of the depth above which the alignment has failed.

Given as a guard: no motion changes the depth by a factor of e within one keyframe, or one image.
"""

NOISE_CORRELATION = 1.8
"""Factor on standard deviations for the correlation of the noise of neighbouring elements.

Rows: looming, plane, inside one sigma.
"""

WARP_ERROR_ELEMENTS = 0.1
"""Standard deviation by which real images deviate from a warp, elements; times the slope it is an error of
brightness. Rows: looming, plane, inside one sigma."""

IMAGE_NOISE_VARIANCE_SHARE = 0.55
"""Share of the image's noise in the variance of a difference; warping smooths the noise of the keyframe.

Rows: looming, plane, inside one sigma.
"""

SLOPE_ROUNDING_VARIANCE = 1 / 12
"""Variance of a slope due to rounding to whole grey levels. Derived: that of a uniform distribution."""

STRETCH_SIGMA = 0.03
"""Standard deviation of stretch and shear of the main surface since the keyframe. Rows: as MAIN_PRECISION."""

MAIN_PRECISION = precision_of(0.15, 0.15, 0.05, 0.05, STRETCH_SIGMA, STRETCH_SIGMA, 0.1, 0.1)
"""Precision of the expectation of the main surface's warp, from standard deviations of its parameters.

Rows: looming, plane, up to 10 deg/s of rotation, median error of TTC.
"""

SECOND_PRECISION = precision_of(0.15, 0.15, 0.05, 0.01, 0.01, 0.01, 0.02, 0.02)
"""The same for a second surface.

Turn and tilt are the camera's and therefore nearly those of the main surface. Rows: looming, object before a
background.
"""

WINDOW_ELEMENTS = 5
"""Side of the neighbourhood over which residuals are averaged, elements.

Rows: looming, object before a background.
"""

DEVIATION_CORRELATION = WINDOW_ELEMENTS / math.sqrt(2)
"""Takes the place of NOISE_CORRELATION for elements that deviate from the motion of their surface.

Derived: elements are assigned by neighbourhoods, so wrong ones come in neighbourhoods; and the residual has
two components of the deviation, of which one is along the growth.
"""

OUTLIER_VARIANCES = 3.0
"""Mean squared residual over its variance above which an element counts less than half.

Rows: looming, object before a background.
"""

COUNTED_VARIANCES = 25.0
"""Value at which the squared residual of an element, over its variance, is clipped as evidence.

Derived: five standard deviations.
"""

LEAST_SHARE, MOST_SHARE = 0.03, 0.97
"""Smallest and largest share of an element that a surface has, so that an element may change its surface.

Uncritical.
"""

MAX_MISFIT = 12.0
"""Largest mean squared residual of a second surface, over the variance of the noise.

Moving parts are resampled with larger errors than standing ones; yet background that a crossing object has
just uncovered must not count as part of the object. Rows: looming, object crosses, no approach claimed.
"""

MAIN_PREFERENCE = 0.3
"""Log odds by which an element that both surfaces explain equally well shifts to the main one in every frame.

Otherwise a second surface spreads over weak textures of the main one until it takes over their motion. Rows:
looming, object approaches a camera that stands still, found.
"""

UNEXPLAINED_VARIANCES = 2.0
"""Mean squared residual over its variance above which an element moves like no surface.

Rows: looming, object before a background.
"""

MISLED_SHARE = 0.75
"""An image after a gap is not used if more than this share of it moves like no surface.

After two such images in a row all surfaces are given up: the motion has changed in the gap, and the expected
motion would go on unchecked. Rows: none; test_of_a_camera_that_reverses_in_a_gap_no_approach_is_told.
"""

SUDDEN_CHANGE_S = 0.25
"""Gap between two images above which the motion may have changed in it, s.

Derived: a robot that brakes with 2.5 m/s^2 changes its speed by 0.6 m/s in it.
"""

MIN_STRUCTURE_SHARE = 0.02
"""Smallest share of elements with any slope that can be followed. Rows: none; a lens cap has none."""

MAX_STRIPES_SHARE = 0.1
"""Squared slope along the direction in which it is least, over that across it, below which an image may show
nothing but stripes; noise hardly reaches this ratio. Uncritical: stripes with a noise of a quarter of their
contrast have 0.09, other images 0.5 and more. Rows: none; test_of_stripes_that_pass_by."""

MIN_SURFACE_SHARE = 0.005
"""Smallest share of the map that counts as a surface.

Rows: looming, object approaches a camera that stands still, found.
"""

TRIAL_FRAMES = (8, 20)
"""Least number of frames that a new surface has to separate from the main one, and most to be established.

Rows: looming, object before a background.
"""

PAUSE_FRAMES, SEARCH_INTERVAL_FRAMES = 8, 2
"""Frames from a failed trial to the next search for a second surface, and from search to search.

Rows: looming, object before a background.
"""

TRIALS_AT_ONCE, NEXT_TRIAL_FRAMES = 3, 4
"""Most candidates for a third surface at the same time, and frames from the start of one to that of the next.

A trial takes 8 to 20 frames, and rounding alone may make it fail where the next one succeeds: with one at a
time, objects were found up to a second later on another processor. Rows: none;
test_an_object_that_approaches_is_found_beside_one_that_recedes. Limits the time.
"""

TRIAL_EVIDENCE = 20.0
"""Chi-square that a motion of its own must gain for a second surface to be tried.

Rows: looming, object before a background.
"""

MAX_SHIFT_ELEMENTS = 3.0
"""Largest shift that slopes can measure, elements; larger motions cannot be followed.

Rows: looming, object before a background.
"""

ESTABLISHED_EVIDENCE, KEPT_EVIDENCE = 60.0, 30.0
"""Chi-square that a second surface must gain to become established, and to remain so.

Rows: looming, object before a background.
"""

EVIDENCE_DECAY = 0.97
"""Share of the evidence kept from frame to frame. Rows: looming, object before a background."""

CONFIRMING_SHARE, REFUTED_DECAY = 0.3, 0.8
"""Share of the expected gain below which evidence is refuted, and the share of refuted evidence that is kept
from frame to frame.

Rows: looming, plane slanted by 40 degrees, median error of the rate; object before a background.
"""

MERGE_DISTANCE_ELEMENTS = 0.4
"""Surfaces whose motions differ by fewer elements than this are one.

Rows: looming, object before a background.
"""

NEARER_SIGMAS = 1.0
"""Standard deviations by which the rate of a second surface must at first exceed that of the main one for its
contact to count as sooner: few, as it is worse to overlook the nearer surface than to take the other for it.

Rows: looming, object before a background.
"""

MIN_AGE_S = 0.1
"""Age of a keyframe below which too little has moved to measure a rate, s.

Rows: looming, object before a background.
"""

TEXTURE_EVIDENCE = 9.0
"""Chi-square above which a texture certainly moves with a second surface and does not stay beneath a shadow.

Derived: three standard deviations. Rows: looming, object approaches a camera that stands still, found.
"""

NEWEST_TEXTURE_WEIGHT = 0.2
"""Weight of the newest image in the average of that chi-square.

Derived: half of a change is taken over in three images, few of those that a claim takes (STEADY_FRAMES).
"""
