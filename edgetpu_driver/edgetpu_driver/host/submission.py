"""Passes requests for models to the sticks, or to the steps of a whole model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError, UnavailableError
from edgetpu_driver.host.models.hosted_model import HostedModel, ModelState
from edgetpu_driver.host.requests.answers import answered
from edgetpu_driver.host.requests.request import Kind, Request
from edgetpu_driver.host.requests.request_terms import BULK_TERMS, RequestTerms
from edgetpu_driver.host.sticks.deadline_watch import DeadlineWatch
from edgetpu_driver.host.sticks.scheduler import Scheduler
from edgetpu_driver.host.whole_models.whole_models import (
    TensorInPartError,
    WholeModels,
    invoking,
    setting,
    target_part,
)
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

Done = Callable[[Any], None]
"""Called once with the answer or the error."""


class Submission:
    """Submits requests without waiting; each method raises refusals at once, see ModelHost."""

    def __init__(self, scheduler: Scheduler, whole: WholeModels) -> None:
        self._scheduler = scheduler
        self._whole = whole
        self._watch = DeadlineWatch(scheduler)

    def invoke(
        self,
        model: HostedModel,
        inputs: Mapping[str, NDArray[Any]],
        done: Done,
        terms: RequestTerms,
        part: int = 0,
        reset: bool = False,
    ) -> None:
        """Run a model once; part (only if the model is still being loaded), reset: see ModelHost."""
        request = Request.of(terms, model, Kind.INVOKE, invoking(model, inputs, part, reset), done)
        request.inputs, request.part, request.reset = inputs, part, reset
        self._submit(request, terms)

    def multiply(self, model: HostedModel, product: ProductRequest, done: Done, terms: RequestTerms) -> None:
        """Multiply by the weights of a model."""
        inferences = product.batch * product.passes
        request = Request.of(
            terms, model, Kind.MULTIPLY, lambda replica: replica.multiplying(product), done, inferences
        )
        self._submit(request, terms)

    def swap(
        self,
        model: HostedModel,
        weights: WeightRequest,
        done: Done,
        terms: RequestTerms = BULK_TERMS,
        part: int = 0,
    ) -> None:
        """Replace weights of a model; part: see ModelHost."""
        if model.state is ModelState.LOADED:
            target_part(model, Kind.SWAP, part)  # which raises at once

        def finish(outcome: WeightResult | EdgeTpuError) -> None:
            if isinstance(outcome, TensorInPartError):
                return answered(partial(self.swap, model, weights, terms=terms, part=outcome.part), done)
            if isinstance(outcome, WeightResult) and len(model.device_parts) > 1:
                outcome = replace(outcome, version=model.weights_version)  # of all parts, as in results
            return done(outcome)

        request = Request.of(terms, model, Kind.SWAP, setting(model, weights, part), finish)
        request.part = part
        self._submit(request, terms)

    def _submit(self, request: Request, terms: RequestTerms) -> None:
        model = request.model
        in_steps = model.state is ModelState.LOADED and bool(model.parts)
        try:
            (self._whole if in_steps else self._scheduler).submit(request)
        except UnavailableError:
            if in_steps or not model.parts:
                raise
            self._whole.take_over(request)  # it has been loaded meanwhile
        if terms.deadline > 0:
            self._watch.arm()
