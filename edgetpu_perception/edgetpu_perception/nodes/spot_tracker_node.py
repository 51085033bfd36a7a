"""The spot tracker as a node: image in, ~/servo_error out."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Header

from edgetpu_driver.errors import EdgeTpuError, InputError, ModelUnsupportedError
from edgetpu_driver.node_kit.error_codes import code_of
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.spin import run
from edgetpu_msgs.msg import ServoError
from edgetpu_msgs.srv import SetColor
from edgetpu_perception.debug_images import drawing
from edgetpu_perception.debug_images.result_pictures import spot_picture
from edgetpu_perception.graphs import families as models
from edgetpu_perception.graphs import spot_evidence as graph
from edgetpu_perception.images.encodings import Pixels
from edgetpu_perception.nodes.perception_node import QOS_RESULTS
from edgetpu_perception.nodes.weight_updating_node import WeightUpdatingNode
from edgetpu_perception.spot_tracker.spot_tracker import SpotResult, SpotTracker

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


def _requested(request: SetColor.Request) -> Color:
    """The colour asked for; ColorError where both fields say one."""
    rgb: list[float] = request.rgb.tolist()
    if request.preset and any(rgb):
        raise graph.ColorError(f"expected a preset or rgb; got both, '{request.preset}' and {rgb}")
    return request.preset or rgb


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


class SpotTrackerNode(WeightUpdatingNode):
    """Publishes where the brightest spot of the image is, or the strongest one of a colour."""

    def __init__(self, **options: Any) -> None:
        self._trail: deque[tuple[float, float]] = deque(maxlen=TRAIL_LENGTH)
        self._color: Color | None = None
        """What the model, which is made for another colour, is given the weights of; None: nothing."""
        super().__init__("spot_tracker", SETTINGS, **options)

    def make_algorithm(self) -> SpotTracker:
        """Make the tracker for the parameter `color`."""
        self._servo_error = self.create_publisher(ServoError, "~/servo_error", QOS_RESULTS)
        self.create_waiting_service(SetColor, "~/set_color", self._on_set_color)
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
        return super().name_for(model)

    def node_weights(self) -> NDArray[np.float64] | None:
        """Those of the colour."""
        return None if self._color is None else graph.color_filter(self._color)

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

    async def _on_set_color(
        self, request: SetColor.Request, response: SetColor.Response
    ) -> SetColor.Response:
        try:
            color = _requested(request)
            weights = graph.color_filter(color)
            if self._is_grey():
                self._turn_to_color(color)
            else:
                swap = await self.change_weights(weights, functools.partial(self._use_color, color))
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
        self.run_model(name, data)

    def _use_color(self, color: Color) -> None:
        self._color = color
        self._tracker.set_color(color)


def main() -> int:
    """Run the spot tracker as a process of its own."""
    return run(lambda: [SpotTrackerNode()])
