"""Which patches can be templates, and what becomes of their weights."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import DeviceLostError, ModelUnsupportedError
from edgetpu_driver.images.encodings import ImageError
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from edgetpu_perception.pattern_tracker.pattern_tracker import PatternTracker
from edgetpu_perception.pattern_tracker.template import TemplateReason, View, fit
from testdata.pictures.patterns import Image, cut, pixels, texture
from testdata.same_results import same

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


def test_a_patch_smaller_than_the_template_keeps_its_scale() -> None:
    image = texture(5)
    tracker = PatternTracker()
    outcome = tracker.set_template(image[20:31, 30:43], view=image, accept_ambiguous=True)
    assert outcome.accepted
    result = tracker.update(image)
    assert (result.x, result.y) == pytest.approx((36, 25), abs=1e-3)
    assert (result.width, result.height) == pytest.approx((13, 11), abs=1e-5)


def test_of_a_patch_larger_than_the_template_the_middle_is_used() -> None:
    image = texture(5)
    tracker = PatternTracker()
    tracker.set_template(image[20:45, 30:54], view=image)
    result = tracker.update(image)
    assert (result.x, result.y) == pytest.approx((41.5, 32), abs=1e-3)
    assert (result.width, result.height) == pytest.approx((16, 16), abs=1e-5)


def test_a_px_of_the_camera_is_as_large_in_a_patch_of_any_size_as_in_its_view() -> None:
    view = View(texture(3), width=468, height=258, region_scale=1.0)
    image = texture(3, side=470)
    for height, width in ((64, 117), (61, 113), (67, 119)):
        fine = fit(image[100 : 100 + height, 50 : 50 + width], None, view, (16, 16)).fine
        assert fine is not None
        assert (fine.x_scale, fine.y_scale) == pytest.approx((468 / 64 / 4, 258 / 64 / 4), rel=1e-12)


def test_the_last_image_is_the_view_a_patch_comes_from() -> None:
    image = np.kron(texture(1), np.ones((2, 2), np.uint8))
    tracker = PatternTracker()
    assert not tracker.update(image).valid  # there is no template yet
    tracker.set_template(image[60:92, 40:72])
    result = tracker.update(image)
    assert (result.x, result.y, result.width) == pytest.approx((55.5, 75.5, 32), abs=1e-3)


def test_the_last_image_is_remembered_when_its_memory_is_used_again() -> None:
    image = texture(1).copy()
    patch = cut(image, 20, 30)
    image[5:21, 45:61] = patch
    tracker = PatternTracker()
    tracker.update(image)
    image[:] = 0
    assert tracker.set_template(patch).reason is TemplateReason.REPEATED


def test_a_template_that_repeats_in_its_view_is_refused_with_the_reason() -> None:
    image = texture(1)
    image[5:21, 45:61] = cut(image, 20, 30)
    tracker = PatternTracker()
    outcome = tracker.set_template(cut(image, 20, 30), view=image)
    assert not outcome.accepted
    assert outcome.ambiguous
    assert outcome.reason is TemplateReason.REPEATED
    assert outcome.runner_up_score == pytest.approx(1.0, abs=1e-3)
    assert outcome.message.startswith("refused: another place in the view it comes from looks like it")
    assert tracker.weights is None


def test_an_ambiguous_template_is_accepted_on_request() -> None:
    image = texture(1)
    image[5:21, 45:61] = cut(image, 20, 30)
    tracker = PatternTracker()
    outcome = tracker.set_template(cut(image, 20, 30), view=image, accept_ambiguous=True)
    assert outcome.accepted
    assert outcome.ambiguous
    assert tracker.update(image).ambiguous


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (np.full((16, 16), 80, np.uint8), TemplateReason.FLAT),
        (pixels(80 + np.random.default_rng(0).normal(0, 1, (16, 16))), TemplateReason.PLAIN),
        (np.tile(np.arange(40, 200, 10, np.uint8), (16, 1)), TemplateReason.SLIDES),
        (np.tile(np.where(np.arange(16) // 2 % 2, 200, 50).astype(np.uint8), (16, 1)), TemplateReason.SLIDES),
    ],
    ids=["one grey level", "noise", "a slope", "stripes"],
)
def test_ambiguous_templates_are_refused(patch: Image, reason: TemplateReason) -> None:
    outcome = PatternTracker().set_template(patch)
    assert not outcome.accepted
    assert outcome.reason is reason


def test_a_patch_that_is_too_small_to_be_seen_in_the_search_image_is_refused_with_its_size_there() -> None:
    view = np.random.default_rng(0).integers(0, 256, (480, 640)).astype(np.uint8)
    outcome = PatternTracker().set_template(view[100:104, 100:104], view=view)
    assert outcome.message == "refused: it has no contrast (resized, it is 1x1 px of one grey level)"


def test_a_template_without_any_contrast_is_refused_even_on_request() -> None:
    outcome = PatternTracker().set_template(np.full((16, 16), 80, np.uint8), accept_ambiguous=True)
    assert not outcome.accepted


def test_a_refused_template_changes_nothing() -> None:
    image = texture(1)
    tracker = PatternTracker()
    tracker.set_template(cut(image, 20, 30), view=image)
    before = tracker.update(image)
    tracker.set_template(np.full((16, 16), 80, np.uint8))
    assert same(tracker.update(image), before)


def test_pixels_outside_the_mask_have_no_influence() -> None:
    scene, other = texture(1), texture(9)
    y, x = np.mgrid[:16, :16]
    disc = np.hypot(x - 7.5, y - 7.5) < 8
    tracker = PatternTracker()
    assert tracker.set_template(cut(scene, 20, 30), disc, view=scene).accepted
    before_another = other.copy()
    before_another[10:26, 40:56][disc] = cut(scene, 20, 30)[disc]
    result = tracker.update(before_another)
    assert result.valid
    assert (result.x, result.y) == pytest.approx((47.5, 17.5), abs=0.1)


def test_weights_sum_to_zero_and_use_the_full_range_of_int8() -> None:
    weak = pixels(100 + (texture(1).astype(float) - 128) / 15)
    tracker = PatternTracker()
    tracker.set_template(cut(weak, 20, 30), accept_ambiguous=True)
    assert tracker.weights is not None
    assert tracker.weights.shape == (16, 16)
    assert tracker.weights.sum(dtype=int) == 0
    assert np.abs(tracker.weights.astype(int)).max() == 127


@pytest.mark.parametrize("seed", [279, 848, 953])
def test_weights_are_computed_in_float64(seed: int) -> None:
    """Rounded to float32, some of these px would be on the other side of a half step."""
    patch, mask = np.random.default_rng(seed).integers(0, 256, (8, 8)), np.ones((8, 8), np.bool_)
    weights, exact = (pattern.quantise(patch.astype(each), mask) for each in (np.float32, np.float64))
    assert weights.tolist() == exact.tolist()


def test_the_response_of_a_strong_template_to_itself_is_within_the_outputs_range(
    trained_tracker: tuple[PatternTracker, Image],
) -> None:
    tracker, image = trained_tracker
    engine = CpuEngine(pattern.build(weights=tracker.weights))
    response = engine.run({"image": image.reshape(1, 64, 64, 1)})["response"][0, :, :, 0]
    assert response[30, 20] == pytest.approx(127 / pattern.HEADROOM, abs=8)


class Immutable:
    """An engine with the weights of its file."""

    def __init__(self, graph: bytes) -> None:
        engine = CpuEngine(graph)
        self.inputs, self.outputs, self.run = engine.inputs, engine.outputs, engine.run


def test_the_template_of_an_engine_without_a_way_to_replace_weights_cannot_be_set() -> None:
    with pytest.raises(ModelUnsupportedError, match="weights can be replaced; got Immutable"):
        PatternTracker(Immutable(pattern.build())).set_template(texture(1, 16))


def test_a_failed_weight_update_keeps_the_previous_template(monkeypatch: pytest.MonkeyPatch) -> None:
    image = texture(1)
    engine = CpuEngine(pattern.build())
    tracker = PatternTracker(engine)
    tracker.set_template(cut(image, 20, 30), view=image)
    before = tracker.update(image)

    def fail(*_: object, **__: object) -> None:
        raise DeviceLostError("unplugged")

    monkeypatch.setattr(engine, "set_weights", fail)
    with pytest.raises(DeviceLostError):
        tracker.set_template(cut(image, 40, 8), view=image)
    assert same(tracker.update(image), before)


def test_arrays_that_are_not_patches_are_refused() -> None:
    tracker = PatternTracker()
    with pytest.raises(ImageError, match="expected uint8"):
        tracker.set_template(np.zeros((16, 16), np.float32))
    with pytest.raises(ImageError, match="expected a mask"):
        tracker.set_template(texture(1, 16), np.ones((8, 8)))
