from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from edgetpu_perception.camera_intrinsics import CameraError, Pinhole, undistorted

K = [500.0, 0, 320, 0, 510, 240, 0, 0, 1]
PLUMB_BOB = [-0.3, 0.1, 0.001, -0.002, 0.01]
RATIONAL = [0.5, 0.1, 0.001, -0.002, 0.01, 0.6, 0.2, 0.02]


def pixel_of(bearing: tuple[float, float], distortion: list[float]) -> tuple[float, float]:
    """Project a direction as OpenCV does."""
    point = np.array([[math.tan(bearing[0]), math.tan(bearing[1]), 1.0]])
    matrix = np.array(K).reshape(3, 3)
    pixels, _ = cv2.projectPoints(point, np.zeros(3), np.zeros(3), matrix, np.array(distortion))
    return tuple(pixels.ravel())


def test_the_principal_point_is_straight_ahead() -> None:
    assert Pinhole(640, 480, 500, 510, 320, 240).bearing(320, 240) == (0.0, 0.0)


def test_right_and_down_are_positive() -> None:
    assert Pinhole(640, 480, 500, 510, 320, 240).bearing(570, 546) == (math.atan(0.5), math.atan(0.6))


@pytest.mark.parametrize(
    ("model", "d"),
    [("plumb_bob", PLUMB_BOB), ("rational_polynomial", RATIONAL)],
    ids=["plumb_bob", "rational"],
)
def test_distortion_is_undone(model: str, d: list[float]) -> None:
    camera = Pinhole.from_camera_info(640, 480, K, d, model)
    assert pixel_of(camera.bearing(100, 50), d) == pytest.approx((100, 50), abs=1e-4)


def test_distortion_is_undone_all_over_a_picture_that_ends_near_the_limit_of_its_lens() -> None:
    # The fixed-point iterations of OpenCV find nothing at 14 of these pixels, those of OpenCV 4.6 at 60.
    matrix = np.array([[90.0, 0.0, 50.0], [0.0, 70.0, 75.0], [0.0, 0.0, 1.0]])
    coefficients = np.array([-0.3, 0.1, 0.0, 0.0])
    pixels = np.stack(np.mgrid[:128.0, :128.0], axis=-1).reshape(-1, 1, 2)
    rays = cv2.convertPointsToHomogeneous(undistorted(pixels, matrix, coefficients))
    seen, _ = cv2.projectPoints(rays, np.zeros(3), np.zeros(3), matrix, coefficients)
    assert np.abs(seen - pixels).max() < 0.1


@pytest.mark.parametrize("model", ["equidistant", "fisheye"])
@pytest.mark.parametrize("d", [[0.0] * 4, [-0.02, 0.01, -0.005, 0.001]], ids=["ideal", "calibrated"])
@pytest.mark.parametrize("ray", [(0.0, 0.0), (0.4, -0.3), (3.0, 2.0), (-6.0, 0.5)])
def test_a_fisheye_lens_is_undone(model: str, d: list[float], ray: tuple[float, float]) -> None:
    camera = Pinhole.from_camera_info(640, 480, K, d, model)
    points = np.array([[[*ray, 1.0]]])
    matrix = np.array(K, np.float64).reshape(3, 3)
    ((seen,),) = cv2.fisheye.projectPoints(points, np.zeros(3), np.zeros(3), matrix, np.array(d))[0]
    assert camera.bearing(*seen) == pytest.approx(tuple(math.atan(each) for each in ray), abs=1e-9)


def test_the_sigma_of_a_fisheye_bearing_is_that_of_equal_angles() -> None:
    camera = Pinhole.from_camera_info(640, 480, K, [0.0] * 4, "equidistant")
    _, _, x_sigma, y_sigma = camera.bearing_with_sigma(570, 240, 0.5, 0.25)
    assert x_sigma == pytest.approx(0.5 / 500, rel=1e-6)
    # atan2(y, z) of a px further down, seen 0.5 rad to the right: sin(0.5) / (0.5 cos(0.5)) / 510
    assert y_sigma == pytest.approx(0.25 / 510 * math.tan(0.5) / 0.5, rel=1e-5)


def test_a_fisheye_pixel_beyond_90_degrees_has_no_bearing() -> None:
    camera = Pinhole(640, 480, 200, 200, 319.5, 239.5, fisheye=True)
    assert camera.bearing(319.5 + 200 * 1.5, 239.5) == pytest.approx((1.5, 0.0), abs=1e-9)
    assert all(map(math.isnan, camera.bearing(319.5 + 200 * 1.58, 239.5)))


def test_a_fisheye_lens_stays_one_in_a_part_of_the_image() -> None:
    camera = Pinhole(640, 480, 200, 200, 319.5, 239.5, fisheye=True)
    part = camera.cropped(100, 50, 300, 200)
    assert part.bearing(20, 30) == camera.bearing(120, 80)


def test_rectified_images_of_a_fisheye_lens_need_no_lens_model() -> None:
    assert Pinhole.from_camera_info(640, 480, K, [], "equidistant") == Pinhole(640, 480, 500, 510, 320, 240)


@pytest.mark.parametrize(
    ("k1", "u"),
    # The radius r (1 - 0.3 r^2) is at most 0.703, at r = 1.054: pixels beyond 319.5 + 211 have no direction.
    [(-0.3, 600), (-0.3, 532), (-30.0, 600)],
    ids=["far beyond", "just beyond", "absurd"],
)
def test_a_pixel_beyond_the_lens_model_has_no_bearing(k1: float, u: float) -> None:
    camera = Pinhole(640, 480, 300, 300, 319.5, 239.5, (k1, 0, 0, 0, 0))
    assert all(map(math.isnan, camera.bearing(u, 239.5)))
    assert all(map(math.isnan, camera.bearing_with_sigma(u, 239.5, 0.1, 0.1)))


@pytest.mark.parametrize(
    ("distortion", "limit"),
    [
        # The radius r (1 - 0.5 r^2 + 0.07 r^4) is 0.577 at r = 0.91, falls, and is 0.577 again at r = 2.2.
        ((-0.5, 0.07, 0, 0, 0), 0.577),
        # r (1 - 0.24 r^2 - 0.14 r^4 + 0.032 r^6) / (1 + 0.24 r^2 - 0.04 r^4) is 0.565 at r = 0.86 and 2.2.
        ((-0.24, -0.14, 0, 0, 0.032, 0.24, -0.04, 0), 0.566),
    ],
    ids=["plumb_bob", "rational_polynomial"],
)
def test_no_bearing_is_beyond_the_radius_at_which_the_lens_model_folds_back(
    distortion: tuple[float, ...], limit: float
) -> None:
    camera = Pinhole(1200, 900, 300, 300, 599.5, 449.5, distortion)
    known = [u for u in range(600, 1200) if not math.isnan(camera.bearing(u, 449.5)[0])]
    assert known == list(range(600, known[-1] + 1))
    assert limit - 0.004 < (known[-1] - 599.5) / 300 < limit


def test_the_lens_model_is_used_up_to_its_limit() -> None:
    camera = Pinhole(640, 480, 300, 300, 319.5, 239.5, (-0.3, 0, 0, 0, 0))
    x = 0.95
    u = 319.5 + 300 * x * (1 - 0.3 * x**2)  # px 527.3 of at most 530.3
    assert camera.bearing(u, 239.5) == pytest.approx((math.atan(x), 0), abs=2e-3)


def test_the_sigma_of_a_bearing_is_that_of_the_pixel_seen_from_the_focal_point() -> None:
    camera = Pinhole(640, 480, 500, 510, 320, 240)
    _, _, x_sigma, y_sigma = camera.bearing_with_sigma(570, 240, 0.5, 0.25)
    # d atan(u / f) / du = 1 / f / (1 + (u / f)^2)
    assert x_sigma == pytest.approx(0.5 / 500 / 1.25, rel=1e-5)
    assert y_sigma == pytest.approx(0.25 / 510, rel=1e-5)


def test_binning_divides_the_intrinsics() -> None:
    camera = Pinhole.from_camera_info(640, 480, K, binning=(2, 4))
    assert camera == Pinhole(320, 120, 250, 127.5, 160, 60)


def test_binning_of_zero_means_none() -> None:
    assert Pinhole.from_camera_info(640, 480, K, binning=(0, 0)) == Pinhole(640, 480, 500, 510, 320, 240)


def test_a_region_of_interest_moves_the_principal_point() -> None:
    camera = Pinhole.from_camera_info(640, 480, K, roi=(100, 60, 200, 160))
    assert camera == Pinhole(200, 160, 500, 510, 220, 180)


def test_a_region_is_given_in_pixels_before_binning() -> None:
    camera = Pinhole.from_camera_info(640, 480, K, binning=(2, 2), roi=(100, 60, 200, 160))
    assert camera == Pinhole(100, 80, 250, 255, 110, 90)


def test_coefficients_may_be_an_array_as_opencv_gives_it() -> None:
    as_array, as_tuple = (
        Pinhole(640, 480, 300, 300, 319.5, 239.5, coefficients)  # type: ignore[arg-type]
        for coefficients in (np.array([[-0.1, 0.01, 0.001, 0.0, 0.0]]), (-0.1, 0.01, 0.001, 0.0, 0.0))
    )
    assert as_array == as_tuple


@pytest.mark.parametrize(("fisheye", "counts"), [(False, "0, 4, 5, 8, 12 or 14"), (True, "0 or 4")])
def test_another_number_of_coefficients_is_refused(fisheye: bool, counts: str) -> None:
    with pytest.raises(CameraError, match=f"expected {counts} distortion coefficients; got 3"):
        Pinhole(640, 480, 300, 300, 319.5, 239.5, (0.1, 0.0, 0.0), fisheye)


def test_zero_coefficients_mean_no_distortion() -> None:
    assert Pinhole.from_camera_info(640, 480, K, [0.0] * 5, "plumb_bob").distortion == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": [0.0] * 9}, r"K\[0\] > 0"),
        ({"d": [0.1] * 4, "distortion_model": "thin_prism"}, "got 'thin_prism'"),
        (
            {"d": [0.1] * 5, "distortion_model": "equidistant"},
            "expected 4 coefficients for equidistant; got 5",
        ),
        (
            {"d": [0.1] * 3, "distortion_model": "plumb_bob"},
            "expected 4 or 5 coefficients for plumb_bob; got 3",
        ),
        ({"width": 0}, "positive size"),
        ({"k": [500.0, 0, math.nan, 0, 510, 240, 0, 0, 1]}, "finite"),
    ],
    ids=[
        "uncalibrated",
        "unknown model",
        "too many of a fisheye",
        "too few coefficients",
        "no size",
        "not a number",
    ],
)
def test_invalid_calibrations_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(CameraError, match=message):
        Pinhole.from_camera_info(**({"width": 640, "height": 480, "k": K} | arguments))


def _k(fx: float = 500.0, fy: float = 500.0, cx: float = 320.0, cy: float = 240.0) -> list[float]:
    return [fx, 0, cx, 0, fy, cy, 0, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 2**32 - 1}, "expected a width and height of at most 65536 px; got 4294967295x480"),
        ({"k": _k(fx=1e-300)}, r"expected fx between 0.64 and 6.4e\+06 px for 640 px; got 1e-300"),
        ({"k": _k(fy=1e300)}, r"expected fy between 0.48 and 4.8e\+06 px for 480 px; got 1e\+300"),
        ({"k": _k(cx=-1e300)}, r"expected cx within 1000 times fx of the image; got -1e\+300"),
        ({"d": [0, 0, 0, 0, -1e5], "distortion_model": "plumb_bob"}, "k3 shifts it by 26214"),
        ({"d": [0, 1e30, 0, 0], "distortion_model": "plumb_bob"}, r"k2 shifts it by 4.096e\+29"),
    ],
    ids=["size", "short focal length", "long focal length", "centre", "distortion", "overflow"],
)
def test_values_that_no_lens_has_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(CameraError, match=message):
        Pinhole.from_camera_info(**({"width": 640, "height": 480, "k": _k()} | arguments))


def test_a_small_region_far_from_the_centre_is_plausible() -> None:
    camera = Pinhole.from_camera_info(
        4000, 3000, _k(2000.0, 2000.0, 2000.0, 1500.0), roi=(3990, 2990, 10, 10)
    )
    assert (camera.cx, camera.cy) == (-1990.0, -1490.0)
