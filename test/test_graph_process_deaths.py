"""A model whose graph ends its process while it is attached, or while its weights are set again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from edgetpu_driver.errors import GraphProcessError, ModelUnsupportedError
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from fuzz.interleavings.fake_sticks import FakeBackend, FakeStick
from fuzz.interleavings.host_on_fake_sticks import INPUTS, WEIGHTS, Stage

DEATH = "the process that runs the graph died of SIGKILL"
AGAIN = f"model 'a' cannot run at present: {DEATH}; its graph is loaded again after a pause"


class Dying(FakeBackend):
    """A backend whose graphs end their processes, as when memory is short."""

    deaths = 0
    """Deaths to come while engines are made."""
    deaths_with_weights = 0
    """Deaths to come while weights are set."""

    def __init__(self, stick: FakeStick) -> None:
        super().__init__(stick)
        self.attempts: list[float] = []
        """Times at which engines were wanted, s."""

    def attach(self, model: Any) -> Any:
        self.attempts.append(self.stick.controller.now)
        if self.deaths:
            self.deaths -= 1
            raise GraphProcessError(DEATH)
        engine = super().attach(model)
        prepare = engine.prepare_weights

        def prepare_or_die(request: Any) -> Any:
            if self.deaths_with_weights:
                self.deaths_with_weights -= 1
                raise GraphProcessError(DEATH)
            return prepare(request)

        engine.prepare_weights = prepare_or_die  # type: ignore[method-assign]
        return engine


def refusal(host: ModelHost) -> GraphProcessError:
    """The error of a request for the model."""
    answers: list[Any] = []
    with pytest.raises(GraphProcessError) as caught:
        host.submit_invoke("a", INPUTS, answers.append)
    return caught.value


def on(stage: Stage, work: Callable[[ModelHost, Dying], None]) -> None:
    """Run `work` with a host that has loaded the model."""

    def with_host() -> None:
        backend = Dying(stage.sticks[0])
        host = stage.make_host(backends=[backend])
        host.load("a")
        work(host, backend)

    stage.run(with_host)


def test_after_two_deaths_requests_get_the_reason_and_that_it_is_tried_again(stage: Stage) -> None:
    def work(host: ModelHost, backend: Dying) -> None:
        backend.deaths = 2
        host.connect()
        assert str(refusal(host)) == AGAIN
        assert (host.model("a").unsupported_reason, host.model("a").message) == ("", DEATH)

    on(stage, work)


def test_it_runs_again_a_second_after_two_deaths(stage: Stage) -> None:
    def work(host: ModelHost, backend: Dying) -> None:
        backend.deaths = 2
        host.connect()
        stage.controller.sleep(1.1)
        assert isinstance(host.invoke("a", INPUTS), InferenceResult)
        assert host.model("a").message == ""

    on(stage, work)


def test_the_pauses_double(stage: Stage) -> None:
    def work(host: ModelHost, backend: Dying) -> None:
        backend.attempts, backend.deaths = [], 1000
        host.connect()
        stage.controller.sleep(3600.0)
        pauses = [round(after - before) for before, after in pairwise(backend.attempts)]
        assert pauses == [0, 1, 2, 4, 8, 16, 32, 64]

    on(stage, work)


def test_a_graph_that_always_ends_its_process_cannot_run_in_the_end(stage: Stage) -> None:
    def work(host: ModelHost, backend: Dying) -> None:
        backend.deaths = 1000
        host.connect()
        stage.controller.sleep(3600.0)
        assert host.model("a").unsupported_reason == DEATH
        with pytest.raises(ModelUnsupportedError, match=f"^model 'a' cannot run here: {DEATH}$"):
            host.invoke("a", INPUTS)

    on(stage, work)


def test_a_client_that_loads_it_meanwhile_need_not_wait(stage: Stage) -> None:
    def work(host: ModelHost, backend: Dying) -> None:
        backend.deaths = 2
        host.connect()
        host.load("a")
        assert isinstance(host.invoke("a", INPUTS), InferenceResult)

    on(stage, work)


def test_weights_that_could_not_be_set_again_are_in_effect_later(stage: Stage) -> None:
    def work(host: ModelHost, backend: Dying) -> None:
        host.set_weights("a", WEIGHTS)
        expected = host.invoke("a", INPUTS).outputs["y"].tolist()
        backend.deaths_with_weights = 2
        host.connect()
        stage.until(lambda: not backend.deaths_with_weights)
        stage.controller.sleep(0.1)
        assert str(refusal(host)) == AGAIN
        stage.controller.sleep(1.5)
        result = host.invoke("a", INPUTS)
        assert (result.weights_version, result.outputs["y"].tolist()) == (1, expected)
        assert stage.sticks[0].attached == 1

    on(stage, work)


def test_another_stick_runs_it_meanwhile(stage: Stage) -> None:
    def work() -> None:
        backends = [Dying(stick) for stick in stage.sticks]
        host = stage.make_host(backends=backends)
        backends[0].deaths = 2
        host.load("a")
        assert isinstance(host.invoke("a", INPUTS), InferenceResult)
        assert host.model("a").message == ""

    stage.run(work)
