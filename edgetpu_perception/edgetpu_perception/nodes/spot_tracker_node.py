"""The spot tracker as a node: subscribes image, publishes ~/servo_error and ~/detections."""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.publisher import Publisher
from std_msgs.msg import Header

from edgetpu_driver.errors import (
    DependencyMissingError,
    EdgeTpuError,
    InputError,
    ModelUnsupportedError,
)
from edgetpu_driver.images import drawing
from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.base_node import fill_answer
from edgetpu_driver.node_kit.deferred_service import Respond, create_deferred_service
from edgetpu_driver.node_kit.messages.detection_messages import (
    detection_array,
    detection_array_type,
    detection_message,
)
from edgetpu_driver.node_kit.messages.message_fields import scalar_fields
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_driver.node_kit.state_paths import KEEP_STATE
from edgetpu_driver.weights.weight_request import WeightResult
from edgetpu_msgs.msg import ServoError
from edgetpu_msgs.srv import SetColor
from edgetpu_perception.debug_images import spot_picture
from edgetpu_perception.graphs import spot_tracker_evidence as graph
from edgetpu_perception.graphs.color_weights import COLORS, ColorError, color_filter, color_weights
from edgetpu_perception.nodes.perception_parameters import model_size, perception_settings
from edgetpu_perception.nodes.persistent_state import PersistentState
from edgetpu_perception.nodes.weight_updating_node import WeightUpdatingNode
from edgetpu_perception.spot_tracker.spot_tracker import SpotResult, SpotTracker

Color = str | Sequence[float]
"""A preset, or weights of red, green and blue."""

TRAIL_LENGTH = 30
"""Positions that the debug image joins to a trail: one second at 30 Hz."""


def _refusal(value: Any) -> str | None:
    """Return the reason why a value of the parameter `color` is refused, or None."""
    try:
        if value:
            color_weights(value)
    except ColorError as error:
        return str(error)
    return None


def _requested(request: SetColor.Request) -> Color:
    """Return the requested colour; ColorError if both fields are set."""
    rgb: list[float] = request.rgb.tolist()
    if request.preset and any(rgb):
        raise ColorError(f"expected a preset or rgb; got both, '{request.preset}' and {rgb}")
    return request.preset or rgb


class SpotTrackerNode(WeightUpdatingNode):
    """Publishes the position of the brightest spot of the image, or of the strongest one of a colour."""

    settings = perception_settings(
        model_size("64; 96 or 128, with which fewer white balls are found correctly."),
        Setting(
            "color",
            "",
            f"Colour of the spot: {', '.join(COLORS)}, or the weights of the three channels, such as "
            "[1.0, -0.5, -0.5]. Empty: the brightest spot of any colour. ~/set_color changes it while the "
            "node runs.",
            check=_refusal,
            any_type=True,
        ),
        KEEP_STATE,
    )
    results = ResultTopic(
        "servo_error",
        ServoError,
        (
            ResultValue("x", "offset from the centre, right positive", "half image widths", "x_sigma"),
            ResultValue("y", "offset from the centre, down positive", "half image heights", "y_sigma"),
            ResultValue("bearing_x", "direction, right positive", "rad", "bearing_x_sigma"),
            ResultValue("bearing_y", "direction, down positive", "rad", "bearing_y_sigma"),
        ),
        position=("x", "y"),
        picture=spot_picture,
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("spot_tracker", **options)
        self._trail: deque[tuple[float, float]] = deque(maxlen=TRAIL_LENGTH)
        self._color: Color | None = None
        """The colour whose weights the model is to be given; None: the weights in its file are right."""
        self._servo_error = self.create_publisher(ServoError, "~/servo_error", QOS_RESULTS)
        self._detections = self._advertise_detections()
        create_deferred_service(self, SetColor, "~/set_color", self._on_set_color)
        self._kept = PersistentState(self, "color", "model")
        color = self.values["color"]
        color = self._kept_color() or (color if isinstance(color, str) else list(color)) or None
        if self.values["model"]:
            self._color = color  # the suite's own graph has its weights already
        self._tracker = SpotTracker(color=color, size=self.values["size"])
        self.start(self._tracker)

    def _advertise_detections(self) -> Publisher | None:
        """The publisher of ~/detections; None without vision_msgs, which only this topic needs."""
        try:
            return self.create_publisher(detection_array_type(), "~/detections", QOS_RESULTS)
        except DependencyMissingError as error:
            self.get_logger().info(f"~/detections is not published: {error}")
            return None

    def _kept_color(self) -> Color | None:
        """The colour set before a restart, if it is kept."""
        color: Color | None = self._kept.load().get("color")
        if color is None:
            return None
        try:
            color_weights(color)
            if not self.values["model"]:
                self.provide_graph(self._graph_name(color))
        except (EdgeTpuError, ValueError, TypeError) as error:
            self._kept.ignore(error)
            return None
        self.get_logger().info(f"tracking {color} again, as set before the restart")
        return color

    def _graph_name(self, color: Color) -> str:
        """Name of the suite's own graph for a colour."""
        return graph.name(color, self.values["size"], self.values["size"])

    def name_for(self, model: str) -> str:
        """Return a name that only this node uses; empty if the model keeps the weights in its file."""
        if self._tracker.color is None and not self.values["model"]:
            return ""
        return super().name_for(model)

    def node_weights(self) -> NDArray[np.floating[Any]] | None:
        """Weights of the colour."""
        color = self._color
        if color is None and self._client is not None and self._client.loaded.weights_version:
            color = self._tracker.color  # the driver has kept the weights of a colour set before a restart
        return None if color is None else color_filter(color)

    def publish(self, header: Header, result: SpotResult) -> None:
        """Publish the result on ~/servo_error and, with its size, on ~/detections if that has subscribers."""
        self._servo_error.publish(ServoError(header=header, **scalar_fields(ServoError, result)))
        if self._detections is None:
            return
        if self._tracker.measure_size:
            self._detections.publish(detection_array(header, self._boxes(header, result)))
        self._tracker.measure_size = self._detections.get_subscription_count() > 0

    def _boxes(self, header: Header, result: SpotResult) -> list[Any]:
        """The square around the spot; none without a spot, or while its size is not known."""
        if not (result.valid and math.isfinite(result.diameter)):
            return []
        color = self._tracker.color
        name = color if isinstance(color, str) else "spot"
        center, size = (result.u, result.v), (result.diameter, result.diameter)
        return [detection_message(header, name, result.confidence, center, size)]

    def draw(self, image: Pixels, result: SpotResult) -> Pixels:
        """Draw the position with its trail, and the numbers."""
        if result.valid:
            self._trail.append(drawing.to_pixels(image, result.x, result.y))
        else:
            self._trail.clear()
        return spot_picture(image, result, self._trail)

    def _on_set_color(self, request: SetColor.Request, respond: Respond) -> None:
        try:
            color = _requested(request)
            weights = color_filter(color)
            if self._is_grey():
                self._turn_to_color(color)
                self._kept.save({"color": color})
                respond(self._color_set(weights))
            else:
                self.change_weights(weights, functools.partial(self._on_weights_set, color, weights, respond))
        except ColorError as error:
            respond(fill_answer(SetColor.Response(), InputError(str(error))))
        except EdgeTpuError as error:
            respond(fill_answer(SetColor.Response(), error))

    def _on_weights_set(
        self, color: Color, weights: NDArray[Any], respond: Respond, swap: WeightResult | EdgeTpuError
    ) -> None:
        if isinstance(swap, EdgeTpuError):
            respond(fill_answer(SetColor.Response(), swap))
            return
        self._color = color
        self._tracker.set_color(color)
        self._kept.save({"color": color})
        step = swap.row_scales[0]
        respond(self._color_set(np.rint(weights / step) * step))

    def _color_set(self, applied: NDArray[Any]) -> SetColor.Response:
        """The answer of a call that succeeded."""
        return fill_answer(SetColor.Response(applied=applied.ravel()), None, self._kept.problem)

    def _is_grey(self) -> bool:
        return self._client is not None and any(spec.shape[-1] == 1 for spec in self._client.inputs)

    def _turn_to_color(self, color: Color) -> None:
        """Have the driver run the suite's own graph for a colour, not the one for brightness."""
        if self.values["model"]:
            raise ModelUnsupportedError(f"expected a model for a colour; '{self.values['model']}' takes grey")
        name = self._graph_name(color)
        self.provide_graph(name)  # before anything changes: the disk may be full
        self._tracker.set_color(color)
        self.run_model(name)
