"""The result of one inference, for the host and for nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError


@dataclass(frozen=True)
class InferenceResult:
    """The outputs of one inference by name, or the error that prevented it."""

    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    error: EdgeTpuError | None = None
    engine_duration: float = 0.0
    """Seconds spent in the driver's engine."""
    device_duration: float = float("nan")
    """Seconds that the simulated device took, transfers included; NaN for a real one."""
    weights_version: int = 0
    """Version of the weights the outputs were computed with; see WeightResult."""
    model_sha256: str = ""
    """Digest of the model's file, in hexadecimal."""
    part: int = 0
    """Number of the part for the Edge TPU that was run; 0: the whole model."""
