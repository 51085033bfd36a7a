"""The judges of the long run (`make soak`): what is wrong is counted as wrong, what is lost as lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.matrix.matmul import MatMul
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.weights.weight_request import WeightRequest
from soak.chaos.chaos_schedule import START_SECONDS, Kind, has_light_load, is_quiet, make_schedule, quiet_ends
from soak.checks.matrix_checks import (
    PEAK_BIN,
    SETTLED_STEPS,
    PlaceCheck,
    PredictionCheck,
    ReadoutTraining,
    SpectrumResult,
    embedding,
    judge_spectrum,
    place_vectors,
    signal,
)
from soak.checks.perception_checks import DRIVING, LOOKING, PerceptionChecks, Result
from soak.checks.request_checks import (
    DenseScales,
    ExpectedResults,
    compare,
    judge_product,
    judge_refusal,
    judge_version,
    product_bound,
)
from soak.outcome_journal import Counted, Disturbance, Journal, Note, Outcome, read_journal, unexplained
from soak.scenes import FRAMES, Driving, LookingAround, Stamps

STAMPS = Stamps(1_000_000_000, 100_000_000)
SIZE = 16
GRAPH = dense.build(SIZE)


def weights_of(version: int) -> np.ndarray:
    return np.random.default_rng(version).uniform(-0.9, 0.9, (SIZE, SIZE)).astype(np.float32)


@pytest.fixture(scope="module")
def expected() -> ExpectedResults:
    return ExpectedResults(GRAPH, weights_of)


INPUTS = {"x": np.arange(SIZE, dtype=np.uint8)[np.newaxis] * 15}


# Requests


def test_the_exact_result_of_a_version_is_right(expected):
    outputs = expected.run(2, INPUTS)
    assert expected.judge(2, range(2, 4), INPUTS, outputs) == (Outcome.RIGHT, "")


def test_a_result_that_differs_in_one_step_is_wrong(expected):
    outputs = {"y": expected.run(1, INPUTS)["y"].copy()}
    outputs["y"][0, 3] ^= 1
    judged = expected.judge(1, range(1, 2), INPUTS, outputs)
    assert judged == (Outcome.WRONG, "version 1: 1 of 16 values of y differ")


def test_a_result_with_the_weights_of_another_version_is_wrong(expected):
    assert expected.judge(1, range(1, 3), INPUTS, expected.run(2, INPUTS))[0] is Outcome.WRONG


def test_a_version_that_was_never_set_is_wrong(expected):
    outcome = expected.judge(3, range(1, 3), INPUTS, expected.run(3, INPUTS))
    assert outcome == (Outcome.WRONG, "weights of version 3, expected 1 to 2")


def test_weights_that_were_replaced_before_the_request_are_wrong(expected):
    outcome = expected.judge(1, range(2, 4), INPUTS, expected.run(1, INPUTS))
    assert outcome == (Outcome.WRONG, "weights of version 1, expected 2 to 3")


def test_outputs_of_another_model_are_wrong():
    y = np.zeros((1, 4), np.uint8)
    assert compare({"z": y}, {"y": y}, "a")[0] is Outcome.WRONG
    assert compare({"y": y[:, :2]}, {"y": y}, "a")[0] is Outcome.WRONG
    assert compare({"y": y.astype(np.int8)}, {"y": y}, "a")[0] is Outcome.WRONG


def test_weights_that_are_counted_twice_are_wrong():
    assert judge_version(4, 4) == (Outcome.RIGHT, "")
    assert judge_version(5, 4)[0] is Outcome.WRONG


@pytest.mark.parametrize(
    ("code", "has_deadline", "outcome"),
    [
        (1, False, Outcome.UNKNOWN_MODEL),
        (2, False, Outcome.WRONG),
        (3, False, Outcome.WRONG),
        (4, False, Outcome.WRONG),
        (5, False, Outcome.UNAVAILABLE),
        (6, False, Outcome.UNAVAILABLE),
        (7, True, Outcome.EXPIRED),
        (7, False, Outcome.WRONG),
        (8, False, Outcome.BUSY),
        (0, False, Outcome.WRONG),
    ],
)
def test_a_refusal_counts_as_what_its_code_says(code, has_deadline, outcome):
    assert judge_refusal(code, "", has_deadline=has_deadline)[0] is outcome


@pytest.mark.parametrize("shape", [(16, 16), (20, 40)])
def test_a_product_of_the_driver_s_own_kind_is_within_its_bound_and_another_is_not(shape):
    random = np.random.default_rng(3)
    matrix = random.uniform(-0.9, 0.9, shape).astype(np.float32)
    vectors = random.normal(size=(8, shape[1])).astype(np.float32)
    matmul = MatMul(size=SIZE)
    matmul.set_weights(matrix)
    product = matmul.multiply(vectors)
    scales = DenseScales(1 / 127, dense.output_scale(SIZE), float(dense.weight_scales(SIZE).min()))
    bound = product_bound(matrix, vectors, product.input_scale, scales, -(-shape[1] // SIZE))
    assert judge_product(product.outputs, matrix, vectors, bound) == (Outcome.RIGHT, "")
    assert judge_product(product.outputs[::-1], matrix, vectors, bound)[0] is Outcome.WRONG
    assert judge_product(product.outputs * 1.1, matrix, vectors, bound)[0] is Outcome.WRONG
    assert judge_product(product.outputs * np.nan, matrix, vectors, bound)[0] is Outcome.WRONG


def test_expected_results_follow_the_weights_of_their_version(expected):
    from edgetpu_driver.engines.cpu_engine import CpuEngine

    engine = CpuEngine(GRAPH)
    engine.set_weights(WeightRequest(weights_of(5)))
    np.testing.assert_array_equal(expected.run(5, INPUTS)["y"], engine.run(INPUTS)["y"])


# Results of perception nodes


def result(index: int, frame_id: str = LOOKING, valid: bool = True, earlier: int = 0, **values) -> Result:
    return Result(STAMPS.stamp_ns(index), frame_id, valid, values, STAMPS.stamp_ns(earlier))


def lamp(index: int) -> dict[str, float]:
    scene = LookingAround()
    found = scene.project(scene.pose(scene.time(index % FRAMES)), scene.lamp_point())
    assert found is not None
    return {name: found[i] / scene.centre[i] - 1 for i, name in enumerate("xy")}


def yaw(index: int) -> float:
    scene = LookingAround()
    return scene.pose(scene.time(index % FRAMES)).yaw


def test_a_position_is_right_at_its_stamp_and_wrong_five_images_later():
    checks = PerceptionChecks(STAMPS)
    assert checks.judge("spot_tracker", result(FRAMES + 2, **lamp(2))) == (Outcome.RIGHT, "")
    assert checks.judge("spot_tracker", result(FRAMES + 7, **lamp(2)))[0] is Outcome.WRONG


def test_a_second_result_for_an_image_is_wrong():
    checks = PerceptionChecks(STAMPS)
    checks.judge("spot_tracker", result(2, **lamp(2)))
    assert checks.judge("spot_tracker", result(2, **lamp(2))) == (
        Outcome.WRONG,
        "a second result for image 2",
    )


def test_a_result_without_an_image_or_of_the_other_camera_is_wrong():
    checks = PerceptionChecks(STAMPS)
    stray = Result(STAMPS.stamp_ns(2) + 1, LOOKING, True, lamp(2))
    assert checks.judge("spot_tracker", stray)[0] is Outcome.WRONG
    assert checks.judge("spot_tracker", result(2, DRIVING, **lamp(2)))[0] is Outcome.WRONG


def test_a_lamp_that_is_off_must_not_be_found():
    checks, nothing = PerceptionChecks(STAMPS), {"x": float("nan"), "y": float("nan")}
    assert checks.judge("spot_tracker", result(42, **lamp(42)))[0] is Outcome.WRONG
    assert checks.judge("spot_tracker", result(43, valid=False, **nothing))[0] is Outcome.RIGHT
    assert checks.judge("spot_tracker", result(2, valid=False, **nothing))[0] is Outcome.NOT_VALID


def test_numbers_of_a_result_that_is_not_valid_are_wrong():
    checks = PerceptionChecks(STAMPS)
    assert checks.judge("spot_tracker", result(2, valid=False, **lamp(2)))[0] is Outcome.WRONG
    assert checks.judge("spot_tracker", result(3, x=float("nan"), y=0.0))[0] is Outcome.WRONG


def test_yaw_is_relative_to_its_reference():
    checks = PerceptionChecks(STAMPS)
    turned = yaw(70) - yaw(20)
    assert checks.judge("visual_compass", result(70, earlier=20, yaw=turned))[0] is Outcome.RIGHT
    assert checks.judge("visual_compass", result(71, earlier=20, yaw=turned))[0] is Outcome.WRONG
    assert checks.judge("visual_compass", result(72, earlier=80, yaw=turned))[0] is Outcome.WRONG


def test_a_compass_that_says_it_has_lost_its_bearing_is_not_judged():
    lost = result(70, earlier=20, yaw=2.0, yaw_sigma=0.5)
    assert PerceptionChecks(STAMPS).judge("visual_compass", lost)[0] is Outcome.NOT_JUDGED


def test_an_error_that_the_result_tells_is_not_wrong():
    checks, off = PerceptionChecks(STAMPS), yaw(70) - yaw(20) + 0.03
    assert checks.judge("visual_compass", result(70, earlier=20, yaw=off, yaw_sigma=0.01))[0] is Outcome.RIGHT
    assert (
        checks.judge("visual_compass", result(71, earlier=20, yaw=off, yaw_sigma=0.005))[0] is Outcome.WRONG
    )


def test_looming_is_judged_at_constant_speed_only():
    scene, checks = Driving(), PerceptionChecks(STAMPS)
    steady, turning = 15, 30
    depth = 4.5 - scene.pose(scene.time(steady)).position[2]
    rate = scene.speed / depth

    def judge(index: int, value: float) -> Outcome:
        return checks.judge("looming", result(index, DRIVING, expansion_rate=value))[0]

    for index in range(steady - 5, steady):
        judge(index, 0.0)
    assert judge(steady, rate) is Outcome.RIGHT
    assert judge(steady + 1, 0.0) is Outcome.WRONG
    assert judge(turning, 0.0) is Outcome.NOT_JUDGED


def test_looming_is_judged_after_some_images_at_that_speed():
    """The filter of a node that got few images still holds the speed of before."""
    checks = PerceptionChecks(STAMPS)
    judged = [
        checks.judge("looming", result(index, DRIVING, expansion_rate=0.0))[0]
        for index in (1, 6, 9, 12, 14, 16)
    ]
    assert judged == [Outcome.NOT_JUDGED] * 5 + [Outcome.WRONG]


# Results of matrix nodes


def test_a_spectrum_shows_the_line_of_the_signal():
    good = SpectrumResult(True, 10.0, PEAK_BIN / 64 * 10, 1.01)
    assert judge_spectrum(good, 0.1) == (Outcome.RIGHT, "")
    assert judge_spectrum(SpectrumResult(True, 10.0, 1.4, 1.0), 0.1)[0] is Outcome.WRONG
    assert judge_spectrum(SpectrumResult(True, 10.0, 1.25, 0.5), 0.1)[0] is Outcome.WRONG
    assert judge_spectrum(SpectrumResult(True, 20.0, 2.5, 1.0), 0.1)[0] is Outcome.WRONG


def test_an_embedding_matches_its_place_with_its_cosine():
    check, vectors = PlaceCheck(), place_vectors()
    view = embedding(7, vectors)
    cosine = float(vectors[7] @ view / np.linalg.norm(view))
    assert check.judge(7, True, "place 7", cosine) == (Outcome.RIGHT, "")
    assert check.judge(7, True, "place 8", cosine)[0] is Outcome.WRONG
    assert check.judge(7, True, "place 7", cosine - 0.05)[0] is Outcome.WRONG


def test_a_prediction_is_judged_after_enough_samples_without_a_gap():
    check = PredictionCheck()
    outcomes = [check.judge(i, i, True, signal(i + 1))[0] for i in range(SETTLED_STEPS + 1)]
    assert outcomes == [Outcome.NOT_JUDGED] * SETTLED_STEPS + [Outcome.RIGHT]
    assert check.judge(SETTLED_STEPS + 1, SETTLED_STEPS + 1, True, signal(3) + 1.0)[0] is Outcome.WRONG
    assert check.judge(SETTLED_STEPS + 4, SETTLED_STEPS + 2, True, 0.0)[0] is Outcome.NOT_JUDGED


# Causes, counts and memory


def test_results_are_those_of_a_training_once_its_samples_are_counted_anew() -> None:
    training = ReadoutTraining()
    assert [training.wants(valid=False, samples=each) for each in (149, 150)] == [False, True]
    training.done(150, residual_rms=0.01)
    good = []
    for valid, samples in ((True, 151), (True, 1), (True, 2), (False, 0)):  # late, two new ones, a restart
        training.wants(valid, samples)
        good.append(training.is_good)
    assert good == [False, True, True, False]


@pytest.mark.parametrize(("samples", "residual"), [(149, 0.01), (150, 0.04)])
def test_a_training_of_few_samples_or_with_large_residuals_is_repeated(samples: int, residual: float) -> None:
    training = ReadoutTraining()
    training.done(samples, residual)
    assert training.wants(valid=True, samples=150)


def test_a_lost_request_is_only_excused_by_a_driver_that_was_killed():
    lost = Note(10.0, 40.0, Outcome.LOST, "invoke: no answer")
    fault, kill = Disturbance(12.0, 20.0, ends_requests=False), Disturbance(12.0, 20.0, ends_requests=True)
    assert unexplained([lost], [fault], 1) == [lost]
    assert unexplained([lost], [kill], 1) == []


def test_a_refusal_without_a_disturbance_counts():
    early, late = (Note(t, t + 0.1, Outcome.UNAVAILABLE, "invoke") for t in (5.0, 50.0))
    assert unexplained([early, late], [Disturbance(4.0, 20.0, ends_requests=False)], 1) == [late]


def test_a_refusal_counts_as_long_as_one_stick_works() -> None:
    refused = Note(5.0, 5.1, Outcome.UNAVAILABLE, "invoke")
    one, again, other = (Disturbance(4.0, 20.0, ends_requests=False, stick=each) for each in (0, 0, 1))
    assert unexplained([refused], [one, again], 2) == [refused]
    assert unexplained([refused], [one, other], 2) == []


def test_a_model_is_unknown_only_after_the_driver_has_forgotten_it():
    note = Note(50.0, 50.1, Outcome.UNKNOWN_MODEL, "matmul")
    fault = Disturbance(49.0, 60.0, ends_requests=False)
    clean_up = Disturbance(12.0, 20.0, ends_requests=False, forgets_models=True)
    assert unexplained([note], [fault], 1) == [note]
    assert unexplained([note], [clean_up], 1) == []


def test_a_journal_gives_back_what_was_added(tmp_path: Path):
    now = [100.0]
    journal = Journal(tmp_path / "a.jsonl", lambda: now[0])
    journal.add(Outcome.RIGHT, "invoke", 99.0)
    now[0] = 102.0
    journal.add(Outcome.WRONG, "invoke", 101.0, "1 of 4")
    counted, notes = read_journal(tmp_path / "a.jsonl")
    assert counted == [
        Counted(102.0, "invoke", Outcome.RIGHT, 1),
        Counted(102.0, "invoke", Outcome.WRONG, 1),
    ]
    assert notes == [Note(101.0, 102.0, Outcome.WRONG, "invoke: 1 of 4")]


@pytest.mark.parametrize(
    ("time", "light"), [(0.0, False), (62.0, False), (63.5, True), (75.0, True), (76.0, False), (295.0, True)]
)
def test_the_load_is_light_before_the_end_of_each_quiet_turn(time, light):
    assert has_light_load(time, 300.0) is light


def test_a_seed_gives_one_schedule_without_actions_in_the_quiet():
    nodes = ["edgetpu", "looming"]
    schedule = make_schedule(5, 300.0, 3, nodes, nodes)
    assert schedule == make_schedule(5, 300.0, 3, nodes, nodes)
    assert schedule != make_schedule(6, 300.0, 3, nodes, nodes)
    assert all(action.kind is Kind.CALM or not is_quiet(action.time, 300.0) for action in schedule)
    assert {action.kind for action in schedule} == set(Kind)
    assert quiet_ends(300.0)[-1] == 300.0


def test_all_nodes_are_killed_equally_often():
    nodes = ["edgetpu", "looming", "spectrum"]
    kills = [each for each in make_schedule(5, 3600.0, 3, nodes, nodes) if each.kind is Kind.KILL]
    counts = Counter(each.arguments for each in kills)
    assert set(counts) == {("edgetpu",), ("looming",), ("spectrum",)}
    assert max(counts.values()) - min(counts.values()) <= 1


def test_after_a_driver_was_killed_nothing_happens_until_it_has_loaded_its_models():
    schedule = make_schedule(5, 3600.0, 3, ["edgetpu", "looming"], ["edgetpu"])
    ends = [each.time + each.seconds + START_SECONDS for each in schedule if each.kind is Kind.KILL]
    kills = [each.time for each in schedule if each.kind is Kind.KILL]
    times = [each.time for each in schedule if each.kind is not Kind.CALM]
    assert len(kills) > 30
    assert not [time for time in times for kill, end in zip(kills, ends, strict=True) if kill < time < end]
