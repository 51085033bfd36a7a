"""The parameters and the actions of a node."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from edgetpu_dashboard.live.parameter_texts import Value, text_of
from edgetpu_dashboard.web.element_names import name_element
from edgetpu_dashboard.web.error_notice import errors_shown
from edgetpu_dashboard.web.stream import OVERVIEW
from edgetpu_driver.errors import EdgeTpuError, reason_of

_VALUES_PERIOD = 3.0
"""Seconds between two requests for the values of parameters, which others may change."""


def parameters_panel(page: Any) -> None:
    """Every parameter of the node: description, range, value, and a field to change it."""
    node = page.node
    if node == OVERVIEW:
        ui.label("Open a node to see and change its parameters.").classes("hint")
        return
    viewed = page.view.nodes.get(node)
    if viewed is None or not viewed.running:
        ui.label(f"{node} is not running").classes("hint")
        return
    with ui.column().classes("w-full gap-0") as column:
        ui.spinner()
    rows: dict[str, _Row] = {}

    async def look() -> None:
        try:
            parameters = await page.calls.parameters(node)
        except EdgeTpuError:
            return  # the node has stopped, which the list of nodes says, or is busy
        for each in parameters:
            if each.name == "roi":
                await page.note_region(node, each.value)
        if column.is_deleted:  # the browser has left, or shows another node
            return
        if not rows:
            column.clear()
        with column:
            for each in sorted(parameters, key=lambda each: (each.read_only, each.name)):
                if each.name in rows:
                    rows[each.name].show(each.value)
                else:
                    rows[each.name] = _Row(page, node, each)

    ui.timer(_VALUES_PERIOD, look)


class _Row:
    """One parameter."""

    def __init__(self, page: Any, node: str, parameter: Any) -> None:
        self._page, self._node, self._parameter = page, node, parameter
        self._value: Value | None = parameter.value
        with name_element(ui.element("div").classes("parameter"), f"parameter_{parameter.name}"):
            with ui.row().classes("items-center w-full no-wrap gap-2"):
                ui.label(parameter.name).classes("name")
                ui.space()
                self._field()
            description = parameter.description
            if parameter.limits:
                description += f" Range: {parameter.limits}."
            ui.label(description + (" Set at start." if parameter.read_only else "")).classes("hint")
            self._refusal = ui.label().classes("refusal").props("role=alert")
            self._refusal.set_visibility(False)

    def show(self, value: Value | None) -> None:
        """Show a value that was set elsewhere."""
        if text_of(value) == text_of(self._value):  # NaN is not equal to itself
            return
        self._value = value
        self._show_value()

    def _show_value(self) -> None:
        if isinstance(self._input, ui.label):
            self._input.text = text_of(self._value) or "empty"
        elif isinstance(self._input, ui.switch | ui.select):
            self._input.value = self._value
        else:
            self._input.value = text_of(self._value)

    def _field(self) -> None:
        value, name = self._value, self._parameter.name
        self._input: Any
        if self._parameter.read_only or value is None:
            self._input = ui.label(text_of(value) or "empty").classes("value")
            return
        if isinstance(value, bool):
            self._input = ui.switch(value=value).props("dense")
            events = ["update:model-value"]
        elif self._parameter.choices:
            self._input = ui.select(list(self._parameter.choices), value=value)
            self._input.props("dense outlined options-dense").classes("field")
            events = ["update:model-value"]
        else:
            self._input = ui.input(value=text_of(value)).props("dense outlined").classes("field")
            events = ["keydown.enter", "blur"]
        name_element(self._input, f"input_{name}", name)
        for event in events:
            self._input.on(event, lambda _event: self._set(self._input.value))

    async def _set(self, wanted: Any) -> None:
        if wanted == (text_of(self._value) if isinstance(wanted, str) else self._value):
            self._refusal.set_visibility(False)
            return
        name, client = self._parameter.name, ui.context.client
        try:
            if isinstance(wanted, str) and not self._parameter.choices:
                self._value = await self._page.calls.set_parameter(
                    self._node, name, wanted, self._parameter.like, any_type=self._parameter.any_type
                )
            else:
                self._value = await self._page.calls.set_value(self._node, name, wanted)
        except EdgeTpuError as error:
            self._refusal.text = reason_of(error)
            self._refusal.set_visibility(True)
            if not isinstance(self._input, ui.input):  # what was typed can be mended
                self._show_value()
            return
        self._refusal.set_visibility(False)
        with client:  # the row is gone if another node is shown by now
            ui.notify(f"{name}: {text_of(self._value)}", type="positive", timeout=1500)


def actions_panel(page: Any) -> None:
    """The actions of the node that is shown."""
    node = page.node
    if node == OVERVIEW:
        ui.label("Open a node to see its actions.").classes("hint")
        return
    viewed = page.view.nodes.get(node)
    has_region = page.has_region()
    if viewed is None or not viewed.running:
        ui.label(f"{node} is not running").classes("hint")
        return
    if node == "spot_tracker":
        ui.label("Click a spot in the picture to track its colour.").classes("q-mb-sm")
    if has_region:
        _drag_choice(page, node)
    if node == "reservoir":
        _training(page, node)
    if node == "place_recognition":
        _naming(page, node)
    if viewed.triggers:
        with ui.row().classes("gap-2 q-mt-sm"):
            for service in viewed.triggers:
                _trigger(page, node, service)
    if not (has_region or viewed.triggers or node in ("reservoir", "place_recognition")):
        ui.label("This node has no actions; it has parameters.").classes("hint")


def picture_hint(page: Any) -> str:
    """Say what the mouse does in the picture of the node; empty if nothing."""
    click = "Click a spot to track its colour. " if page.node == "spot_tracker" else ""
    drag = "the template or the region" if page.node == "pattern_tracker" else "the region to process"
    return click + (f"Drag a box to make it {drag}." if page.has_region() else "")


def _drag_choice(page: Any, node: str) -> None:
    choices = {"region": "the region to process"}
    if node == "pattern_tracker":
        choices = {"template": "the template to look for", **choices}
    page.drag_does = next(iter(choices))

    def choose(event: Any) -> None:
        page.drag_does = event.value

    async def whole() -> None:
        async with errors_shown():
            await page.set_region((0, 0, 0, 0))
            ui.notify(f"{node} processes the whole picture", type="positive")

    if len(choices) > 1:
        ui.label("Drag a box in the picture to make it")
        ui.radio(choices, value=page.drag_does, on_change=choose).props("dense data-id=drag_does")
    else:
        ui.label("Drag a box in the picture to make it the region to process.")
    ui.button("process the whole picture", icon="crop_free", on_click=whole).props(
        "flat dense no-caps data-id=whole_picture"
    )


def _trigger(page: Any, node: str, service: str) -> None:
    async def call(event: Any) -> None:
        async with errors_shown(event.sender):
            ui.notify(f"{service}: {await page.calls.trigger(node, service)}", type="positive")

    ui.button(service.replace("_", " "), on_click=call).props(
        f"outline dense no-caps data-id=trigger_{service}"
    )


def _training(page: Any, node: str) -> None:
    regularization = (
        ui.number("regularization (0: the parameter's)", value=0.0, min=0.0)
        .props("dense outlined data-id=regularization")
        .classes("w-full")
    )
    forget = ui.checkbox("forget the targets afterwards")

    async def train(event: Any) -> None:
        async with errors_shown(event.sender):
            text = await page.calls.train(node, float(regularization.value or 0.0), bool(forget.value))
            ui.notify(text, type="positive")

    ui.button("train the readout", icon="school", on_click=train).props("outline dense no-caps data-id=train")


def _naming(page: Any, node: str) -> None:
    label = ui.input("name of the place in view").props("dense outlined data-id=place_name").classes("w-full")
    replace = ui.checkbox("replace its earlier views")

    async def add(event: Any) -> None:
        async with errors_shown(event.sender):
            text = await page.calls.add_place(node, str(label.value or ""), bool(replace.value))
            ui.notify(text, type="positive")

    ui.button("add", icon="add_location_alt", on_click=add).props("outline dense no-caps data-id=add_place")
