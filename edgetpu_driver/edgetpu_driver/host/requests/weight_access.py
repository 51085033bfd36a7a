"""Marks models and replicas whose weights are in use: products read the weights, swaps write them.

`stick_eligibility.can_run` reads these marks. All functions must be called with the scheduler's lock held.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from edgetpu_driver.errors import ModelNotFoundError
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.model_replica import ModelReplica
from edgetpu_driver.host.requests.request import Kind, Request, Work
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult


def note_waiting(request: Request) -> None:
    """Note that a request waits."""
    if request.kind is Kind.SWAP and request.work is None:
        request.model.requests.swaps_waiting.add(request)


def note_taken(request: Request) -> None:
    """Note that a request no longer waits."""
    if request.kind is Kind.SWAP and request.work is None:
        request.model.requests.swaps_waiting.discard(request)


def begin(request: Request, replica: ModelReplica) -> None:
    """Start a request on a replica."""
    if request.kind is Kind.SWAP:
        request.model.requests.swap = request
    if request.kind is Kind.MULTIPLY:
        replica.readers.append(request)
    elif request.kind is not Kind.INVOKE:
        replica.writing = True
    request.work = Work(replica, request.begin(replica))


def end(request: Request) -> None:
    """Note that a running request has ended, or will be started again."""
    known, work = request.model.requests, request.work
    if known.swap is request:
        known.swap = None
    if work is None:
        return
    if request.kind is Kind.MULTIPLY:
        with suppress(ValueError):  # the stick was lost
            work.replica.readers.remove(request)
    elif request.kind is not Kind.INVOKE:
        work.replica.writing = False


def record(
    model: HostedModel, replica: ModelReplica, request: WeightRequest, result: WeightResult
) -> WeightResult | ModelNotFoundError:
    """Put weights that a replica has taken into effect; returns the answer to the request."""
    version = model.weights.record(request)
    replica.version, replica.weights = version, request
    if model.unloaded:  # requests that wait still run, now with these weights
        return ModelNotFoundError(f"model '{model.name}' was unloaded before its new weights were in effect")
    return replace(result, version=version)
