"""What all perception algorithms have in common."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgetpu_driver.errors import InputError
from edgetpu_perception import Looming, OpticalFlow, PatternTracker, SpotTracker, VisualCompass
from testdata.pictures.turning_camera import CAMERA

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


@pytest.mark.parametrize("stamp", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [SpotTracker, Looming, OpticalFlow, VisualCompass, PatternTracker])
def test_a_stamp_that_is_not_finite_is_refused(
    kind: type[SpotTracker | Looming | OpticalFlow | VisualCompass | PatternTracker], stamp: float
) -> None:
    algorithm = kind(camera=CAMERA)
    with pytest.raises(InputError, match=f"expected a finite stamp, s; got {stamp}"):
        algorithm.update(np.zeros((64, 64), np.uint8), stamp)
