"""The drivers of one process, several of which may have the same name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_driver.node_kit.clients import local_drivers

NAME = "/of_two"


@pytest.fixture
def two() -> Iterator[tuple[Any, Any]]:
    """Two drivers of the same name; the second was registered later."""
    first, second = object(), object()
    for each in (first, second):
        local_drivers.register(NAME, each)  # type: ignore[arg-type]
    yield first, second
    local_drivers.unregister(NAME)


def test_of_two_the_first_is_found(two: tuple[Any, Any]) -> None:
    assert local_drivers.find(NAME) is two[0]


def test_one_stays_registered_when_the_other_ends(two: tuple[Any, Any]) -> None:
    first, second = two
    local_drivers.unregister(NAME, second)
    assert local_drivers.find(NAME) is first
    local_drivers.unregister(NAME, first)
    assert local_drivers.find(NAME) is None


def test_a_driver_that_was_never_registered_can_end(two: tuple[Any, Any]) -> None:
    local_drivers.unregister(NAME, object())  # type: ignore[arg-type]
    assert local_drivers.find(NAME) is two[0]
