"""Which requests a stick can run, and which no stick can."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from edgetpu_driver.errors import EdgeTpuError, GraphProcessError, ModelUnsupportedError, UnavailableError
from edgetpu_driver.host.models.hosted_model import HostedModel, ModelState, Swap
from edgetpu_driver.host.models.model_replica import Reader
from edgetpu_driver.host.requests.request import Kind, Lane, Request
from edgetpu_driver.host.sticks.stick_slot import StickSlot

PRODUCTS_AT_ONCE = 2
"""Products with one model that a client may have in progress on a stick. Derived: while the arithmetic of one
is done on the host, the stick works on the other."""


def can_run(slot: StickSlot, lane: Lane) -> bool:
    """Whether a stick can run the requests of a lane as soon as it is free.

    A stick runs a model only with the weights in effect. While a swap that began on it is in progress, it
    still runs inferences, whose weights only the last piece of the swap replaces, but no products, whose
    weights are replaced tile by tile. A client has at most PRODUCTS_AT_ONCE in progress, so that these end
    however many follow; see also `_may_join`.
    """
    if lane.begun or lane.stick not in (None, slot.number):
        return lane.stick == slot.number
    model = lane.model
    replica = model.replicas.get(slot.number)
    if replica is None or replica.engine is None or not slot.serving:
        return False
    if lane.kind is Kind.UPDATE:
        return not (replica.reading or replica.writing)
    if replica.version != model.weights_version:
        return False
    if lane.kind is not Kind.INVOKE and replica.writing:
        return False
    if lane.kind is Kind.SWAP:
        return not replica.reading and model.requests.swap is None
    if lane.kind is Kind.MULTIPLY:
        of_client = sum(each.client == lane.client for each in replica.readers)
        if replica.preparing or of_client >= PRODUCTS_AT_ONCE:
            return False
        return _may_join(lane.priority, replica.readers, model.requests.swaps_waiting)
    return True


def _may_join(priority: int, under_way: Collection[Reader], swaps: Collection[Swap]) -> bool:
    """Whether a product may begin beside those in progress, although swaps wait for their end.

    It may if it is more urgent than every swap, and if the most urgent swap has to wait anyway for a product
    that is not more urgent than itself. So a swap keeps its turn, and no urgent product waits for a long one.
    """
    if not (under_way and swaps):
        return True
    swap = min(each.priority for each in swaps)
    return priority < swap <= max(each.priority for each in under_way)


def unsupported(model: HostedModel) -> ModelUnsupportedError:
    """The answer to requests for a model that has an `unsupported_reason`."""
    return ModelUnsupportedError(f"model '{model.name}' cannot run here: {model.unsupported_reason}")


def refusal(
    model: HostedModel, slots: Sequence[StickSlot], unavailable_reason: Callable[[], str]
) -> EdgeTpuError | None:
    """Why requests for a model cannot be run; None if they can, now or once it is loaded."""
    if model.state is ModelState.FAILED:
        return model.failure
    if model.unsupported_reason:
        return unsupported(model)
    serving = [slot for slot in slots if slot.serving]
    if model.state is ModelState.LOADED:
        serving = [slot for slot in serving if slot.number in model.replicas]
        replicas = [model.replicas[slot.number] for slot in serving]
        deaths = [replica.death for replica in replicas if replica.death]
        reasons = [replica.unsupported_reason for replica in replicas if replica.unsupported_reason]
        if deaths and len(deaths) + len(reasons) == len(replicas):
            return GraphProcessError(
                f"model '{model.name}' cannot run at present: {deaths[0]}; its graph is loaded again after a "
                "pause"
            )
        if replicas and len(reasons) == len(replicas):  # another stick, which is absent now, can run it
            return UnavailableError(f"no device that can run model '{model.name}': {reasons[0]}")
    return None if serving else UnavailableError(f"no device: {unavailable_reason()}")


def is_pointless(request: Request) -> bool:
    """Whether a request sets weights on a stick that no longer holds the model."""
    if request.kind is not Kind.UPDATE or request.lane.begun or request.stick is None:
        return False
    replica = request.model.replicas.get(request.stick)
    return replica is None or replica.engine is None
