"""Limits that the orientation tracker applies: recognition of views, losses, and their uncertainty."""

from __future__ import annotations

import math

SIMILARITY_RANGE = (0.5, 0.8)
"""Similarity (normalised correlation) of two views: up to the first value they show different scenes, from
the second on certainly the same one. Rows: compass, turns past a blank wall."""

TYPICAL_SIMILARITY = 0.95
"""Similarity of two successive views, assumed until one is measured. Uncritical."""

SUDDEN_SIMILARITY_SHARE = 0.85
"""Share of the last view's similarity to the keyframe below which the camera has turned differently from the
extrapolation, and other guesses are tried. Rows: compass, walking camera, yaw RMSE."""

JUMP_SIMILARITY_SHARE = 0.5
"""Share of the similarity after a jump above which the camera has turned on as extrapolated, while something
moves by itself: a jump is then more often the motion of that object.

Rows: compass, an object crosses, camera turning, ends within 1 deg.
"""

KNOWN_SIMILARITY_SHARE = 0.85
"""Share of a keyframe's initial similarity from which a view is recognised if the camera is expected to see
the keyframe. Rows: compass, full turns, yaw error, first view recognised."""

CERTAIN_SIMILARITY_SHARE = 0.97
"""The same if the heading is too uncertain to expect any view: other parts of the scene may look alike.

Rows: compass, turns past a blank wall, yaw error, first view recognised.
"""

RETRY_INTERVAL_S = 0.2
"""Shortest time between two attempts to recognise a keyframe, s; limits the time spent.

Rows: compass, full turns, yaw error, first view recognised.
"""

TRIES_WHEN_LOST = 3
"""Keyframes compared with each view while the camera is lost; limits the time spent.

Rows: compass, turns past a blank wall, yaw error, first view recognised.
"""

MIN_TEXTURE = 0.5
"""Root mean square of the features, in grey levels, below which a view is ignored.

White noise of 2 grey levels leaves a third of that (feature_kernel). Rows: compass, turns past a blank wall,
yaw error past the wall.
"""

OVERLAP_RANGE = (0.2, 0.4)
"""Share of the keyframe in view: too little up to the first, full confidence from the second on.

Rows: compass, walking camera, yaw RMSE.
"""

SIGMA_RANGE_CELLS = (0.05, 0.3)
"""Standard deviation of an alignment, cells: full confidence up to the first, none from the second on.

Rows: compass, turns past a blank wall, yaw error past the wall.
"""

CERTAINTY_RANGE = (0.012, 0.02)
"""Information on the yaw over that on the best known turn: up to the first value it may come from errors of
stronger edges and slight noise, from the second on confidence is full.

The walls of a plain room, in front of which turns end within 0.2 deg, have 0.03 at least; a horizon with
strong noise has as much, and goes unnoticed. Rows: none; turn of make drive;
test_a_scene_that_looks_the_same_all_around_is_not_valid.
"""

GROWN_CONFIDENCE = 0.3
"""Confidence below which the last view becomes the keyframe if the picture has grown since the present one.

No turn then explains the difference of the views. The limit is above `min_confidence`, 0.2 by default. Rows:
compass, walking camera, yaw RMSE, which 0.5 doubles; test_a_compass_stays_valid_while_it_moves_ahead.
"""

SYSTEMATIC_TURN_ERROR = 0.0032
"""Standard deviation of a turn between two views as a share of it, in addition to that of the residuals:
focal length and `FeatureGrid.blur` are not known better. Rows: compass, full turns, yaws within one sigma."""

SYSTEMATIC_RATE_ERROR = 0.002
"""The same for an angular velocity: in full turns its means over half a second are off by 0.1 to 0.25 %.

Rows: compass, full turns, yaw rates within one sigma.
"""

EVEN_SPREAD = 0.5
"""Spread of contrast (see Key.spread) below which the systematic error grows, as errors of different parts of
the picture no longer cancel. Rows: compass, turns past a blank wall, yaw error over its sigma."""

LOST_AFTER_S = 1.0
"""Time in s since the last known view after which the views seen meanwhile are accepted as the scene.

Rows: compass, turns past a blank wall, yaw error past the wall.
"""

MAX_EXTRAPOLATION_S = 2.0
"""Longest time in s for which a turn is extrapolated without known views.

Rows: compass, turns past a blank wall, yaw error past the wall.
"""

YAW_RATE_MEMORY_S = 0.2
"""Time in s over which the extrapolated yaw rate is averaged; the last rate before a loss is often wrong.

Rows: compass, turns past a blank wall, yaw error past the wall.
"""

LOST_RATE_SIGMA = 1.0
"""Standard deviation of the angular velocity while lost, rad/s.

Derived: robots rarely turn faster than 1 rad/s.
"""

OUT_OF_VIEW_CONTRAST_SHARE = 0.6
"""Share of the keyframe's squared contrast in the extrapolated view below which a lost keyframe went out of
view. Above it the scene has changed, and the turn since is unknown. Rows: compass, turns past a blank
wall, yaw error over its sigma."""

UNCERTAIN_SIGMA = math.radians(10.0)
"""Standard deviation in rad of the rotation to a keyframe above which one similar view is no proof.

Rows: compass, turns past a blank wall, yaw error, first view recognised.
"""

MIN_UNAMBIGUOUS_SPREAD = 0.4
"""Spread of contrast below which that holds: a single corner may look like many others. Rows: the same."""

MIN_AGREEING_VIEWS = 5
"""Number of successive views that must then agree. Rows: the same."""

SAME_ORIENTATION = math.radians(2.0)
"""Angle in rad below which two orientations count as the same. Rows: the same."""

MAX_CORRECTION_SIGMAS = 4.0
"""A recognised keyframe may correct the heading by this many standard deviations plus SAME_ORIENTATION. Rows:
the same."""

MAX_LATE_VIEWS = 5
"""Number of successive late views, in order among themselves, that show that the clock was set back.

Rows: none; test_playing_a_short_bag_again_restarts.
"""

TURNING_SIGMAS = 5.0
"""Yaw rate, in its standard deviations, above which the camera turns, so that no two views are the same.

Derived: certain.
"""

LITTLE_MOVES = 0.75
"""Share of the texture that follows an alignment above which little of the picture moves by itself: a small
deviation then shows no other motion. Rows: compass, static camera, views lost.
"""
