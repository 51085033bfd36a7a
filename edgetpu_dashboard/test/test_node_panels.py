"""The panels of a node that anybody may have written."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="NiceGUI is not installed: tools/run.sh tools/install_extra.sh live")
pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from nicegui import Client, core, ui

from edgetpu_dashboard.nodes.graph_calls import RefusedError, ShownParameter
from edgetpu_dashboard.web.page import Page

MARKUP = "a innerHTML='<img src=x onerror=alert(1)>'"


class Calls:
    """A node with some parameters, all of whose new values it refuses."""

    def __init__(self) -> None:
        self.shown: list[ShownParameter] = []

    async def parameters(self, _node: str) -> list[ShownParameter]:
        return self.shown

    async def set_value(self, _node: str, name: str, _value: Any) -> Any:
        raise RefusedError(f"{name}: not now")


class Panel:
    """The panel of the parameters of a running node."""

    def __init__(self, client: Client, calls: Calls) -> None:
        self._client, self._calls = client, calls
        node = SimpleNamespace(running=True, triggers=(), has_picture=False, settings={})
        with client:
            page = Page(SimpleNamespace(calls=calls, view=SimpleNamespace(nodes={"own": node})))
            page.node = "own"
            page.parameters(page)

    def look(self, *shown: ShownParameter) -> None:
        """Have the panel ask for the parameters of the node."""
        self._calls.shown = [*shown]
        (timer,) = (each for each in self._client.elements.values() if isinstance(each, ui.timer))
        assert timer.callback is not None
        self.run(timer.callback())

    def run(self, work: Any) -> None:
        """Run a coroutine as the server does."""

        async def inside() -> None:
            core.loop = asyncio.get_running_loop()
            with self._client:
                await work

        asyncio.run(inside())

    def press(self, control: Any) -> None:
        """Have the server take the value that a control has got from the user."""
        *_, listener = (each for each in control._event_listeners.values() if "model" in each.type)

        async def inside() -> None:
            control._handle_event({"listener_id": listener.id, "args": None})
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

        self.run(inside())

    def elements(self, kind: Any) -> list[Any]:
        return [each for each in self._client.elements.values() if isinstance(each, kind)]

    def texts(self) -> list[str]:
        return [each.text for each in self.elements(ui.label) if each.visible]


@pytest.fixture
def panel() -> Iterator[Panel]:
    client = Client(ui.page("/"), request=None)
    yield Panel(client, Calls())
    client.delete()


def parameter(name: str, value: Any, choices: tuple[str, ...] = ()) -> ShownParameter:
    return ShownParameter(name, value, "", "", choices, read_only=False)


@pytest.mark.parametrize("value", [1.0, True])
def test_a_name_is_text_and_no_markup(panel: Panel, value: Any) -> None:
    panel.look(parameter(MARKUP, value))
    properties = [dict(each.props) for each in panel.elements(ui.element)]
    assert not any("innerHTML" in each for each in properties)
    assert {each.get("data-id") for each in properties} - {None} == {f"parameter_{MARKUP}", f"input_{MARKUP}"}


def test_a_value_that_was_set_elsewhere_is_shown(panel: Panel) -> None:
    shown = [parameter("unset", None), parameter("text", "a"), parameter("mode", "one", ("one", "two"))]
    panel.look(*shown)
    assert "empty" in panel.texts()
    panel.look(parameter("unset", "set"), parameter("text", "b"), parameter("mode", "two", ("one", "two")))
    assert "set" in panel.texts()
    assert [each.value for each in panel.elements(ui.input | ui.select)] == ["two", "b"]


def test_what_is_typed_stays_while_the_value_does(panel: Panel) -> None:
    panel.look(parameter("limit", math.nan))
    (field,) = panel.elements(ui.input)
    field.value = "0."
    panel.look(parameter("limit", math.nan))
    assert field.value == "0."


@pytest.mark.parametrize(("value", "wanted", "choices"), [(False, True, ()), ("one", "two", ("one", "two"))])
def test_a_switch_and_a_menu_go_back_when_the_node_refuses(
    panel: Panel, value: Any, wanted: Any, choices: tuple[str, ...]
) -> None:
    panel.look(parameter("mode", value, choices))
    (control,) = panel.elements(ui.switch | ui.select)
    control.value = wanted
    panel.press(control)
    assert control.value == value
    assert "mode: not now" in panel.texts()
