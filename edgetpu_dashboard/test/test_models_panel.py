"""The panel of the models of the driver."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="NiceGUI is not installed: tools/run.sh tools/install_extra.sh live")
pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from nicegui import Client, core, ui

from edgetpu_dashboard.web.driver_panel import models_panel
from edgetpu_driver.errors import UnavailableError
from edgetpu_msgs.msg import ModelInfo

SILENT = "/edgetpu/list_models did not answer within 10 s"


class Panel:
    """The panel, with a driver that has the models of the list `loaded`, or does not answer if it is None."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.loaded: list[str] | None = []
        self.weights_version = 0
        self.waited = False
        """Whether the button showed that it waits while a model was loaded."""
        with client:
            models_panel(SimpleNamespace(calls=self))

    async def models(self) -> Any:
        if self.loaded is None:
            raise UnavailableError(SILENT)
        models = [ModelInfo(name=each, weights_version=self.weights_version) for each in self.loaded]
        return SimpleNamespace(models=models, available=[])

    async def load_model(self, model: str, _name: str) -> str:
        self.waited = self.waits()
        raise UnavailableError(f"{model} is not there")

    def button(self, name: str = "load_model") -> Any:
        """The button of that name; by default the one that loads a model."""
        buttons = [each for each in self._client.elements.values() if isinstance(each, ui.button)]
        (found,) = (each for each in buttons if each.props.get("data-id") == name)
        return found

    def waits(self) -> bool:
        return "loading" in self.button().props

    def look(self) -> list[str]:
        """Have the panel ask for the models; return its texts."""
        (timer,) = (each for each in self._client.elements.values() if isinstance(each, ui.timer))
        assert timer.callback is not None
        callback = timer.callback
        self.run(lambda: callback())
        return [each.text for each in self._client.elements.values() if isinstance(each, ui.label)]

    def press(self) -> None:
        """Press the button, and wait until what it does is done."""

        async def pressed() -> None:
            button = self.button()
            (listener,) = button._event_listeners.values()
            button._handle_event({"listener_id": listener.id, "args": None})
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

        self.run(pressed)

    def run(self, work: Any) -> None:
        """Run a coroutine as the server does."""

        async def inside() -> None:
            core.loop = asyncio.get_running_loop()
            with self._client:
                await work()

        asyncio.run(inside())


@pytest.fixture
def panel() -> Iterator[Panel]:
    client = Client(ui.page("/"), request=None)
    yield Panel(client)
    client.delete()


def test_a_driver_without_models_has_none(panel: Panel) -> None:
    assert "no model is loaded" in panel.look()


def test_a_driver_that_does_not_answer_is_not_said_to_have_no_models(panel: Panel) -> None:
    panel.loaded = ["mine"]
    assert "mine" in panel.look()
    panel.loaded = None
    texts = panel.look()
    assert SILENT in texts
    assert not {"mine", "no model is loaded"} & {*texts}
    panel.loaded = ["mine"]
    texts = panel.look()
    assert "mine" in texts
    assert SILENT not in texts


def test_the_button_of_a_model_stays_while_its_weights_and_other_models_change(panel: Panel) -> None:
    panel.loaded = ["other", "mine"]
    panel.look()
    button = panel.button("unload_mine")
    panel.loaded, panel.weights_version = ["mine", "new"], 2
    texts = panel.look()
    assert panel.button("unload_mine") is button
    assert "0 bytes, on the CPU, weights version 2" in texts
    assert "other" not in texts


def test_a_button_shows_that_it_waits_for_the_answer(panel: Panel) -> None:
    panel.press()
    assert panel.waited
    assert not panel.waits()
