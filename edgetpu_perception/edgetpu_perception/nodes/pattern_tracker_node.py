"""The pattern tracker as a node: image in, ~/match and ~/servo_error out, templates by ~/set_template."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Header

from edgetpu_driver.errors import EdgeTpuError, GraphError, InputError
from edgetpu_driver.node_kit.error_codes import code_of
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.spin import FatalError, run
from edgetpu_msgs.msg import ErrorCode, PatternMatch, ServoError
from edgetpu_msgs.srv import SetTemplate
from edgetpu_perception.debug_images.result_pictures import match_picture
from edgetpu_perception.images.encodings import ImageError, Pixels, decode_compressed
from edgetpu_perception.nodes.image_messages import image_from_message
from edgetpu_perception.nodes.perception_node import QOS_RESULTS
from edgetpu_perception.nodes.weight_updating_node import WeightUpdatingNode
from edgetpu_perception.pattern_tracker.pattern_tracker import JudgedTemplate, MatchResult, PatternTracker

SETTINGS = (
    Setting(
        "template",
        "",
        "Image file (PNG, JPEG) of the pattern to look for from the start. Empty (default): none until "
        "~/set_template gives one.",
    ),
    Setting(
        "accept_ambiguous",
        False,
        "Take the file of `template` also when it looks like other things. Default: false.",
    ),
    Setting("search_size", 64, "Width and height images are resized to, px. Default: 64.", 32, 256),
    Setting(
        "template_size",
        16,
        "Width and height of the template in the resized image, px; even when more than 16. Default: 16.",
        4,
        32,
    ),
)


class PatternTrackerNode(WeightUpdatingNode):
    """Publishes where a pattern is in the image."""

    def __init__(self, **options: Any) -> None:
        super().__init__("pattern_tracker", SETTINGS, **options)
        if self.values["template"]:
            self._load_template(Path(self.values["template"]).expanduser())

    def make_algorithm(self) -> PatternTracker:
        """Make the tracker for the parameters `search_size` and `template_size`."""
        self._match = self.create_publisher(PatternMatch, "~/match", QOS_RESULTS)
        self._servo_error = self.create_publisher(ServoError, "~/servo_error", QOS_RESULTS)
        self.create_waiting_service(SetTemplate, "~/set_template", self._on_set_template)
        search, template = self.values["search_size"], self.values["template_size"]
        try:
            self._tracker = PatternTracker(search=(search, search), template=(template, template))
        except GraphError as error:
            raise FatalError(f"parameters 'search_size' and 'template_size': {error}") from None
        return self._tracker

    def problems(self) -> list[str]:
        """Say that there is nothing to look for, or that the model did not take it."""
        if self._tracker.weights is not None:
            return super().problems()
        return ["no template; ~/set_template takes one"]

    def node_weights(self) -> NDArray[np.float64] | None:
        """Those of the template."""
        return self._tracker.model_weights

    def publish(self, header: Header, result: MatchResult) -> None:
        """Publish the result on ~/match and ~/servo_error."""
        self._match.publish(
            PatternMatch(
                header=header,
                valid=result.valid,
                confidence=result.confidence,
                ambiguous=result.ambiguous,
                x=result.x,
                y=result.y,
                width=result.width,
                height=result.height,
                x_sigma=result.x_sigma,
                y_sigma=result.y_sigma,
                score=result.score,
                runner_up_score=result.runner_up_score,
            )
        )
        self._servo_error.publish(
            ServoError(
                header=header,
                valid=result.valid,
                confidence=result.confidence,
                x=result.offset_x,
                y=result.offset_y,
                x_sigma=result.offset_x_sigma,
                y_sigma=result.offset_y_sigma,
                bearing_x=result.bearing_x,
                bearing_y=result.bearing_y,
                bearing_x_sigma=result.bearing_x_sigma,
                bearing_y_sigma=result.bearing_y_sigma,
            )
        )

    def draw(self, image: Pixels, result: MatchResult) -> Pixels:
        """Draw a box around the pattern, and its score."""
        return match_picture(image, result, has_template=self._tracker.weights is not None)

    def _load_template(self, path: Path) -> None:
        """Take the template of a file; FatalError with the reason when it is none."""
        try:
            patch = decode_compressed(path.read_bytes(), path.suffix)
            judged = self._tracker.judge_template(patch, None, self.values["accept_ambiguous"])
        except (OSError, EdgeTpuError) as error:
            raise FatalError(f"parameter 'template': {error}") from None
        if not judged.outcome.accepted:
            raise FatalError(f"parameter 'template': {path}: {judged.outcome.message}")
        self._tracker.use_template(judged)
        self.get_logger().info(f"template {path}: {judged.outcome.message}")

    async def _on_set_template(
        self, request: SetTemplate.Request, response: SetTemplate.Response
    ) -> SetTemplate.Response:
        response.runner_up_score = float("nan")
        try:
            judged = self._judge(request)
            outcome = judged.outcome
            if judged.weights is not None:
                use = functools.partial(self._tracker.use_template, judged)
                await self.change_weights(judged.weights, use)
        except ImageError as error:
            response.message, response.error = str(error), code_of(InputError(str(error)))
        except EdgeTpuError as error:
            response.message, response.error = str(error), code_of(error)
        else:
            response.success, response.message = outcome.accepted, outcome.message
            response.ambiguous, response.runner_up_score = outcome.ambiguous, outcome.runner_up_score
            response.error.value = ErrorCode.NONE if outcome.accepted else ErrorCode.REFUSED
        return response

    def _judge(self, request: SetTemplate.Request) -> JudgedTemplate:
        patch = image_from_message(request.patch)
        view, mask = (
            image_from_message(image) if image.width or image.height else None
            for image in (request.view, request.mask)
        )
        return self._tracker.judge_template(patch, mask, request.accept_ambiguous, view=view)


def main() -> int:
    """Run the node as a process of its own."""
    return run(lambda: [PatternTrackerNode()])
