"""The numbers that are shown of the messages of matrix nodes."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_matrix.nodes.place_recognition_node import PlaceRecognitionNode
from edgetpu_matrix.nodes.reservoir_node import ReservoirNode
from edgetpu_matrix.nodes.spectrum_node import SpectrumNode
from edgetpu_msgs.msg import PlaceMatch, Prediction, Spectrum

NAN = math.nan


@pytest.mark.parametrize(
    ("node", "message", "numbers"),
    [
        (
            ReservoirNode,
            Prediction(valid=True, confidence=0.5, values=[2.0, 3.0], sigma=[0.25, 1.0], samples=7),
            {"valid": True, "confidence": 0.5, "value": 2.0, "sigma": 0.25, "samples": 7},
        ),
        (
            ReservoirNode,
            Prediction(confidence=NAN, samples=7),
            {"valid": False, "confidence": NAN, "value": NAN, "sigma": NAN, "samples": 7},
        ),
        (
            PlaceRecognitionNode,
            PlaceMatch(valid=True, labels=["a", "b"], scores=[0.75, 0.5]),
            {"valid": True, "confidence": 0.75, "score": 0.75},
        ),
        (PlaceRecognitionNode, PlaceMatch(), {"valid": False, "confidence": NAN, "score": NAN}),
        (
            SpectrumNode,
            Spectrum(valid=True, peak_frequency=4.0, peak_amplitude=2.0, sigma=0.5),
            {"valid": True, "confidence": NAN, "peak_frequency": 4.0, "peak_amplitude": 2.0, "sigma": 0.5},
        ),
    ],
)
def test_a_message_has_these_numbers(node: Any, message: Any, numbers: dict[str, float]) -> None:
    assert node.results.numbers(message) == pytest.approx(numbers, nan_ok=True)
