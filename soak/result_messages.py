"""The result topics of the nodes of a run, and their messages as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgetpu_driver.node_kit.messages.message_stamps import nanoseconds_of
from edgetpu_driver.node_kit.node_table import node_table
from edgetpu_msgs.msg import (
    Flow,
    Heading,
    PatternMatch,
    PlaceMatch,
    Prediction,
    ServoError,
    Spectrum,
    TimeToContact,
)
from soak.checks.matrix_checks import SpectrumResult
from soak.checks.perception_checks import Result

MATRIX_TOPICS = {
    "reservoir": (Prediction, "/reservoir/prediction"),
    "place_recognition": (PlaceMatch, "/place_recognition/match"),
    "spectrum": (Spectrum, "/spectrum/spectrum"),
}
"""Type and topic of the results of the matrix nodes."""

_FIELDS = {
    ServoError: ("x", "y"),
    Flow: ("dx", "dy", "dx_sigma", "dy_sigma"),
    Heading: ("yaw", "yaw_sigma"),
    PatternMatch: ("x", "y"),
    TimeToContact: ("expansion_rate", "expansion_rate_sigma"),
}


def result_topics(nodes: Iterable[str]) -> dict[str, tuple[Any, str]]:
    """Type and topic of the results of these perception nodes."""
    table = node_table()
    found = {}
    for name in nodes:
        results = table[name].load().results
        found[name] = (results.message_type, f"/{name}/{results.topic}")
    return found


def perception_result(message: Any) -> Result:
    """A result message of a perception node as plain values."""
    earlier = getattr(message, "previous_stamp", None) or getattr(message, "reference_stamp", None)
    return Result(
        stamp_ns=nanoseconds_of(message.header.stamp),
        frame_id=message.header.frame_id,
        valid=message.valid,
        values={field: float(getattr(message, field)) for field in _FIELDS[type(message)]},
        earlier_ns=nanoseconds_of(earlier) if earlier is not None else 0,
    )


def spectrum_result(message: Any) -> SpectrumResult:
    """A message of the spectrum node as plain values."""
    return SpectrumResult(message.valid, message.sample_rate, message.peak_frequency, message.peak_amplitude)
