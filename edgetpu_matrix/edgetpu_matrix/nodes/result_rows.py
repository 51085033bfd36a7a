"""Converts result messages of the matrix nodes to flat rows of numbers, which the dashboard shows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from edgetpu_msgs.msg import PlaceMatch, Prediction, Spectrum


def prediction_row(message: Prediction) -> Mapping[str, float]:
    """Return the first output of a readout, NaN without one, and the samples to train on."""
    return {
        "valid": message.valid,
        "confidence": message.confidence,
        "value": message.values[0] if message.values else math.nan,
        "sigma": message.sigma[0] if message.sigma else math.nan,
        "samples": message.samples,
    }


def match_row(message: PlaceMatch) -> Mapping[str, float]:
    """Return the similarity of the most similar place, NaN if none is known; it is the confidence, too."""
    score = message.scores[0] if message.scores else math.nan
    return {"valid": message.valid, "confidence": score, "score": score}


def spectrum_row(message: Spectrum) -> Mapping[str, float]:
    """Return the strongest line of a spectrum; a spectrum has no confidence."""
    return {
        "valid": message.valid,
        "confidence": math.nan,
        "peak_frequency": message.peak_frequency,
        "peak_amplitude": message.peak_amplitude,
        "sigma": message.sigma,
    }
