"""What the pages of several browsers show."""

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

from edgetpu_dashboard.live.launcher import LaunchError
from edgetpu_dashboard.web.page import Page, node_title


@pytest.fixture
def view() -> Any:
    stopped = SimpleNamespace(running=False, triggers=(), has_picture=False, settings={})
    return SimpleNamespace(nodes={"camera": stopped, "looming": stopped})


@pytest.fixture
def pages(view: Any) -> Iterator[list[tuple[Client, Page]]]:
    """Two browsers that show the camera, with its panels only."""
    made = []
    for _ in range(2):
        client = Client(ui.page("/"), request=None)
        with client:
            page = Page(SimpleNamespace(calls=None, view=view))
            page.tabs = SimpleNamespace(value="actions")
            page.node = "camera"
            page.parameters(page)
            page.actions(page)
        made.append((client, page))
    yield made
    for client, _page in made:
        client.delete()


def texts(client: Client) -> list[str]:
    return [each.text for each in client.elements.values() if isinstance(each, ui.label)]


def press(client: Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press a button, and wait until what it does is done."""

    async def inside() -> None:
        monkeypatch.setattr(core, "loop", asyncio.get_running_loop())
        (button,) = (each for each in client.elements.values() if each.props.get("data-id") == name)
        (listener,) = button._event_listeners.values()
        button._handle_event({"listener_id": listener.id, "args": None})
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(inside())


def follow(client: Client, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page notice what has changed, as its timer does, and draw it."""

    async def draw() -> None:
        monkeypatch.setattr(core, "loop", asyncio.get_running_loop())
        with client:
            page.follow_node()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    monkeypatch.setattr(page, "show_live", lambda: None)
    monkeypatch.setattr(page, "_shown_state", (True, ()))
    asyncio.run(draw())


def test_another_node_is_shown_in_the_browser_that_chose_it_only(
    pages: list[tuple[Client, Page]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _), (second, page) = pages
    page.node = "looming"
    follow(second, page, monkeypatch)
    assert texts(first) == ["camera is not running"] * 2
    assert texts(second) == ["looming is not running"] * 2


def test_a_box_is_a_template_only_where_the_page_says_so(
    pages: list[tuple[Client, Page]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (client, page), _ = pages
    page.drag_does = "template"  # as on the page of the pattern tracker, which runs
    monkeypatch.setattr(page, "refresh", lambda: None)
    with client:
        page.select("looming")  # which does not
    assert page.drag_does == "region"


def test_a_notice_names_the_node_whose_button_was_pressed(
    pages: list[tuple[Client, Page]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (client, page), _ = pages
    said: list[str] = []
    monkeypatch.setattr(ui, "notify", lambda text, **_: said.append(text))

    def stop(_name: str) -> None:
        page.node = "looming"

    def check(name: str) -> None:
        raise LaunchError(f"{name} has ended with status 3")

    page.dashboard.launcher = SimpleNamespace(stop=stop, check=check)
    page.dashboard.start_node = lambda name: said.append(name)
    with client:
        node_title(page)
    press(client, "stop", monkeypatch)
    press(client, "start", monkeypatch)
    assert said == ["camera has stopped", "camera", "camera starts", "camera has ended with status 3"]


def test_a_node_without_a_package_cannot_be_started(
    pages: list[tuple[Client, Page]], view: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (client, page), _ = pages
    said: list[str] = []
    monkeypatch.setattr(ui, "notify", lambda text, **_: said.append(text))

    def start(name: str) -> None:
        raise LaunchError(f"no installed package offers a node {name}")

    page.dashboard.start_node = start
    with client:
        node_title(page)
    del view.nodes["camera"]
    press(client, "start", monkeypatch)
    assert said == ["no installed package offers a node camera"]


def test_a_node_that_is_gone_from_the_graph_does_not_run(
    pages: list[tuple[Client, Page]], view: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (client, page), _ = pages
    del view.nodes["camera"]
    follow(client, page, monkeypatch)
    assert texts(client) == ["camera is not running"] * 2
