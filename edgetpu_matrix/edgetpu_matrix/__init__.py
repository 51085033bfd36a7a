"""Echo-state networks, place recognition and spectra, by products with a matrix on an Edge TPU.

The names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetpu_driver import lazy_getattr

if TYPE_CHECKING:
    from edgetpu_matrix.engine_matrix import EngineMatrix
    from edgetpu_matrix.place_recognition.place_database import PlaceDatabase
    from edgetpu_matrix.place_recognition.place_recognition import PlaceRecognition
    from edgetpu_matrix.reservoir.echo_state_network import EchoStateNetwork
    from edgetpu_matrix.reservoir.ridge_readout import RidgeReadout
    from edgetpu_matrix.spectrum.fourier_transform import AmplitudeSpectrum, SpectrumTransform

__all__ = [
    "AmplitudeSpectrum",
    "EchoStateNetwork",
    "EngineMatrix",
    "PlaceDatabase",
    "PlaceRecognition",
    "RidgeReadout",
    "SpectrumTransform",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "AmplitudeSpectrum": ".spectrum.fourier_transform",
        "EchoStateNetwork": ".reservoir.echo_state_network",
        "EngineMatrix": ".engine_matrix",
        "PlaceDatabase": ".place_recognition.place_database",
        "PlaceRecognition": ".place_recognition.place_recognition",
        "RidgeReadout": ".reservoir.ridge_readout",
        "SpectrumTransform": ".spectrum.fourier_transform",
    },
)
