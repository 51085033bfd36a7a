"""The page: the nodes, their live pictures, and panels for one node and for the driver."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Sequence
from typing import Any

from nicegui import ui

from edgetpu_dashboard.live.diagnostic_readings import SEVERITY
from edgetpu_dashboard.live.picture_encoding import CAMERA_VIEW, Pixels
from edgetpu_dashboard.live.picture_selection import box_of, color_at
from edgetpu_dashboard.web.bag_control import bag_control
from edgetpu_dashboard.web.driver_panel import driver_panel, models_panel
from edgetpu_dashboard.web.error_notice import errors_shown
from edgetpu_dashboard.web.node_panels import actions_panel, parameters_panel, picture_hint
from edgetpu_dashboard.web.stream import OVERVIEW
from edgetpu_driver.errors import InputError

_VERSION = 17
"""Version of the static files, so that no browser uses old ones."""
_NODE_TABS, _GRAPH_TAB = ("parameters", "actions"), "driver"
"""The panels of one node, and the panel that is also in the overview."""
_NODE_TAB = "actions"
"""The panel that is opened with a node."""
_START_WATCHED, _START_PERIOD = 10.0, 0.2
"""Seconds for which a started node is watched, as its start may fail, and between two checks."""
_FOLLOW_PERIOD = 0.5
"""Seconds between two checks of whether the node runs and has a picture."""


class Page:
    """The page in one browser, which shows one node or the pictures of all nodes."""

    def __init__(self, dashboard: Any) -> None:
        self.dashboard = dashboard
        self.calls = dashboard.calls
        self.view = dashboard.view
        self.key = secrets.token_urlsafe(8)
        """Key by which the stream finds the page."""
        self.node = OVERVIEW
        self.image: Pixels | None = None
        """The image under the picture that the browser shows."""
        self.shows_camera = False
        self._shown_view = ""
        self._shown_state: tuple[bool, tuple[str, ...]] = False, ()
        self.drag_does = "region"
        self.tabs: Any = None
        """The tabs of the panels."""
        # One for each page: refreshing one that all pages share would draw this page in every browser.
        self.stage = ui.refreshable(stage)
        self.parameters = ui.refreshable(parameters_panel)
        self.actions = ui.refreshable(actions_panel)

    @property
    def picture_view(self) -> str:
        """The view: the pictures of all nodes, those of one with its overlay, or the camera's."""
        if self.node == OVERVIEW:
            return OVERVIEW
        return self.node if self.has_picture and not self.shows_camera else CAMERA_VIEW

    @property
    def has_picture(self) -> bool:
        """Whether the node has pictures of its own; for others the camera's are shown."""
        viewed = self.view.nodes.get(self.node)
        return viewed is not None and viewed.has_picture

    def select(self, node: str) -> None:
        """Show another node, or the overview."""
        before, self.node = self.node, node if node in self.view.nodes else OVERVIEW
        self.drag_does = "region"  # unless its actions say otherwise
        if before == OVERVIEW and self.tabs.value == _GRAPH_TAB:
            self.tabs.value = _NODE_TAB
        elif self.node == OVERVIEW and self.tabs.value in _NODE_TABS:
            self.tabs.value = _GRAPH_TAB
        self.refresh()

    def refresh(self) -> None:
        """Draw the panels of the node again."""
        self.show_live()
        self.stage.refresh()
        self._refresh_panels()

    def _refresh_panels(self) -> None:
        """Draw the parameters and the actions of the node again."""
        self._shown_state = self._state()
        self.parameters.refresh()
        self.actions.refresh()

    def _state(self) -> tuple[bool, tuple[str, ...]]:
        """Whether the node runs, and its services without arguments."""
        viewed = self.view.nodes.get(self.node)
        return (viewed.running, viewed.triggers) if viewed is not None else (False, ())

    def show_live(self) -> None:
        """Connect the browser to the stream of this node and view."""
        self._shown_view = self.picture_view
        self.image = None
        shown = {"page": self.key, "node": self.node, "view": self._shown_view}
        ui.run_javascript(f"edgetpuLive.show({json.dumps(shown)})")

    def follow_node(self) -> None:
        """Show that the node has started or stopped, or has begun or ceased to have pictures."""
        if self.picture_view != self._shown_view:
            self.show_live()
        if self._state() != self._shown_state:
            self._refresh_panels()

    def look_at_camera(self, camera: bool) -> None:
        """Show the camera's images instead of the node's."""
        self.shows_camera = camera
        self.show_live()

    async def watch_start(self, node: str) -> None:
        """Wait until a node that was started from here has had time to start; LaunchError if it ends."""
        for _ in range(round(_START_WATCHED / _START_PERIOD)):
            await asyncio.sleep(_START_PERIOD)
            self.dashboard.launcher.check(node)

    def has_region(self) -> bool:
        """Whether the node can process only a part of the image."""
        viewed = self.view.nodes.get(self.node)
        return viewed is not None and "roi" in viewed.settings

    async def set_region(self, box: tuple[int, int, int, int]) -> None:
        """Let the node process a part of the image: x, y, width and height, px; zeros: all of it."""
        node = self.node
        await self.calls.set_value(node, "roi", list(box))
        await self.note_region(node, box)

    async def note_region(self, node: str, box: Sequence[int]) -> None:
        """Outline, in the picture of a node, the part of the image that it processes."""
        await self.calls.in_executor(lambda: self.view.set_region(node, box))

    async def on_click(self, column: float, row: float) -> None:
        """Track the colour of the spot that was clicked, as the camera sees it."""
        if self.node != "spot_tracker":
            return
        async with errors_shown():
            rgb = color_at(self._image(), column, row)
            ui.notify(await self.calls.set_color(self.node, rgb), type="positive")

    async def on_drag(self, corners: tuple[float, float, float, float]) -> None:
        """Make a box the template or the region."""
        if not self.has_region():
            return
        async with errors_shown():
            image = self._image()
            box = box_of(corners, image.shape[1], image.shape[0])
            if self.drag_does == "template":
                text = await self.calls.set_template("pattern_tracker", image, box)
            else:
                await self.set_region(box)
                text = f"{self.node} processes {box[2]} x {box[3]} px only"
            ui.notify(text, type="positive")

    def _image(self) -> Pixels:
        if self.image is None:
            raise InputError("expected a picture of the camera; none is shown yet")
        return self.image


def node_title(page: Page) -> None:
    """The name of the node, with buttons to start and stop it."""
    node = page.node  # the user may choose another one meanwhile

    async def start() -> None:
        async with errors_shown():
            viewed = page.view.nodes.get(node)
            if viewed is not None and viewed.running:
                raise InputError(f"{node} is already running")
            page.dashboard.start_node(node)
            ui.notify(f"{node} starts", type="positive")
            await page.watch_start(node)

    async def stop(event: Any) -> None:
        async with errors_shown(event.sender):
            await asyncio.to_thread(page.dashboard.launcher.stop, node)
            ui.notify(f"{node} has stopped", type="positive")

    with ui.row().classes("items-center w-full gap-2"):
        ui.label(node).classes("text-xl font-medium title")
        ui.html('<span id="state" class="state"></span>', sanitize=False)
        ui.space()
        ui.button("start", icon="play_arrow", on_click=start).props(
            "flat dense no-caps data-id=start aria-label=start"
        )
        ui.button("stop", icon="stop", on_click=stop).props("flat dense no-caps data-id=stop aria-label=stop")


_HEAD = f"""
<link rel="stylesheet" href="/dashboard/live.css?v={_VERSION}">
<script src="/dashboard/curves.js?v={_VERSION}"></script>
<script src="/dashboard/live.js?v={_VERSION}"></script>
"""

_PICTURE = """
<div id="picture" class="{}"><img id="live" alt="" draggable="false">
<div id="nothing">waiting for pictures</div><div id="box"></div></div>
"""
_TAKES = "takes"
"""Class of a picture in which something can be clicked or dragged; others scroll with the page."""
_POSITIVE = "#2a7d52"
"""Background of notices of success, dark enough for white text; NiceGUI's is lighter."""


def _header() -> None:
    with ui.header().classes("items-center bar gap-2 q-py-xs"):
        ui.icon("memory").classes("text-2xl")
        ui.label("Edge TPU").classes("text-lg font-medium")
        ui.html('<span id="connection" class="state" role="status">connecting</span>', sanitize=False)
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


def build_page(dashboard: Any) -> Page:
    """Build the page for one browser."""
    page = Page(dashboard)
    ui.add_head_html(_HEAD)
    ui.colors(positive=_POSITIVE)
    _header()
    with ui.element("div").classes("layout"):
        ui.html('<nav id="nodes" aria-label="nodes"></nav>', sanitize=False).classes("nodes")
        with ui.element("main").classes("stage"):
            page.stage(page)
        with ui.element("aside").classes("side"):
            _tabs(page)
    ui.on("select_node", lambda event: page.select(str(event.args)))
    ui.on("click_picture", lambda event: page.on_click(*event.args))
    ui.on("drag_picture", lambda event: page.on_drag(tuple(event.args)))
    page.show_live()
    ui.timer(_FOLLOW_PERIOD, page.follow_node)
    return page


def stage(page: Page) -> None:
    """The pictures of all nodes, or the picture and the results of one."""
    if page.node == OVERVIEW:
        ui.label("Overview").classes("text-xl font-medium title")
        ui.label("Click a picture to open its node.").classes("hint")
        ui.html('<div id="tiles"></div>', sanitize=False).classes("w-full")
        bag_control(page)
        return
    node_title(page)
    hint = picture_hint(page)
    ui.html(_PICTURE.format(_TAKES if hint else ""), sanitize=False)
    with ui.row().classes("items-center gap-4 w-full"):
        switch = ui.switch(
            CAMERA_VIEW, value=page.shows_camera, on_change=lambda event: page.look_at_camera(event.value)
        ).props("dense data-id=camera_view")
        switch.bind_visibility_from(page, "has_picture")
        ui.html('<span id="numbers"></span>', sanitize=False)
    ui.html('<span id="problem" role="status"></span>', sanitize=False)
    if hint:
        ui.label(hint).classes("hint").props("data-id=picture_hint")
    bag_control(page)
    ui.html('<div id="curves"></div>', sanitize=False).classes("w-full results")
    ui.html('<div id="facts"></div>', sanitize=False).classes("w-full results")


def _tabs(page: Page) -> None:
    with ui.tabs().props("dense no-caps align=left outside-arrows mobile-arrows").classes("w-full") as tabs:
        names = (*_NODE_TABS, _GRAPH_TAB, "models", "diagnostics")
        for name in names:
            ui.tab(name).props(f"data-id=tab_{name}")
    page.tabs = tabs
    with ui.tab_panels(tabs, value=_GRAPH_TAB).classes("w-full panels"):
        with ui.tab_panel(names[0]):
            page.parameters(page)
        with ui.tab_panel(names[1]):
            page.actions(page)
        with ui.tab_panel(names[2]):
            driver_panel(page)
        with ui.tab_panel(names[3]):
            models_panel(page)
        with ui.tab_panel(names[4]):
            diagnostics_panel(page)


def diagnostics_panel(page: Page) -> None:
    """The diagnostics of the nodes, the worst first."""

    @ui.refreshable
    def entries() -> None:
        with page.view.lock:
            found = [
                each
                for viewed in page.view.nodes.values()
                if viewed.running
                for each in viewed.diagnostics.values()
            ]
        for each in sorted(found, key=lambda each: (-SEVERITY.index(each.level), each.name)):
            with ui.row().classes("w-full items-start gap-2 no-wrap diagnostic"):
                ui.element("span").classes(f"dot {each.level} q-mt-sm")
                with ui.column().classes("gap-0 grow"):
                    ui.label(each.name).classes("font-medium")
                    ui.label(each.message).classes("hint")

    entries()
    ui.timer(2.0, entries.refresh)
