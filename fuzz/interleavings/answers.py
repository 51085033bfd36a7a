"""Requests to a host, and checks of their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError, ModelNotFoundError
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.weights.weight_request import WeightRequest
from fuzz.interleavings.fake_models import FakeStep, matrices_of, run_steps
from fuzz.interleavings.fake_sticks import INPUT, SIZE, weights_of

_ROUNDING = 0.06
"""Largest error of a product, per column."""


@dataclass(eq=False)
class Call:
    """One request and its answers."""

    kind: str
    name: str
    argument: Any = None
    at_least: int = 0
    """Version of the weights that were in effect when the request was submitted."""
    model: HostedModel | None = None
    """The model that it used; None if it may have been another model of the same name."""
    answers: list[Any] = field(default_factory=list)
    refused: bool = False

    @property
    def pending(self) -> bool:
        """Whether the request waits for an answer."""
        return not (self.answers or self.refused)


class Answers:
    """All requests of a run."""

    def __init__(self, models: Mapping[str, Sequence[FakeStep]]) -> None:
        """models: the steps of each model, by the SHA-256 of its files."""
        self.calls: list[Call] = []
        self._models = models
        self._newest: dict[HostedModel, int] = {}

    def submit(
        self,
        kind: str,
        name: str,
        find: Callable[[str], HostedModel],
        begin: Callable[[Callable[[Any], None]], object],
        argument: Any = None,
    ) -> Call:
        """Submit a request, which may be refused, and record its answer."""
        call = Call(kind, name, argument)

        def model() -> HostedModel | None:
            try:
                return find(name)
            except EdgeTpuError:
                return None

        def done(answer: Any) -> None:
            call.answers.append(answer)
            if kind == "set_weights" and call.model is not None and not isinstance(answer, Exception):
                self._newest[call.model] = max(self._newest.get(call.model, 0), answer.version)

        before = model()
        if before is not None:
            call.at_least = self._newest.get(before, 0)
        self.calls.append(call)
        try:
            begin(done)
        except EdgeTpuError:
            call.refused = True
        if before is not None and model() is before:
            call.model = before
        return call

    def check(self) -> None:
        """Raise AssertionError for any wrong answer."""
        for call in self.calls:
            what = f"{call.kind} of '{call.name}'"
            assert len(call.answers) <= 1, f"{what} was answered {len(call.answers)} times"
            assert not (call.refused and call.answers), f"{what} was refused and answered"
            assert not call.pending, f"{what} was not answered"
            for answer in call.answers:
                if isinstance(answer, Exception):
                    assert isinstance(answer, EdgeTpuError), f"{what} was answered {answer!r}"
                    assert "unexpected" not in str(answer), f"{what} was answered {answer!r}"
                elif call.kind == "invoke":
                    self._check_output(call, answer)
                elif call.kind == "multiply":
                    self._check_product(call, answer)

    def _weights(self, call: Call, version: int) -> list[WeightRequest]:
        """The requests that may have set weights `version`, including those that found the model unloaded."""
        return [
            each.argument
            for each in self.calls
            if (each.kind, each.name) == ("set_weights", call.name)
            and each.answers
            and (
                getattr(each.answers[0], "version", 0) == version
                or isinstance(each.answers[0], ModelNotFoundError)
            )
        ]

    def _check_version(self, call: Call, version: int) -> None:
        if call.model is not None:
            assert version >= call.at_least, f"{call.kind}: old weights {version} after {call.at_least}"

    def _check_output(self, call: Call, answer: Any) -> None:
        version, steps = answer.weights_version, self._models[answer.model_sha256]
        self._check_version(call, version)
        if answer.part:
            steps = [[step for step in steps if step.on_device][answer.part - 1]]
        possible: list[NDArray[np.int8] | None] = [None]
        if version:
            possible = [weights_of(each) for each in self._weights(call, version) if fits(each)]
        outputs = [run_steps(steps, call.argument, weights) for weights in possible]
        right = any(np.array_equal(output, answer.outputs["y"]) for output in outputs)
        assert right, f"invoke of '{call.name}': wrong output for weights {version}"

    def _check_product(self, call: Call, answer: Any) -> None:
        version, vector = answer.weights_version, call.argument
        self._check_version(call, version)
        if version:
            matrices = [each.weights for each in self._weights(call, version)]
        else:
            matrices = [each for steps in self._models.values() for each in matrices_of(steps)]
        matrices = [matrix for matrix in matrices if matrix.shape == (answer.outputs.size, vector.size)]
        errors = [np.abs(matrix @ vector - answer.outputs).max() for matrix in matrices]
        right = min(errors, default=np.inf) < _ROUNDING * vector.size
        assert right, f"multiply by '{call.name}': off by {errors} for weights {version}"


def fits(request: WeightRequest) -> bool:
    """Whether weights fit into one tile."""
    return all(size <= SIZE for size in request.weights.shape)


def random_input(random: np.random.Generator) -> NDArray[np.int8]:
    """A random input of an inference: int8[1, SIZE]."""
    return random.integers(-127, 128, INPUT.shape, np.int8)
