"""The looming node: subscribes to images, publishes ~/time_to_contact."""

from __future__ import annotations

from typing import Any

from sensor_msgs.msg import RegionOfInterest
from std_msgs.msg import Header

from edgetpu_driver.host.requests.request_terms import Priority
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.node_kit.images.image_parameters import min_confidence
from edgetpu_driver.node_kit.messages.message_fields import scalar_fields
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_msgs.msg import TimeToContact
from edgetpu_perception.debug_images import looming_message_picture, looming_picture
from edgetpu_perception.nodes.perception_node import PerceptionNode
from edgetpu_perception.nodes.perception_parameters import SIZES, model_size, perception_settings
from edgetpu_perception.time_to_contact.looming import MIN_EXPANSION_RATE, Looming, LoomingResult

WIDTH_STEP, MAX_WIDTH = 32, 512
"""Step and largest value of the width of the model's input, px. Limits the time."""


def _bad_width(value: int) -> str | None:
    if value == 0 or (value >= SIZES[0] and value % WIDTH_STEP == 0):
        return None
    return f"expected 0, or a multiple of {WIDTH_STEP} from {SIZES[0]} to {MAX_WIDTH}; got {value}"


def _region_message(result: LoomingResult) -> RegionOfInterest:
    if result.region is None:
        return RegionOfInterest()
    x, y, width, height = map(int, result.region)
    return RegionOfInterest(x_offset=x, y_offset=y, width=width, height=height)


class LoomingNode(PerceptionNode):
    """Publishes the time until the camera touches what it looks at."""

    settings = perception_settings(
        model_size("64; 96, which sees smaller objects; or 128, which has less noise."),
        Setting(
            "width",
            0,
            "Width of the model's input, px, a multiple of 32: 192 with a size of 64 does not squeeze images "
            "of 1242x375 px. 0: as size; or, by the first image, 2 to 4 times size if the image is that much "
            "wider than high and the driver has the model.",
            0,
            MAX_WIDTH,
            check=_bad_width,
        ),
        min_confidence(0.1),
        Setting(
            "min_expansion_rate",
            MIN_EXPANSION_RATE,
            "Least growth of the image at which a result is approaching, 1/s, if it is also 5 sigma: 0.15 is "
            "contact within 6.7 s.",
            0.0,
            10.0,
            read_only=False,
        ),
    )
    needs_stamps = True
    results = ResultTopic(
        "time_to_contact",
        TimeToContact,
        (
            ResultValue("expansion_rate", "growth of the image", "1/s", "expansion_rate_sigma"),
            ResultValue("ttc", "time to contact", "s", "ttc_sigma"),
            ResultValue("tau", "edge energy of the centre over the rest"),
        ),
        picture=looming_message_picture,
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("looming", **options)
        self._time_to_contact = self.create_publisher(TimeToContact, "~/time_to_contact", QOS_RESULTS)
        self._looming = Looming(
            size=self.values["size"],
            width=self.values["width"] or None,
            min_expansion_rate=self.values["min_expansion_rate"],
        )
        self._wider: ModelClient | None = None
        """The client of a model that does not squeeze the images, until the driver has loaded it."""
        self._width_is_chosen = bool(self.values["width"] or self.values["model"])
        self.start(self._looming)

    def destroy_node(self) -> None:
        """Leave the graph."""
        if self._wider is not None:
            self._wider.close()
        super().destroy_node()

    def prepare(self, image: CameraImage) -> None:
        """Choose the width of the model by the first image; the square one runs until the other is loaded."""
        super().prepare(image)
        if self._width_is_chosen:
            return
        square = self._looming.model
        chosen = self._looming.choose_width(image)  # ImageError if the image does not have the region
        self._width_is_chosen = True
        if chosen != square:
            self._wider = ModelClient(
                self,
                self.model_to_load(),
                driver=self.values["driver"],
                priority=Priority.REAL_TIME,
                deadline=self.values["deadline"],
                on_ready=self._change_to_wider,
                sets_weights=False,
            )

    def _change_to_wider(self) -> None:
        """Run the wider model from the next image on."""
        if self._wider is not None:
            assert self._client is not None
            self._client.close()  # the image under way waits for the new client
            self._client, self._wider = self._wider, None
        self._on_model()

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply the new value of a parameter."""
        super().on_parameter(name, value)
        if name == "min_expansion_rate":
            self._looming.min_expansion_rate = value

    def publish(self, header: Header, result: LoomingResult) -> None:
        """Publish the result on ~/time_to_contact."""
        self._time_to_contact.publish(
            TimeToContact(
                header=header,
                zones=result.zones,
                region=_region_message(result),
                **scalar_fields(TimeToContact, result),
            )
        )

    def draw(self, image: Pixels, result: LoomingResult) -> Pixels:
        """Draw the nine zones, the bounds of the surface, and the time to contact."""
        return looming_picture(image, result)
