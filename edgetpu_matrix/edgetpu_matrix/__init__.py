"""What runs on an Edge TPU as a matrix engine: echo-state networks, place recognition, spectra.

The names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgetpu_matrix.echo_state import EchoStateNetwork
    from edgetpu_matrix.engine_matrix import EngineMatrix
    from edgetpu_matrix.place_database import PlaceDatabase
    from edgetpu_matrix.place_recognition import PlaceRecognition
    from edgetpu_matrix.readout import RidgeReadout
    from edgetpu_matrix.spectrum import AmplitudeSpectrum, SpectrumTransform

__all__ = [
    "AmplitudeSpectrum",
    "EchoStateNetwork",
    "EngineMatrix",
    "PlaceDatabase",
    "PlaceRecognition",
    "RidgeReadout",
    "SpectrumTransform",
]

_HOME = {
    "AmplitudeSpectrum": "spectrum",
    "EchoStateNetwork": "echo_state",
    "EngineMatrix": "engine_matrix",
    "PlaceDatabase": "place_database",
    "PlaceRecognition": "place_recognition",
    "RidgeReadout": "readout",
    "SpectrumTransform": "spectrum",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
