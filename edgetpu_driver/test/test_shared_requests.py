"""Requests that wait for the inference of another client: their deadlines, refusals, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from edgetpu_driver.backends.backend import ParsedModel, Placement
from edgetpu_driver.errors import BusyError, ExpiredError, InputError, ModelUnsupportedError
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.models.model_parts import ReadModel
from edgetpu_driver.host.requests.request_terms import RequestTerms
from edgetpu_driver.host.shared_inference.image_groups import WINDOW, ImageGroups
from edgetpu_driver.host.shared_inference.joint_model import JointModel
from edgetpu_driver.host.shared_inference.shared_inference import SharedInference
from edgetpu_driver.tflite.tensor import TensorSpec
from testdata.devices.fake_device import ONES

SPEC = TensorSpec("image", (1, 2, 2, 1), np.dtype(np.uint8), 1.0, 0)
IMAGE = {"image": np.zeros(SPEC.shape, np.uint8)}


@dataclass
class Begun:
    """An inference that the host was asked for."""

    terms: RequestTerms
    done: Callable[[Any], None]


def hosted_model(spec: TensorSpec = SPEC) -> HostedModel:
    model = HostedModel("spot", [Path("spot.tflite")])
    model.set_read("", 0, ReadModel(ParsedModel((spec,), (spec,), Placement.HOST, 0, 0, None)))
    model.head_name = "spot"
    return model


class Asking:
    """Clients that ask for inferences of one model on one image."""

    def __init__(self) -> None:
        self.begun: list[Begun] = []
        self.answers: list[tuple[str, Any]] = []
        self.model = hosted_model()
        self.shared = SharedInference(self._invoke, _nothing, _nothing, _nothing, lambda: [self.model])

    def _invoke(self, _model: Any, _inputs: Any, done: Callable[[Any], None], terms: RequestTerms) -> None:
        self.begun.append(Begun(terms, done))

    def ask(self, client: str, deadline: float = 0.0) -> None:
        terms = RequestTerms(client, deadline=deadline)
        self.shared.ask(self.model, IMAGE, lambda answer: self.answers.append((client, answer)), terms)


def _nothing(*_arguments: Any) -> None:
    """Do nothing."""


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_a_request_shares_an_inference_that_begins_before_its_own_deadline(asking: Asking) -> None:
    asking.ask("/a", deadline=50.0)
    asking.ask("/b", deadline=60.0)
    asking.begun[0].done(InferenceResult())
    assert [client for client, _ in asking.answers] == ["/a", "/b"]
    assert len(asking.begun) == 1


@pytest.mark.parametrize("first", [0.0, 60.0])
def test_a_request_does_not_wait_for_an_inference_that_may_begin_after_its_deadline(
    asking: Asking, first: float
) -> None:
    asking.ask("/a", deadline=first)
    asking.ask("/b", deadline=50.0)
    assert [each.terms.client for each in asking.begun] == ["/a", "/b"]


def test_the_deadline_of_a_request_that_is_run_after_all_counts_from_its_arrival(asking: Asking) -> None:
    asking.ask("/a", deadline=50.0)
    asking.ask("/b", deadline=60.0)
    asking.begun[0].done(ExpiredError("too late"))
    assert asking.begun[1].terms.client == "/b"
    assert 0.0 < asking.begun[1].terms.deadline < 60.0


def test_a_request_whose_deadline_has_passed_is_not_run_after_all(asking: Asking) -> None:
    asking.ask("/a", deadline=1e-9)
    asking.ask("/b", deadline=1e-6)
    asking.begun[0].done(ExpiredError("too late"))
    assert [(client, type(answer)) for client, answer in asking.answers] == [
        ("/a", ExpiredError),
        ("/b", ExpiredError),
    ]
    assert (len(asking.begun), asking.shared.expired) == (1, 1)


def test_all_that_wait_for_an_inference_which_has_waited_too_long_learn_that(asking: Asking) -> None:
    asking.ask("/a")
    asking.ask("/b")
    asking.begun[0].done(BusyError("waited 10 s for its turn", 1.0))
    assert [(client, type(answer)) for client, answer in asking.answers] == [
        ("/a", BusyError),
        ("/b", BusyError),
    ]
    assert (len(asking.begun), asking.shared.refused) == (1, 1)


def test_weights_that_a_joint_graph_could_not_be_given_while_too_much_waited_are_sent_again(
    asking: Asking,
) -> None:
    joint = Mock(JointModel)
    asking.shared._not_set(joint, asking.model, BusyError("1000 requests wait", 1.0))
    joint.send_again.assert_called_once_with(asking.model)
    assert asking.model.head_name == "spot"


def test_swaps_of_a_joint_graph_may_be_noted_in_another_order_than_they_were_made() -> None:
    heads = [hosted_model(), hosted_model()]
    outputs = tuple(replace(SPEC, name=f"head{number}/image") for number in range(2))
    model = HostedModel("joint", [Path("joint.tflite")])
    model.set_read("", 0, ReadModel(ParsedModel((SPEC,), outputs, Placement.HOST, 0, 0, None)))
    joint = JointModel(model, heads)
    joint.hold(heads[1], 7, 2)
    joint.hold(heads[0], 5, 1)

    def versions(own: int) -> list[int]:
        images = {spec.name: np.zeros(SPEC.shape, np.uint8) for spec in outputs}
        results = [joint.result_of(head, InferenceResult(images, weights_version=own)) for head in heads]
        return [result.weights_version for result in results if result is not None]

    assert [versions(own) for own in range(3)] == [[0, 0], [5, 0], [5, 7]]


def test_an_unexpected_error_is_that_of_its_request_alone() -> None:
    answers: list[Any] = []
    invoke = Mock(side_effect=[ValueError("unexpected"), None])
    shared, model = SharedInference(invoke, _nothing, _nothing, _nothing, list), hosted_model()
    with pytest.raises(ValueError, match="unexpected"):
        shared.ask(model, IMAGE, answers.append, RequestTerms("/a"))
    shared.ask(model, IMAGE, answers.append, RequestTerms("/b"))
    done = invoke.call_args.args[2]
    done(InferenceResult())
    assert len(answers) == 1


def test_a_joint_graph_that_no_thread_can_load_is_asked_for_again() -> None:
    load = Mock(side_effect=[RuntimeError("can't start new thread"), None])
    shared = SharedInference(_nothing, _nothing, load, _nothing, list)
    group: Any = Mock(models=(hosted_model(), hosted_model()))
    for _ in range(2):
        shared._changed(group)
    assert load.call_count == 2


def test_images_of_models_that_nobody_asks_for_any_more_are_released() -> None:
    now = [0.0]
    groups = ImageGroups(_nothing, clock=lambda: now[0])
    groups.ask("/a", hosted_model(), b"image")
    now[0] += 2 * WINDOW
    other = hosted_model(replace(SPEC, name="other"))
    groups.ask("/b", other, b"other")
    assert list(groups._images) == [other.inputs[0]]


def test_wrong_inputs_of_a_model_that_cannot_run_are_answered_with_the_reason(
    host: ModelHost,
) -> None:
    model = host.load("plus")
    model.head_name = "plus"
    with pytest.raises(InputError):
        host.invoke("plus", {}, RequestTerms("/a"))
    model.replicas[0].unsupported_reason = "does not fit"
    with pytest.raises(ModelUnsupportedError, match="does not fit"):
        host.invoke("plus", {}, RequestTerms("/a"))
    with pytest.raises(ModelUnsupportedError, match="does not fit"):
        host.invoke("plus", ONES, RequestTerms("/a"))
