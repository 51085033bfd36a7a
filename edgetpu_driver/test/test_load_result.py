"""What a client calls its model on the driver."""

from __future__ import annotations

import pytest

from edgetpu_driver.node_kit.clients.load_result import name_on_driver


@pytest.mark.parametrize(
    ("name", "on_driver"),
    [
        ("robot/spot_tracker/spot_color_64x64", "robot/spot_tracker/spot_color_64x64"),
        (
            "spot_tracker//home/zo\u00eb/my models/red-1.tflite",
            "spot_tracker//home/zo_/my_models/red-1.tflite",
        ),
    ],
)
def test_a_name_has_what_the_driver_permits(name: str, on_driver: str) -> None:
    assert name_on_driver(name) == on_driver
