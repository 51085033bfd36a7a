"""The pattern tracker as a node: subscribes image, publishes ~/match and ~/servo_error."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from edgetpu_driver.errors import EdgeTpuError, GraphError, InputError, reason_of
from edgetpu_driver.files.file_access import read_file, user_path
from edgetpu_driver.images.compressed_images import decode_compressed
from edgetpu_driver.images.encodings import ImageError, Pixels
from edgetpu_driver.node_kit.deferred_service import Respond, create_deferred_service
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.images.image_messages import image_from_message
from edgetpu_driver.node_kit.messages.error_codes import write_error
from edgetpu_driver.node_kit.messages.message_fields import scalar_fields
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_driver.node_kit.state_paths import KEEP_STATE
from edgetpu_driver.weights.weight_request import WeightResult
from edgetpu_msgs.msg import ErrorCode, PatternMatch, ServoError
from edgetpu_msgs.srv import SetTemplate
from edgetpu_perception.debug_images import match_picture
from edgetpu_perception.nodes.perception_parameters import perception_settings
from edgetpu_perception.nodes.persistent_state import PersistentState
from edgetpu_perception.nodes.template_json import template_from_state, template_state
from edgetpu_perception.nodes.weight_updating_node import WeightUpdatingNode
from edgetpu_perception.pattern_tracker.pattern_tracker import JudgedTemplate, MatchResult, PatternTracker


class PatternTrackerNode(WeightUpdatingNode):
    """Publishes the position of a pattern in the image. ~/set_template replaces the pattern."""

    settings = perception_settings(
        Setting(
            "template",
            "",
            "Image file (PNG, JPEG) of the pattern to look for from the start. Empty: none until "
            "~/set_template sets one.",
        ),
        Setting(
            "accept_ambiguous",
            False,
            "Accept the file of `template` even if it resembles other parts of its surroundings.",
        ),
        Setting("search_size", 64, "Width and height that images are resized to, px.", 32, 256),
        Setting(
            "template_size",
            16,
            "Width and height of the template in the resized image, px; must be even above 16.",
            4,
            32,
        ),
        Setting(
            "scale_range",
            2.0,
            "The pattern is found at 1/scale_range to scale_range times the size at which it was set. "
            "1: at that size only, up to a few percent.",
            1.0,
            4.0,
        ),
        KEEP_STATE,
    )
    results = ResultTopic(
        "match",
        PatternMatch,
        (
            ResultValue("x", "centre, right positive", "px", "x_sigma"),
            ResultValue("y", "centre, down positive", "px", "y_sigma"),
            ResultValue("scale", "size over that of the template", sigma="scale_sigma"),
            ResultValue("score", "normalised cross-correlation"),
        ),
        picture=match_picture,
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("pattern_tracker", **options)
        self._match = self.create_publisher(PatternMatch, "~/match", QOS_RESULTS)
        self._servo_error = self.create_publisher(ServoError, "~/servo_error", QOS_RESULTS)
        create_deferred_service(self, SetTemplate, "~/set_template", self._on_set_template)
        with self.destroyed_on_error():
            self._tracker = self._make_tracker()
            self._kept = PersistentState(self, "template", "model", "search_size", "template_size")
            self._restore_template()
        self.start(self._tracker)

    def measuring_problems(self) -> list[str]:
        """Return a problem if there is no template or if the model refused its weights."""
        if self._tracker.weights is not None:
            return super().measuring_problems()
        return ["no template; ~/set_template sets one"]

    def node_weights(self) -> NDArray[np.floating[Any]] | None:
        """Weights of the template."""
        return self._tracker.model_weights

    def _make_tracker(self) -> PatternTracker:
        search, template = self.values["search_size"], self.values["template_size"]
        try:
            tracker = PatternTracker(
                search=(search, search),
                template=(template, template),
                scale_range=self.values["scale_range"],
            )
        except GraphError as error:
            raise FatalError(f"parameters 'search_size' and 'template_size': {error}") from None
        if self.values["template"]:
            self._load_template(tracker, user_path(self.values["template"]))
        return tracker

    def publish(self, header: Header, result: MatchResult) -> None:
        """Publish the result on ~/match and, if that has subscribers, on ~/servo_error."""
        self._match.publish(PatternMatch(header=header, **scalar_fields(PatternMatch, result)))
        if self._servo_error.get_subscription_count():
            self._servo_error.publish(_servo_error(header, result))

    def draw(self, image: Pixels, result: MatchResult) -> Pixels:
        """Draw a box around the pattern, and its score."""
        return match_picture(image, result, has_template=self._tracker.weights is not None)

    def _load_template(self, tracker: PatternTracker, path: Path) -> None:
        """Use the template in a file; FatalError with the reason if it is refused."""
        try:
            patch = decode_compressed(read_file(path), path.suffix)
            judged = tracker.judge_template(patch, None, self.values["accept_ambiguous"])
        except (OSError, EdgeTpuError) as error:
            raise FatalError(f"parameter 'template': {reason_of(error)}") from None
        if not judged.outcome.accepted:
            raise FatalError(f"parameter 'template': {path}: {judged.outcome.message}")
        tracker.use_template(judged)
        self.get_logger().info(f"template {path}: {judged.outcome.message}")

    def _restore_template(self) -> None:
        """Use the template set before a restart, if it is kept."""
        values = self._kept.load()
        if not values:
            return
        try:
            self._tracker.adopt_template(template_from_state(values))
        except EdgeTpuError as error:
            self._kept.ignore(error)
        else:
            self.get_logger().info("searching again for the template that was set before the restart")

    def _on_set_template(self, request: SetTemplate.Request, respond: Respond) -> None:
        try:
            judged = self._judge(request)
            if judged.weights is None:
                respond(_answer(judged))
            else:
                self.change_weights(judged.weights, functools.partial(self._on_template_set, judged, respond))
        except ImageError as error:
            respond(_answer(InputError(str(error))))
        except EdgeTpuError as error:
            respond(_answer(error))

    def _on_template_set(
        self, judged: JudgedTemplate, respond: Respond, swap: WeightResult | EdgeTpuError
    ) -> None:
        if isinstance(swap, EdgeTpuError):
            respond(_answer(swap))
        else:
            self._tracker.use_template(judged)
            self._kept.save(template_state(judged.template))
            response = _answer(judged)
            response.message = "; ".join(each for each in (self._kept.problem, response.message) if each)
            respond(response)

    def _judge(self, request: SetTemplate.Request) -> JudgedTemplate:
        patch = image_from_message(request.patch)
        view, mask = _optional_image(request.view, "view"), _optional_image(request.mask, "mask")
        return self._tracker.judge_template(patch, mask, request.accept_ambiguous, view=view)


def _answer(outcome: JudgedTemplate | EdgeTpuError) -> SetTemplate.Response:
    response = SetTemplate.Response(runner_up_score=float("nan"))
    if isinstance(outcome, EdgeTpuError):
        return write_error(response, outcome)
    judged = outcome.outcome
    response.success, response.message = judged.accepted, judged.message
    response.ambiguous, response.runner_up_score = judged.ambiguous, judged.runner_up_score
    response.error.value = ErrorCode.NONE if judged.accepted else ErrorCode.REFUSED
    return response


def _optional_image(image: Image, field: str) -> Pixels | None:
    """Decode a field of a request; None if it is empty. InputError, with the field's name, if malformed."""
    if not (image.width or image.height):
        return None
    try:
        return image_from_message(image)
    except ImageError as error:
        raise InputError(f"{field}: {error}") from error


def _servo_error(header: Header, result: MatchResult) -> ServoError:
    return ServoError(
        header=header,
        valid=bool(result.valid),
        confidence=float(result.confidence),
        x=float(result.offset_x),
        y=float(result.offset_y),
        x_sigma=float(result.offset_x_sigma),
        y_sigma=float(result.offset_y_sigma),
        bearing_x=float(result.bearing_x),
        bearing_y=float(result.bearing_y),
        bearing_x_sigma=float(result.bearing_x_sigma),
        bearing_y_sigma=float(result.bearing_y_sigma),
    )
