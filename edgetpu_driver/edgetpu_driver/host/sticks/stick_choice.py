"""Which of several sticks takes a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from edgetpu_driver.host.sticks.stick_slot import StickSlot

if TYPE_CHECKING:
    from edgetpu_driver.host.models.hosted_model import HostedModel


class Queued(NamedTuple):
    """The requests that wait while a stick is chosen."""

    requests: int
    """Number of requests, including the one that is to be assigned."""
    now: float
    """Present time, s."""


def may_take(slot: StickSlot, model: HostedModel, candidates: Sequence[StickSlot], queued: Queued) -> bool:
    """Whether a free stick may take a request for a model, or should leave it to another one.

    candidates: all sticks that can run the request once they are free. A hot stick leaves it to cooler sticks
    unless more requests wait than these can begin. A stick that would have to upload the parameters leaves it
    to a busy stick that has them and would finish earlier; a simulated stick leaves it to sticks that finish
    earlier by their own clocks.
    """
    upload = slot.upload_seconds(model)
    others = [other for other in candidates if other is not slot and not other.is_stuck(queued.now)]
    cool = sum(not other.throttled for other in others)
    for other in others:
        if slot.throttled != other.throttled:
            if slot.throttled and (other.idle or queued.requests <= cool):
                return False
        elif slot.simulated_time is not None:
            if other.load() + other.upload_seconds(model) < slot.load() + upload:
                return False
        elif upload and other.running is not None and not other.upload_seconds(model):
            wait = other.remaining(queued.now) + (queued.requests - 1) * model.expected.engine
            if wait < upload:
                return False
    return True


def best_of(idle: Sequence[StickSlot], model: HostedModel) -> StickSlot:
    """The idle stick that should run a request for a model.

    A cool one if there is one; among those, the one that finishes first, including an upload.
    """
    return min(idle, key=lambda slot: (slot.throttled, slot.load() + slot.upload_seconds(model), slot.number))
