from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import DeviceLostError, GraphError, ModelUnsupportedError
from edgetpu_driver.images.encodings import ImageError
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_perception.graphs import pattern_correlation as pattern
from edgetpu_perception.images.pinhole import Pinhole
from edgetpu_perception.pattern_tracker.match_selection import MIN_CERTAINTY
from edgetpu_perception.pattern_tracker.patch_alignment import Alignment
from edgetpu_perception.pattern_tracker.pattern_tracker import MatchResult, PatternTracker
from edgetpu_perception.pattern_tracker.template import TemplateReason
from testdata import ModelFolder

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

Image = NDArray[np.uint8]
SIZES = [(64, 8), (64, 16), (128, 16), (128, 32)]


def texture(seed: int, side: int = 64, blur: float = 1.5) -> Image:
    """Smooth random blobs: every patch is unlike every other."""
    noise = np.random.default_rng(seed).normal(size=(side, side))
    smooth = cv2.GaussianBlur(noise, (0, 0), blur)
    return np.clip(np.rint(128 + 45 * smooth / smooth.std()), 0, 255).astype(np.uint8)


def cut(image: Image, x: int, y: int, side: int = 16) -> Image:
    """The patch whose first pixel is (x, y)."""
    return image[y : y + side, x : x + side].copy()


def moved(image: Image, dx: float, dy: float, turn: float = 0.0, size: float = 1.0) -> NDArray[np.float32]:
    """The image turned (degrees) and scaled about its middle, then moved."""
    middle = (image.shape[0] - 1) / 2
    matrix = cv2.getRotationMatrix2D((middle, middle), -turn, size)
    matrix[:, 2] += dx, dy
    return cv2.warpAffine(
        image.astype(np.float32),
        matrix,
        image.shape[::-1],
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REFLECT,
    )


def pixels(image: NDArray[np.floating]) -> Image:
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


@dataclass
class Photograph:
    """A photograph reduced to an image, and patches of it."""

    image: Image
    random: np.random.Generator

    def patches(self, side: int, count: int) -> Iterator[tuple[Image, float, float]]:
        """Patches with their centres, clear of the border."""
        for _ in range(count):
            x, y = self.random.integers(4, len(self.image) - side - 3, 2)
            yield cut(self.image, x, y, side), x + (side - 1) / 2, y + (side - 1) / 2


def photographs(search: int) -> list[Photograph]:
    data = pytest.importorskip("skimage.data", reason="needs scikit-image for photographs")
    reduced = []
    for index, name in enumerate(("camera", "coins", "chelsea", "gravel")):
        photo = getattr(data, name)()
        grey = photo if photo.ndim == 2 else cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY)
        side = min(grey.shape)
        image = cv2.resize(grey[:side, :side], (search, search), interpolation=cv2.INTER_AREA)
        reduced.append(Photograph(image, np.random.default_rng(index)))
    return reduced


@pytest.fixture(scope="module")
def trained() -> tuple[PatternTracker, Image]:
    """A tracker with a template, and the image it was cut out of, at (20, 30)."""
    image = texture(1)
    tracker = PatternTracker()
    assert tracker.set_template(cut(image, 20, 30), view=image).accepted
    return tracker, image


def test_a_patch_is_found_where_it_was_cut_out(trained: tuple[PatternTracker, Image]) -> None:
    tracker, image = trained
    result = tracker.update(image, 1.5)
    assert result.stamp == 1.5
    assert result.valid
    assert not result.ambiguous
    assert (result.x, result.y) == pytest.approx((27.5, 37.5), abs=1e-4)
    assert (result.width, result.height) == (16, 16)
    assert result.score == pytest.approx(1.0, abs=1e-6)
    assert result.confidence == 1.0
    assert result.runner_up_score < 0.8


@pytest.mark.parametrize(("x", "y"), [(0, 0), (48, 0), (0, 48), (48, 48)])
def test_the_whole_search_image_is_searched_up_to_its_corners(x: int, y: int) -> None:
    image = texture(2)
    tracker = PatternTracker()
    tracker.set_template(cut(image, x, y), view=image, accept_ambiguous=True)
    result = tracker.update(image)
    assert (result.x, result.y) == pytest.approx((x + 7.5, y + 7.5), abs=1e-4)


@pytest.mark.parametrize(("search", "side"), SIZES)
def test_any_patch_of_a_photograph_is_found(search: int, side: int) -> None:
    tracker = PatternTracker(search=(search, search), template=(side, side))
    hits = []
    for photo in photographs(search):
        for patch, x, y in photo.patches(side, 10):
            assert tracker.set_template(patch, accept_ambiguous=True, view=photo.image).accepted
            result = tracker.update(photo.image)
            hits.append(math.hypot(result.x - x, result.y - y) < 1)
    assert np.mean(hits) >= 0.975


@dataclass
class Trial:
    """A patch in an image that was turned, scaled, moved, lit otherwise and got noise."""

    result: MatchResult
    x: float
    y: float

    @property
    def found(self) -> bool:
        return self.result.valid and math.hypot(self.result.x - self.x, self.result.y - self.y) < 2


def trials(search: int, side: int, count: int) -> list[Trial]:
    """Of the patches that the tracker accepts of `count` from each photograph."""
    random = np.random.default_rng(7)
    tracker = PatternTracker(search=(search, search), template=(side, side))
    made = []
    for photo in photographs(search):
        for patch, x, y in photo.patches(side, count):
            if not tracker.set_template(patch, view=photo.image).accepted:
                continue
            # Rotated about the patch's centre, so that it stays in the image.
            matrix = cv2.getRotationMatrix2D((x, y), random.uniform(-5, 5), random.uniform(0.95, 1.05))
            matrix[:, 2] += random.uniform(-1, 1, 2)
            image = cv2.warpAffine(photo.image, matrix, (search, search), flags=cv2.INTER_CUBIC)
            image = image * random.uniform(0.8, 1.2) + random.uniform(-20, 20)
            result = tracker.update(pixels(image + random.normal(0, 3, image.shape)))
            made.append(Trial(result, *(matrix @ (x, y, 1)).tolist()))
    return made


@pytest.mark.parametrize(("search", "side"), SIZES)
def test_accepted_patches_are_found_turned_scaled_darkened_and_noisy(search: int, side: int) -> None:
    made = trials(search, side, 12)
    assert len(made) >= 15
    assert np.mean([trial.found for trial in made]) >= 0.96


def test_sigmas_cover_68_percent_of_errors() -> None:
    inside = []
    for trial in trials(64, 8, 25) + trials(64, 16, 25):
        if trial.result.valid:
            inside.append(abs(trial.result.x - trial.x) < trial.result.x_sigma)
            inside.append(abs(trial.result.y - trial.y) < trial.result.y_sigma)
    assert 0.60 <= np.mean(inside) <= 0.80


@pytest.mark.parametrize(("search", "side"), SIZES)
def test_patches_of_one_photograph_are_not_seen_in_another(search: int, side: int) -> None:
    tracker = PatternTracker(search=(search, search), template=(side, side))
    photos = photographs(search)
    refused = []
    for photo, other in zip(photos, photos[1:] + photos[:1], strict=True):
        for patch, _, _ in photo.patches(side, 25):
            if tracker.set_template(patch, view=photo.image).accepted:
                refused.append(not tracker.update(other.image).valid)
    assert np.mean(refused) >= 0.95


def test_a_position_between_pixels_is_found_to_a_few_hundredths() -> None:
    image = texture(4)
    tracker = PatternTracker()
    tracker.set_template(cut(image, 24, 20), view=image)
    errors = []
    for dx, dy in np.random.default_rng(0).uniform(-1, 1, (30, 2)):
        result = tracker.update(pixels(moved(image, dx, dy)))
        errors.append(math.hypot(result.x - 31.5 - dx, result.y - 27.5 - dy))
    assert math.sqrt(np.mean(np.square(errors))) < 0.03


def test_a_larger_image_gives_the_position_in_its_own_pixels() -> None:
    image = np.kron(texture(1), np.ones((5, 10), np.uint8))  # 640x320
    tracker = PatternTracker()
    tracker.set_template(image[30 * 5 : 46 * 5, 20 * 10 : 36 * 10], view=image)
    result = tracker.update(image)
    assert (result.x, result.y) == pytest.approx((279.5, 189.5), abs=1e-3)
    assert (result.width, result.height) == (160, 80)
    assert (result.offset_x, result.offset_y) == pytest.approx(
        (279.5 / 319.5 - 1, 189.5 / 159.5 - 1), abs=1e-5
    )


def test_a_turned_patch_is_found_to_a_fraction_of_a_px_of_a_larger_image() -> None:
    image = texture(1, side=640, blur=8.0)[:480]  # as in the camera, not square
    tracker = PatternTracker()
    assert tracker.set_template(image[180:300, 240:400], view=image).accepted
    turn = cv2.getRotationMatrix2D((319.5, 239.5), -5.0, 1.03)
    turn[:, 2] += 6.3, -3.7
    later = cv2.warpAffine(image, turn, (640, 480), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    result = tracker.update(later)
    expected = turn @ (319.5, 239.5, 1.0)  # a model px is 10 px wide and 7.5 px high
    assert (result.x, result.y) == pytest.approx(tuple(expected), abs=0.3)
    assert result.x_sigma < 0.5
    assert result.y_sigma < 0.5


def test_a_match_that_fits_badly_and_does_not_stand_out_is_no_match(
    trained: tuple[PatternTracker, Image],
) -> None:
    found = trained[0]._matcher
    assert found is not None
    left = 1.5 * found.expected.unexplained
    match = Alignment(1.0 - left, 30.0, 30.0, 1.0, 0.0, 1.0, 0.9, 0.1, 0.1)
    assert found.certainty(match, runner_up_score=0.0) > MIN_CERTAINTY
    assert found.certainty(match, runner_up_score=1.0 - left) == 0.0
    nearly_as_good = 1.0 - 1.4 * left  # the match is nearer to this one than to the patch
    assert found.certainty(match, runner_up_score=nearly_as_good) < MIN_CERTAINTY


def test_a_match_that_fits_badly_is_less_certain_the_further_it_is_turned(
    trained: tuple[PatternTracker, Image],
) -> None:
    found = trained[0]._matcher
    assert found is not None
    match = Alignment(1.0 - 1.5 * found.expected.unexplained, 30.0, 30.0, 1.0, 0.0, 1.0, 0.9, 0.1, 0.1)
    turned = [match._replace(cosine=math.cos(angle), sine=math.sin(angle)) for angle in (0.0, 0.1, 0.3)]
    certainties = [found.certainty(each) for each in turned]
    assert certainties[0] > certainties[1] > MIN_CERTAINTY
    assert certainties[2] < MIN_CERTAINTY


def test_a_patch_smaller_than_the_template_keeps_its_scale() -> None:
    image = texture(5)
    tracker = PatternTracker()
    outcome = tracker.set_template(image[20:31, 30:43], view=image, accept_ambiguous=True)
    assert outcome.accepted
    result = tracker.update(image)
    assert (result.x, result.y) == pytest.approx((36, 25), abs=1e-3)
    assert (result.width, result.height) == (13, 11)


def test_of_a_patch_larger_than_the_template_the_middle_is_used() -> None:
    image = texture(5)
    tracker = PatternTracker()
    tracker.set_template(image[20:45, 30:54], view=image)
    result = tracker.update(image)
    assert (result.x, result.y) == pytest.approx((41.5, 32), abs=1e-3)
    assert (result.width, result.height) == (16, 16)


def test_the_last_image_is_the_view_a_patch_comes_from() -> None:
    image = np.kron(texture(1), np.ones((2, 2), np.uint8))
    tracker = PatternTracker()
    assert not tracker.update(image).valid  # there is no template yet
    tracker.set_template(image[60:92, 40:72])
    result = tracker.update(image)
    assert (result.x, result.y, result.width) == pytest.approx((55.5, 75.5, 32), abs=1e-3)


def test_a_color_image_is_searched_by_its_brightness(trained: tuple[PatternTracker, Image]) -> None:
    tracker, image = trained
    assert tracker.update(np.repeat(image[..., np.newaxis], 3, axis=2)) == tracker.update(image)


def test_bearings_come_from_the_camera() -> None:
    image = texture(1)
    tracker = PatternTracker(camera=Pinhole(64, 64, 100, 50, 31.5, 31.5))
    tracker.set_template(cut(image, 20, 30), view=image)
    result = tracker.update(image)
    expected = math.atan(-4 / 100), math.atan(6 / 50)
    assert (result.bearing_x, result.bearing_y) == pytest.approx(expected, abs=1e-5)


def test_brightness_and_contrast_have_no_influence(trained: tuple[PatternTracker, Image]) -> None:
    tracker, image = trained
    result = tracker.update(pixels(image * 0.5 + 60.0))
    assert result.score > 0.999
    assert (result.x, result.y) == pytest.approx((27.5, 37.5), abs=0.02)


def test_an_absent_pattern_is_not_valid(trained: tuple[PatternTracker, Image]) -> None:
    tracker, _ = trained
    images = [texture(seed) for seed in range(50, 90)]
    images += [np.zeros((64, 64), np.uint8), np.full((64, 64), 200, np.uint8)]
    for image in images:
        result = tracker.update(image)
        assert not result.valid
        assert result.confidence < 0.2
        assert math.isnan(result.x)
        assert math.isnan(result.x_sigma)
        assert math.isnan(result.bearing_x)


def test_a_second_copy_makes_a_match_ambiguous(trained: tuple[PatternTracker, Image]) -> None:
    tracker, image = trained
    twice = image.copy()
    twice[5:21, 45:61] = cut(image, 20, 30)
    result = tracker.update(twice)
    assert result.valid
    assert result.ambiguous
    assert result.confidence == 0.5
    assert result.runner_up_score == pytest.approx(result.score, abs=1e-3)


def test_of_two_equal_matches_the_tracker_keeps_the_last_one() -> None:
    random = np.random.default_rng(3)
    image = texture(1)
    tracker = PatternTracker()
    tracker.set_template(cut(image, 20, 30), view=image)
    tracker.update(image)
    twice = image.astype(float)
    twice[5:21, 45:61] = cut(image, 20, 30)
    for _ in range(20):
        result = tracker.update(pixels(twice + random.normal(0, 4, twice.shape)))
        assert (result.x, result.y) == pytest.approx((27.5, 37.5), abs=0.5)


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
def test_templates_that_cannot_be_told_from_other_things_are_refused(
    patch: Image, reason: TemplateReason
) -> None:
    outcome = PatternTracker().set_template(patch)
    assert not outcome.accepted
    assert outcome.reason is reason


def test_a_template_without_any_contrast_is_refused_even_on_request() -> None:
    outcome = PatternTracker().set_template(np.full((16, 16), 80, np.uint8), accept_ambiguous=True)
    assert not outcome.accepted


def test_a_refused_template_changes_nothing() -> None:
    image = texture(1)
    tracker = PatternTracker()
    tracker.set_template(cut(image, 20, 30), view=image)
    before = tracker.update(image)
    tracker.set_template(np.full((16, 16), 80, np.uint8))
    assert tracker.update(image) == before


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


def test_the_response_of_a_strong_template_to_itself_is_within_the_outputs_range(
    trained: tuple[PatternTracker, Image],
) -> None:
    tracker, image = trained
    engine = CpuEngine(pattern.build(weights=tracker.weights))
    response = engine.run({"image": image.reshape(1, 64, 64, 1)})["response"][0, :, :, 0]
    assert response[30, 20] == pytest.approx(127 / pattern.HEADROOM, abs=8)


@pytest.mark.parametrize(
    ("search", "side", "shape"), [(64, 8, 57), (64, 16, 49), (128, 16, 113), (128, 32, 49)]
)
def test_the_graph_responds_for_every_position(search: int, side: int, shape: int) -> None:
    engine = CpuEngine(pattern.build((search, search), (side, side)))
    assert [spec.shape for spec in engine.inputs] == [(1, search, search, 1)]
    assert [spec.shape for spec in engine.outputs] == [(1, shape, shape, 1)]


def test_no_convolution_is_larger_than_the_compiler_maps() -> None:
    graph = parse_model(pattern.build((128, 128), (32, 32))).subgraphs[0]
    assert [operator.name for operator in graph.operators] == ["QUANTIZE", "AVERAGE_POOL_2D", "CONV_2D"]
    assert [t.shape for t in graph.tensors if t.name == pattern.WEIGHTS] == [(1, 15, 15, 1)]


def test_a_graph_is_named_by_its_sizes_and_has_constant_bytes() -> None:
    name = PatternTracker(search=(128, 96), template=(32, 16)).model
    assert name == "pattern_128x96_32x16"
    assert pattern.parse(name) == ((128, 96), (32, 16))
    assert pattern.parse("spot_bright_64x64") is None
    assert pattern.build() == pattern.build()


@pytest.mark.parametrize("template", [(1, 16), (65, 16), (33, 33)])
def test_sizes_without_a_graph_are_refused(template: tuple[int, int]) -> None:
    with pytest.raises(GraphError, match="expected"):
        PatternTracker(template=template)


def test_preprocess_and_postprocess_equal_update(trained: tuple[PatternTracker, Image]) -> None:
    tracker, image = trained
    half = PatternTracker()
    half.set_template(cut(image, 20, 30), view=image)
    engine = CpuEngine(pattern.build(weights=half.weights))
    half.bind(engine.inputs, engine.outputs)
    frame = half.preprocess(image, 2.0)
    assert half.postprocess(frame, engine.run(frame.inputs)) == tracker.update(image, 2.0)


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
    assert tracker.update(image) == before


@contextmanager
def on_a_stick(graph: bytes) -> Iterator[StickEngine]:
    model = CompiledModel.parse(pack(graph, name="pattern"))
    stick = VirtualEdgeTpu()
    stick.register_model(model, graph)
    with EdgeTpu.open(stick) as tpu:
        yield StickEngine(tpu, model, SidecarFiles(graph))


@pytest.mark.parametrize(("search", "side"), SIZES)
def test_a_stick_gives_the_responses_of_the_cpu_to_every_template(search: int, side: int) -> None:
    graph = pattern.build((search, search), (side, side))
    with on_a_stick(graph) as on_stick:
        engines = CpuEngine(graph), on_stick
        trackers = [PatternTracker(engine, template=(side, side)) for engine in engines]
        image = texture(1, search)
        for x, y in ((20, 30), (9, 5)):
            for tracker in trackers:
                assert tracker.set_template(cut(image, x, y, side), view=image).accepted
            given = {"image": image.reshape(1, search, search, 1)}
            responses = [engine.run(given)["response"].astype(int) for engine in engines]
            assert np.abs(responses[1] - responses[0]).max() <= 1
            results = [tracker.update(image) for tracker in trackers]
            assert (results[1].x, results[1].y) == pytest.approx((results[0].x, results[0].y), abs=1e-3)


def test_a_model_for_templates_of_another_size_is_refused() -> None:
    with pytest.raises(
        ModelUnsupportedError, match=r"expected an output \[1, 57, 57, 1\] or two coordinates"
    ):
        PatternTracker(CpuEngine(pattern.build()), template=(8, 8))


def test_a_model_for_spots_is_recognised_by_its_weights_and_refused(golden: ModelFolder) -> None:
    tracker = PatternTracker(CpuEngine(golden.model("bright_64x64.tflite").read_bytes()))
    image = texture(1)
    with pytest.raises(ModelUnsupportedError, match="expected a model with one kernel"):
        tracker.set_template(cut(image, 20, 30), view=image)
    assert not tracker.update(image).valid


def test_a_model_without_an_image_is_refused() -> None:
    vector = TensorSpec("x", (1, 4), np.dtype(np.int8), 1.0, 0)
    with pytest.raises(ModelUnsupportedError, match="expected one input"):
        PatternTracker().bind([vector], [vector])


def test_arrays_that_are_not_patches_are_refused() -> None:
    tracker = PatternTracker()
    with pytest.raises(ImageError, match="expected uint8"):
        tracker.set_template(np.zeros((16, 16), np.float32))
    with pytest.raises(ImageError, match="expected a mask"):
        tracker.set_template(texture(1, 16), np.ones((8, 8)))


@pytest.mark.parametrize("side", [8, 16])
@pytest.mark.parametrize("engine", ["cpu", "stick"])
def test_models_with_two_coordinates_are_accepted(golden: ModelFolder, side: int, engine: str) -> None:
    graph = golden.model(f"pattern_64x64_{side}x{side}_1ch.tflite").read_bytes()
    with nullcontext(CpuEngine(graph)) if engine == "cpu" else on_a_stick(graph) as running:
        tracker = PatternTracker(running, template=(side, side))
        # Their response is not normalised: the pattern must have the highest contrast in the image.
        image = pixels(128 + (texture(1).astype(float) - 128) / 3)
        target = texture(2, side)
        image[30 : 30 + side, 22 : 22 + side] = target
        assert tracker.set_template(target, view=image).accepted
        result: MatchResult = tracker.update(image)
        assert result.valid
        assert (result.x, result.y) == pytest.approx((22 + (side - 1) / 2, 30 + (side - 1) / 2), abs=0.02)
        assert not tracker.update(texture(5)).valid
