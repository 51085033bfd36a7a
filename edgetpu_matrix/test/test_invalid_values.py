"""Values that are not real numbers are refused by every class that accepts numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import InputError
from edgetpu_matrix.place_recognition.place_database import PlaceDatabase
from edgetpu_matrix.reservoir.echo_state_network import EchoStateNetwork
from edgetpu_matrix.reservoir.ridge_readout import RidgeReadout
from edgetpu_matrix.spectrum.sample_blocks import SampleBlocks

TAKERS: dict[str, Callable[[Any], object]] = {
    "a place": lambda values: PlaceDatabase().add("kitchen", values),
    "a search": lambda values: PlaceDatabase().unit_vector(values),
    "a step of a reservoir": lambda values: EchoStateNetwork(8, inputs=2).advance(np.zeros(8), values),
    "features of a readout": lambda values: RidgeReadout(2, 1).add(values, [1.0]),
    "samples of a spectrum": lambda values: SampleBlocks(8, 8, 100.0).add(values, 1.0),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("values", [[[1.0], [1.0, 2.0]], ["a", "b"], [1j, 2j], None, [{}, {}]])
def test_anything_but_an_array_of_real_numbers_is_refused(taker: str, values: Any) -> None:
    with pytest.raises(InputError, match="of real numbers; "):
        TAKERS[taker](values)
