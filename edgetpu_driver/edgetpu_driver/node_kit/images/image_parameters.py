"""The parameters of every image node."""

from __future__ import annotations

from edgetpu_driver.node_kit.clients.driver_choice import DRIVER_SETTING
from edgetpu_driver.node_kit.parameters import QOS_RELIABILITY, Setting, merge_settings

_MOST_PIXELS = 2**16
"""Upper limit of the offsets and sizes of a region, px."""


def _no_region(values: list[int]) -> str | None:
    if len(values) == 4 and all(0 <= value < _MOST_PIXELS for value in values):
        return None
    return f"expected x offset, y offset, width and height, 0 px or more; got {values}"


def min_confidence(default: float) -> Setting:
    """Describe `min_confidence` for a node whose results are useful from that confidence upwards."""
    return Setting(
        "min_confidence",
        default,
        "Results of lower confidence are published as not valid.",
        0.0,
        1.0,
        read_only=False,
    )


_SETTINGS = (
    DRIVER_SETTING,
    Setting("model", "", "Model to run: file stem, file name or path, as the driver's load_model takes it."),
    Setting(
        "image_transport",
        "raw",
        "raw subscribes image, compressed subscribes image/compressed (JPEG or PNG).",
        choices=("raw", "compressed"),
    ),
    QOS_RELIABILITY,
    Setting("qos_depth", 5, "Queue depth of the subscription, messages.", 1, 1000),
    Setting(
        "rate_limit",
        0.0,
        "Maximum rate of images to process, by their stamps, Hz; images without a stamp always pass. 0: no "
        "limit.",
        0.0,
        1000.0,
        read_only=False,
    ),
    Setting(
        "debug_rate",
        10.0,
        "Most debug images per second that are drawn while ~/debug_image has subscribers, Hz. 0: one for "
        "each result.",
        0.0,
        1000.0,
        read_only=False,
    ),
    Setting(
        "roi",
        [0, 0, 0, 0],
        "Region of the image to process, px: x offset, y offset, width, height; a width or height of 0 "
        "extends to the edge. Results stay in pixels and directions of the whole image.",
        read_only=False,
        check=_no_region,
    ),
    Setting(
        "deadline",
        0.2,
        "Time within which the driver must have begun to work on an image, s. A later request is dropped, "
        "and sent again unless a newer image waits. 0: 1.6 s, which leaves time for the answer.",
        0.0,
        60.0,
    ),
    min_confidence(0.2),
)


def image_settings(*own: Setting) -> tuple[Setting, ...]:
    """The parameters of every image node and those of one; own ones replace common ones of that name."""
    return merge_settings(_SETTINGS, own)
