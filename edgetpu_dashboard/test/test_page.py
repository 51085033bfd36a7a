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

from edgetpu_dashboard.web.page import Page


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


def test_a_node_that_is_gone_from_the_graph_does_not_run(
    pages: list[tuple[Client, Page]], view: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (client, page), _ = pages
    del view.nodes["camera"]
    follow(client, page, monkeypatch)
    assert texts(client) == ["camera is not running"] * 2
