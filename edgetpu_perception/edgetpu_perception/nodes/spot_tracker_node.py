"""The spot tracker as a node: image in, ~/servo_error out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
from std_msgs.msg import Header

from edgetpu_driver.errors import EdgeTpuError, InputError, ModelUnsupportedError, UnavailableError
from edgetpu_driver.ros.error_codes import code_of
from edgetpu_driver.ros.parameters import Setting
from edgetpu_driver.ros.spin import run
from edgetpu_driver.ros.transport import InferenceResult
from edgetpu_driver.weights import WeightSwap
from edgetpu_msgs.msg import ServoError
from edgetpu_msgs.srv import SetColor
from edgetpu_perception import drawing, models
from edgetpu_perception.camera_image import CameraImage
from edgetpu_perception.debug_images import spot_picture
from edgetpu_perception.eye import Frame
from edgetpu_perception.graphs import spot as graph
from edgetpu_perception.images import Pixels
from edgetpu_perception.nodes.camera_stream import SharedImage
from edgetpu_perception.nodes.eye_node import QOS_RESULTS, EyeNode
from edgetpu_perception.spot_tracker import SpotResult, SpotTracker

Color = str | Sequence[float]
"""A preset, or weights of red, green and blue."""

TRAIL_LENGTH = 30
"""Positions that the debug image joins to a trail."""


def _refusal(value: Any) -> str | None:
    """Why a value of the parameter `color` is none."""
    try:
        if value:
            graph.color_weights(value)
    except graph.ColorError as error:
        return str(error)
    return None


SETTINGS = (
    Setting(
        "color",
        "",
        f"Colour of the spot: {', '.join(graph.COLORS)}, or [weight of red, of green, of blue]. Empty "
        "(default): the brightest spot of any colour.",
        check=_refusal,
        any_type=True,
    ),
)


class SpotTrackerNode(EyeNode):
    """Publishes where the brightest spot of the image is, or the strongest one of a colour.

    Its colour is weights of the model, which the driver has under a name of this node's own: ~/set_color
    replaces them between two images.
    """

    def __init__(self, **options: Any) -> None:
        self._trail: deque[tuple[float, float]] = deque(maxlen=TRAIL_LENGTH)
        self._color: Color | None = None
        """To be set whenever the driver has loaded the model, which is made for another one."""
        self._asked: tuple[Color, Future] | None = None
        """What ~/set_color waits for."""
        self._sent = False
        """Whether the driver has been asked for that."""
        self._without_color = False
        """The model is loaded and does not have the weights of `_color` yet."""
        self._turning = False
        """The graph for a colour, in place of the one for brightness, is being loaded."""
        self._refused = ""
        super().__init__("spot_tracker", SETTINGS, **options)

    def make_eye(self) -> SpotTracker:
        """Make the tracker for the parameter `color`."""
        self._servo_error = self.create_publisher(ServoError, "~/servo_error", QOS_RESULTS)
        # While this awaits the driver the callback with the driver's answer must run.
        group = ReentrantCallbackGroup()
        self.create_service(SetColor, "~/set_color", self._on_set_color, callback_group=group)
        color = self.values["color"]
        color = (color if isinstance(color, str) else list(color)) or None
        if self.values["model"]:
            self._color = color  # the suite's own graph is made for it
        self._tracker = SpotTracker(color=color)
        return self._tracker

    def name_for(self, model: str) -> str:
        """One of this node's own, for weights of its own."""
        if self._tracker.color is None and not self.values["model"]:
            return ""
        return f"{self.get_fully_qualified_name().lstrip('/')}/{model}"

    def problems(self) -> list[str]:
        """Say that the model did not take the colour."""
        return [self._refused] if self._refused else []

    def publish(self, header: Header, result: SpotResult) -> None:
        """Publish the result on ~/servo_error."""
        self._servo_error.publish(
            ServoError(
                header=header,
                valid=result.valid,
                confidence=result.confidence,
                x=result.x,
                y=result.y,
                x_sigma=result.x_sigma,
                y_sigma=result.y_sigma,
                bearing_x=result.bearing_x,
                bearing_y=result.bearing_y,
                bearing_x_sigma=result.bearing_x_sigma,
                bearing_y_sigma=result.bearing_y_sigma,
            )
        )

    def draw(self, image: Pixels, result: SpotResult) -> Pixels:
        """Draw the position with its trail, and the numbers."""
        if result.valid:
            self._trail.append(drawing.to_pixels(image, result.x, result.y))
        else:
            self._trail.clear()
        return spot_picture(image, result, self._trail)

    def _start(self, shared: SharedImage) -> bool:
        """Begin the work on an image; False while the model's weights are being replaced."""
        self._send_asked()
        return self._asked is None and not self._without_color and super()._start(shared)

    def _on_answer(
        self, shared: SharedImage, image: CameraImage, frame: Frame, answer: InferenceResult
    ) -> None:
        super()._on_answer(shared, image, frame, answer)
        self._send_asked()

    def _on_model(self) -> None:
        """Give a model that has just been loaded the weights of the present colour before any image."""
        self._without_color, self._turning = self._color is not None, False
        super()._on_model()
        if self._color is None or self._bound is None or self._client is None:
            self._send_asked()
            return

        def done(swap: WeightSwap | EdgeTpuError) -> None:
            if isinstance(swap, EdgeTpuError):
                self._refused = f"model '{self._model_name()}' does not take the colour: {swap}"
                self.get_logger().error(self._refused)
            else:
                self._without_color, self._refused = False, ""
            self._send_asked()
            self._gate.resume()

        self._client.set_weights(graph.color_filter(self._color), done)

    async def _on_set_color(
        self, request: SetColor.Request, response: SetColor.Response
    ) -> SetColor.Response:
        color = request.preset or request.rgb.tolist()
        try:
            weights = graph.color_filter(color)
            if self._is_grey():
                self._turn_to_color(color)
            else:
                swap = await self._ask_for(color)
                if isinstance(swap, EdgeTpuError):
                    raise swap
                step = swap.row_scales[0]
                weights = np.rint(weights / step) * step
        except graph.ColorError as error:
            response.message, response.error = str(error), code_of(InputError())
        except (OSError, EdgeTpuError) as error:
            response.message, response.error = str(error), code_of(error)
        else:
            response.success, response.applied = True, weights.ravel()
        return response

    def _is_grey(self) -> bool:
        return self._client is not None and any(spec.shape[-1] == 1 for spec in self._client.inputs)

    def _turn_to_color(self, color: Color) -> None:
        """Have the driver run the suite's own graph for a colour, not the one for brightness."""
        if self.values["model"]:
            raise ModelUnsupportedError(f"expected a model for a colour; '{self.values['model']}' takes grey")
        name = graph.name(color)
        data = models.build(name)
        self._tracker.set_color(color)
        self._turning = True
        self.run_model(name, data)

    def _ask_for(self, color: Color) -> Future:
        """Have the model's weights replaced once no image is under way; a WeightSwap or the error."""
        answer = Future()
        if self._client is None or not (self._client.ready or self._turning):
            answer.set_result(
                UnavailableError(self._client.problem if self._client else "the node is ending")
            )
        elif self._asked is not None:
            answer.set_result(UnavailableError("another colour is being set"))
        else:
            self._asked = color, answer
            self._send_asked()
        return answer

    def _send_asked(self) -> None:
        """Ask the driver for the weights of the colour that waits, if it has nothing else to do for us."""
        if self._asked is None or self._sent or self._turning or self._client is None or self._client.busy:
            return
        color, _ = self._asked

        def done(swap: WeightSwap | EdgeTpuError) -> None:
            self._sent = False
            if isinstance(swap, WeightSwap):
                self._color, self._without_color, self._refused = color, False, ""
                self._tracker.set_color(color)
            self._answer_asked(swap)
            self._gate.resume()

        self._sent = True
        if not self._client.set_weights(graph.color_filter(color), done):
            self._sent = False
            self._answer_asked(UnavailableError(self._client.problem))

    def _answer_asked(self, outcome: WeightSwap | EdgeTpuError) -> None:
        if self._asked is not None:
            (_, answer), self._asked = self._asked, None
            answer.set_result(outcome)


def main() -> int:
    """Run the spot tracker as a process of its own."""
    return run(lambda: [SpotTrackerNode()])
