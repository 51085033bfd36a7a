"""Looming: time to contact with the surfaces that the camera approaches.

The scene is taken for one or two planes, each with a motion of its own. Every image is aligned with a
keyframe by its grey levels, for each plane by Gauss-Newton over a homography, with robust weights. The
homography gives the distance to the plane over that at the keyframe, whatever the rotation, slant and motion
to the side. A Kalman filter over its logarithm gives the rate of approach, whose inverse is the time to
contact.

The way of an image:

1. The model (`graphs.looming_slopes`) gives maps of the smoothed brightness and its two slopes.
   `Looming.postprocess` (`looming`) decodes them, measures zones and tau (`zone_tau`), and recognises
   repeated images. The maps go to `SurfaceTracker.update` (`surface_tracker`), which takes steps 2 to 4.
2. `HomographyAligner` (`homography_alignment`) aligns the image with the keyframe once for each `Surface`
   (`surface`), each element weighted by how far it belongs to it. The `HomographyAlignment` has the warp, its
   covariance and the residuals.
3. `PlaneDistance` (`plane_distance`) turns the warp of the main surface into a change of its distance; for
   the others the change of size stands for it, and `part_slant` tells how wrong it may be, as ground grows
   beneath a camera that moves level. `RelativeDepth` (`relative_depth_filter`) filters it.
4. By the residuals, each element is assigned to a surface (`second_surface`). Where they are large,
   `MotionSearch` (`independent_motion`) finds where a second surface may be, `FixedPartSearch` (`fixed_part`)
   parts of the robot, and `ThirdSurface` (`third_surface`) candidates to replace the second.
5. `Looming` makes a `LoomingResult` of the surface with the soonest contact (`contact_time`).

Kept between images: `SurfaceTracker` has the surfaces, the image noise and exposure (`noise_and_exposure`)
and the jitter of stamps (`stamp_jitter`), and decides when a new keyframe is due; `HomographyAligner` has the
keyframe; each `Surface` has its warp, elements and filter. `Looming` has the last result and the last
features.

Only for special inputs: `rectified_maps` for lenses with distortion; `zone_output_decoder` for models that
give zone energies only; `UnknownFocalLength` (`plane_distance`) without intrinsics; `shadow_or_object` if the
camera stands still; `image_structure` for images without edges or with stripes only.
"""
