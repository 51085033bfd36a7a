"""The visual compass: heading of a camera from its images alone.

Each view is aligned directly with a keyframe by a rotation of the camera: robust least squares (Geman-McClure
weights) over three angles and the contrast, on band-pass features, with the camera's lens model. While a
keyframe is in view, the heading does not drift. Recognising an earlier one closes a loop, whose error is
distributed over the keyframes in between.

The way of an image:

1. `VisualCompass.postprocess` (`visual_compass`) decodes the model's output (`compass_features`) into a
   `View` (`alignment_records`). `OrientationTracker.update` (`orientation_tracker`) takes steps 2 to 6.
2. `align_to_keyframe` (`rotation_between_frames`) starts from guesses, the first being that the camera turns
   on. From each, `RotationAligner.align` (`rotation_alignment`) projects the keyframe's points
   (`compared_points`, `ray_projection`), weights the residuals (`robust_residuals`) and solves the normal
   equations (`rotation_solver`). One `RotationAlignment` is chosen.
3. If it follows an object or the robot itself, `moving_objects` and `fixed_parts` look for the scene. A
   camera that stood still is expected to do so (`moving_objects.expected_motion`), and what remains
   undecided becomes part of the sigma.
4. `OrientationEstimator` (`orientation_estimator`) gives the confidence, and the orientation as a `Pose`
   (`orientation_tracker_state`). Where near objects are in view, `DirectComparison`
   (`rotation_between_frames`) also measures the turn against the last view.
5. If `KeyframeRule` (`keyframes`) says so, the view becomes a keyframe, unless `LoopClosure` (`loop_closure`)
   returns to an earlier one. It also recognises earlier ones after the camera was lost.
6. Kalman filters (`angular_velocity_filter`) smooth the turns. The tracker returns a `Heading`, of which
   `VisualCompass` makes a `HeadingResult`.

Kept between images: `Keyframes` has all keyframes and their orientations; `OrientationTracker` has the last
`TrackedPose`; its parts have what they learned, such as which features are fixed to the camera
(`fixed_parts`), and how fast the picture grows, for the sigmas (`sideways_motion`).

Only for special inputs: `growth_solver` for a camera that is known to look ahead, while it drives;
`rolling_shutter` for cameras that read their rows one after another; in `compass_features`, Gabor maps and
small images.
"""
