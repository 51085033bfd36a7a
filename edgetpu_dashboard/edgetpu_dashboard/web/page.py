"""The page: nodes, the live picture, and what can be done with both."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from nicegui import ui

from edgetpu_dashboard.live.pictures import CAMERA_VIEW, Pixels, box_of
from edgetpu_dashboard.web.bag_control import bag_control
from edgetpu_dashboard.web.driver_panel import driver_panel, models_panel
from edgetpu_dashboard.web.node_panels import by_hand_panel, parameters_panel
from edgetpu_dashboard.web.told import told
from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.node_table import DRIVER

_VERSION = 3
"""Of the static files, so that no browser shows old ones."""
_GRAB_SECONDS = 5.0
_FOLLOW_PERIOD = 0.5
"""Seconds between two looks whether the node has a picture."""


class Page:
    """What one browser looks at."""

    def __init__(self, dashboard: Any) -> None:
        self.dashboard = dashboard
        self.calls = dashboard.calls
        self.view = dashboard.view
        self.node = self._first()
        self.shows_camera = False
        self._shown_view = ""
        self.drag_does = "template"

    @property
    def picture_view(self) -> str:
        """What the live picture shows: a node's debug image or the camera's."""
        viewed = self.view.nodes.get(self.node)
        has_picture = viewed is not None and viewed.has_picture
        return self.node if has_picture and not self.shows_camera else CAMERA_VIEW

    def select(self, node: str) -> None:
        """Show another node."""
        self.node = node
        self.refresh()

    def refresh(self) -> None:
        """Draw the panels of the node again."""
        self.show_live()
        node_title.refresh(self)
        parameters_panel.refresh(self)
        by_hand_panel.refresh(self)

    def show_live(self) -> None:
        """Have the browser connect to the stream of this node and view."""
        self._shown_view = self.picture_view
        ui.run_javascript(f"edgetpuLive.show({json.dumps(self.node)}, {json.dumps(self._shown_view)})")

    def follow_view(self) -> None:
        """Connect anew once the node has a picture, or has none any more."""
        if self.picture_view != self._shown_view:
            self.show_live()

    def look_at_camera(self, camera: bool) -> None:
        """Show the camera's images instead of the node's."""
        self.shows_camera = camera
        self.show_live()

    async def camera_picture(self) -> Pixels:
        """Return the next image of the camera; InputError if none comes."""
        tap = await self.calls.in_executor(lambda: self.view.look(CAMERA_VIEW))
        try:
            before = tap.number
            for _ in range(round(_GRAB_SECONDS / 0.02)):
                if tap.number > before:
                    return tap.picture()  # type: ignore[no-any-return]
                await asyncio.sleep(0.02)
        finally:
            await self.calls.in_executor(lambda: self.view.look_away(CAMERA_VIEW))
        raise InputError("no image came from the camera")

    async def on_click(self, rgb: tuple[int, int, int]) -> None:
        """Track the colour of the spot that was clicked."""
        if self.node != "spot_tracker":
            return
        async with told():
            ui.notify(await self.calls.set_color(self.node, rgb), type="positive")

    async def on_drag(self, corners: tuple[float, float, float, float]) -> None:
        """Make a box the template or the region."""
        async with told():
            picture = await self.camera_picture()
            box = box_of(corners, picture.shape[1], picture.shape[0])
            if self.drag_does == "template":
                text = await self.calls.set_template("pattern_tracker", picture, box)
            else:
                await self.calls.set_value(self.node, "roi", list(box))
                text = f"{self.node} looks at {box[2]} x {box[3]} px only"
            ui.notify(text, type="positive")

    def _first(self) -> str:
        running = [name for name, each in self.view.nodes.items() if each.running and name != DRIVER]
        return next(iter(sorted(running, key=lambda name: self.view.nodes[name].result is None)), DRIVER)


@ui.refreshable
def node_title(page: Page) -> None:
    """The name of the node, and what starts and stops it."""

    async def start() -> None:
        async with told():
            page.dashboard.start_node(page.node)
            ui.notify(f"{page.node} starts", type="positive")

    async def stop() -> None:
        async with told():
            await asyncio.to_thread(page.dashboard.launcher.stop, page.node)
            ui.notify(f"{page.node} has stopped", type="positive")

    with ui.row().classes("items-center w-full gap-2"):
        ui.label(page.node).classes("text-xl font-medium").mark("title")
        ui.html('<span id="state" class="state"></span>', sanitize=False)
        ui.space()
        ui.button("start", icon="play_arrow", on_click=start).props("flat dense data-id=start")
        ui.button("stop", icon="stop", on_click=stop).props("flat dense data-id=stop")


_HEAD = f"""
<link rel="stylesheet" href="/dashboard/live.css?v={_VERSION}">
<script src="/dashboard/live.js?v={_VERSION}"></script>
"""

_PICTURE = """
<div id="picture"><img id="live" alt="" draggable="false"><div id="box"></div>
<div id="nothing">waiting for pictures</div></div>
"""


def _header() -> None:
    with ui.header().classes("items-center bar gap-2 q-py-xs"):
        ui.icon("memory").classes("text-2xl")
        ui.label("Edge TPU").classes("text-lg font-medium")
        ui.html('<span id="connection" class="state">connecting</span>', sanitize=False)
        ui.space()
        for name, icon, text, call in (
            ("pause", "pause", "pause (space)", "edgetpuLive.pause()"),
            ("single", "skip_next", "one picture", "edgetpuLive.single()"),
            ("save", "photo_camera", "save the picture (s)", "edgetpuLive.save()"),
        ):
            button = ui.button(icon=icon).props(
                f"flat round dense color=white data-id={name} aria-label='{text}'"
            )
            button.tooltip(text)
            button.on("click", js_handler=f"() => {call}")


async def build_page(dashboard: Any) -> None:
    """Build the page for one browser."""
    page = Page(dashboard)
    ui.add_head_html(_HEAD)
    _header()
    with ui.element("div").classes("layout"):
        ui.html('<nav id="nodes"></nav>', sanitize=False).classes("nodes")
        with ui.element("main").classes("stage"):
            node_title(page)
            ui.html(_PICTURE, sanitize=False)
            with ui.row().classes("items-center gap-4 w-full"):
                ui.switch(CAMERA_VIEW, on_change=lambda event: page.look_at_camera(event.value)).props(
                    "dense data-id=camera_view"
                )
                ui.html('<span id="numbers"></span>', sanitize=False)
            bag_control(page)
            ui.html('<div id="curves"></div>', sanitize=False).classes("w-full")
        with ui.element("aside").classes("side"):
            _tabs(page)
    ui.on("select_node", lambda event: page.select(str(event.args)))
    ui.on("click_picture", lambda event: page.on_click(tuple(event.args[2:])))
    ui.on("drag_picture", lambda event: page.on_drag(tuple(event.args)))
    page.show_live()
    ui.timer(_FOLLOW_PERIOD, page.follow_view)


def _tabs(page: Page) -> None:
    with ui.tabs().props("dense no-caps align=left outside-arrows mobile-arrows").classes("w-full") as tabs:
        names = ("parameters", "by hand", "driver", "models", "diagnostics")
        for name in names:
            ui.tab(name).props(f"data-id=tab_{name.replace(' ', '_')}")
    with ui.tab_panels(tabs, value=names[0]).classes("w-full panels"):
        with ui.tab_panel(names[0]):
            parameters_panel(page)
        with ui.tab_panel(names[1]):
            by_hand_panel(page)
        with ui.tab_panel(names[2]):
            driver_panel(page)
        with ui.tab_panel(names[3]):
            models_panel(page)
        with ui.tab_panel(names[4]):
            diagnostics_panel(page)


def diagnostics_panel(page: Page) -> None:
    """What the nodes say of themselves, the worst first."""
    order = ("error", "warning", "stale", "ok")

    @ui.refreshable
    def entries() -> None:
        with page.view.lock:
            found = [
                each
                for viewed in page.view.nodes.values()
                if viewed.running
                for each in viewed.diagnostics.values()
            ]
        for each in sorted(found, key=lambda each: (order.index(each.level), each.name)):
            with ui.row().classes("w-full items-start gap-2 no-wrap diagnostic"):
                ui.element("span").classes(f"dot {each.level} q-mt-sm")
                with ui.column().classes("gap-0 grow"):
                    ui.label(each.name).classes("font-medium")
                    ui.label(each.message).classes("hint")

    entries()
    ui.timer(2.0, entries.refresh)
