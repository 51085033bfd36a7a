"""The driver: its sticks, its models, their weights, and any Coral model on the live picture."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nicegui import ui

from edgetpu_dashboard.live.matrix_file import LARGEST_MATRIX, read_matrix
from edgetpu_dashboard.live.model_file import LARGEST, save_model
from edgetpu_dashboard.live.model_sizes import size_in_words
from edgetpu_dashboard.live.picture_encoding import png
from edgetpu_dashboard.web.element_names import name_element
from edgetpu_dashboard.web.error_notice import errors_shown
from edgetpu_dashboard.web.uploads import uploaded
from edgetpu_driver.errors import EdgeTpuError, InputError, reason_of
from edgetpu_driver.node_kit.node_table import DRIVER, nodes_of

STATES = ("absent", "boot", "starting", "ready", "recovering", "failed", "closed", "inactive")
"""The states of DeviceStatus, by their numbers."""

_MODELS_PERIOD = 3.0
"""Seconds between two requests for the loaded models."""


def named(names: Sequence[str], number: int) -> str:
    """Return the name of a state, or its number if a later version has added it."""
    return names[number] if number < len(names) else str(number)


def driver_panel(page: Any) -> None:
    """Sticks, temperature, queue, residents, utilisation and errors."""

    @ui.refreshable
    def state() -> None:
        with page.view.lock:
            status, driver = page.view.status, page.view.nodes.get(DRIVER)
        # The status of a driver that has ended is kept.
        if status is None or driver is None or not driver.running:
            ui.label("no driver is running").classes("hint")
            return
        ui.label(f"{status.backend}: {named(STATES, status.state)}").classes("font-medium").props(
            "data-id=driver_state"
        )
        if status.message:
            ui.label(status.message).classes("refusal")
        _facts(
            {
                "firmware": status.firmware or "none",
                "latency p50, p99": _latencies(status),
                "inferences": status.inferences,
                "uploads": status.uploads,
                "sent, received": f"{status.bytes_sent / 1e6:.1f}, {status.bytes_received / 1e6:.1f} MB",
                "retries, recoveries": f"{status.retries}, {status.recoveries}",
                "dropped, expired, refused": f"{status.dropped}, {status.expired}, {status.refused}",
                "heat warnings": status.thermal_warnings,
            }
        )
        for number, stick in enumerate(status.sticks, 1):
            _stick(stick, number)

    state()
    ui.timer(1.0, state.refresh)


def _latencies(status: Any) -> str:
    if math.isnan(status.latency_p50):
        return "no inference lately"
    return f"{1e3 * status.latency_p50:.2f}, {1e3 * status.latency_p99:.2f} ms"


def _stick(stick: Any, number: int) -> None:
    """The state of one stick; number: from 1, shown if it has neither a serial number nor a path."""
    title = f"stick {stick.serial or stick.bus_path or number}: {named(STATES, stick.state)}"
    ui.label(title).classes("font-medium q-mt-md")
    if stick.message:
        ui.label(stick.message).classes("refusal")
    ui.linear_progress(round(float(stick.utilisation), 3), show_value=False).props("rounded")
    warmth = "unknown" if math.isnan(stick.temperature) else f"{stick.temperature:.1f} °C"
    _facts(
        {
            "utilisation": f"{100 * stick.utilisation:.0f} %",
            "temperature": warmth + (", throttled" if stick.throttled else ""),
            "queue": f"{stick.waiting} waiting",
            "throughput": f"{stick.throughput:.0f} /s",
            "clock": stick.clock_preset or "none",
            "link": f"{stick.link_speed:.0f} Mbit/s" if stick.link_speed else "none",
            "SRAM": f"{stick.sram_used / 1e6:.2f} of {stick.sram_total / 1e6:.2f} MB",
            "residents": ", ".join(stick.resident_models) or "none",
            "failed checks": stick.failed_checks,
        }
    )


def _facts(facts: dict[str, Any]) -> None:
    with ui.element("dl").classes("facts"):
        for name, value in facts.items():
            with ui.element("dt"):
                ui.label(name)
            with ui.element("dd"):
                ui.label(str(value))


def models_panel(page: Any) -> None:
    """Load and unload models, replace weights, run a Coral model."""
    ui.label("Loaded models").classes("font-medium")
    column = ui.column().classes("w-full gap-1").props("data-id=loaded_models")
    suggested_files = ui.element("datalist").props("id=model_files")
    suggested_models = ui.element("datalist").props("id=model_names")
    with column:
        hint = ui.label().classes("hint")
    rows: dict[str, _ModelRow] = {}

    async def look() -> None:
        models: list[Any] = []
        files: list[str] = []
        problem = "no model is loaded"
        try:
            answer = await page.calls.models()
            models, files = list(answer.models), list(answer.available)
        except EdgeTpuError as error:
            problem = reason_of(error)
        if column.is_deleted:  # the browser has left
            return
        _suggest(suggested_files, files)
        _suggest(suggested_models, [each.name for each in models])
        hint.text = "" if models else problem
        hint.set_visibility(not models)
        # The rows of models that stay are kept: a click on a button that is replaced is lost.
        for name in rows.keys() - {each.name for each in models}:
            rows.pop(name).delete()
        for model in models:
            if model.name not in rows:
                with column:
                    rows[model.name] = _ModelRow(page, model.name, look)
            rows[model.name].show(model)

    ui.timer(_MODELS_PERIOD, look)
    _load(page, look)
    _weights(page)
    _run_model(page)


def _suggest(datalist: Any, values: list[str]) -> None:
    """Set the suggestions for input fields with this list."""
    if values == [option.props["value"] for option in datalist]:
        return
    datalist.clear()
    with datalist:
        for value in values:
            ui.element("option").props["value"] = value


class _ModelRow:
    """A loaded model with a button that unloads it; `changed` is called afterwards."""

    def __init__(self, page: Any, name: str, changed: Callable[[], Awaitable[None]]) -> None:
        async def unload(event: Any) -> None:
            async with errors_shown(event.sender):
                ui.notify(await page.calls.unload_model(name), type="positive")
            await changed()

        self._row = ui.row().classes("items-center w-full no-wrap gap-2")
        with self._row:
            with ui.column().classes("gap-0 grow shrink"):
                ui.label(name).classes("name")
                self._facts = ui.label().classes("hint")
            button = ui.button(icon="eject", on_click=unload).props("flat round dense")
            name_element(button, f"unload_{name}", f"unload {name}")

    def show(self, model: Any) -> None:
        """Show the present facts of the model, an edgetpu_msgs/ModelInfo."""
        where = named(("on the CPU", "in SRAM", "streamed"), model.placement)
        size = f"{size_in_words(model.parameter_bytes)}, {where}, weights version {model.weights_version}"
        self._facts.text = model.message or size

    def delete(self) -> None:
        """Remove the row from the page."""
        self._row.delete()


def _load(page: Any, changed: Any) -> None:
    with ui.row().classes("items-center w-full no-wrap gap-2 q-mt-sm"):
        model = (
            ui.input("model file or name")
            .props("dense outlined data-id=model_to_load list=model_files")
            .classes("grow")
        )
        name = ui.input("as").props("dense outlined data-id=model_name").classes("short")

        async def load(event: Any) -> None:
            async with errors_shown(event.sender):
                text = await page.calls.load_model(str(model.value or ""), str(name.value or ""))
                ui.notify(text, type="positive")
            await changed()

        ui.button("load", on_click=load).props("outline dense no-caps data-id=load_model")


def _weights(page: Any) -> None:
    ui.separator().classes("q-my-md")
    ui.label("Swap weights").classes("font-medium")
    with ui.row().classes("items-center w-full no-wrap gap-2"):
        model = (
            ui.input("model").props("dense outlined data-id=weights_model list=model_names").classes("grow")
        )
        tensor = ui.input("tensor, if several").props("dense outlined data-id=weights_tensor").classes("grow")
    answer = ui.label().classes("hint").props("data-id=weights_answer")
    picture = ui.image().classes("errors").props("data-id=weights_errors no-spinner")
    picture.set_visibility(False)

    async def swap(event: Any) -> None:
        async with errors_shown():
            weights = read_matrix(await uploaded(event.file, LARGEST_MATRIX))
            await _everything_typed()
            text, errors = await page.calls.set_weights(
                str(model.value or ""), str(tensor.value or ""), weights
            )
            answer.text = f"{text}. Blue: rounded down, red: up, by half a step at most; black: clipped."
            data = await asyncio.to_thread(png, errors)
            picture.set_source(f"data:image/png;base64,{base64.b64encode(data).decode()}")
            picture.set_visibility(True)

    _upload("a matrix as .npy", ".npy", LARGEST_MATRIX, swap).props("data-id=weights_file")


def _upload(label: str, suffix: str, largest: int, take: Callable[[Any], Awaitable[None]]) -> ui.upload:
    """Offer to upload files with a suffix, of at most `largest` bytes; a notice tells of refused ones."""

    def notify() -> None:
        ui.notify(f"expected a {suffix} file of at most {largest >> 20} MiB", type="negative")

    upload = ui.upload(
        label=label,
        auto_upload=True,
        on_upload=take,
        on_rejected=notify,
        max_files=1000,
        max_file_size=largest,
    )
    # The browser does not send a file again that is still in its list.
    upload.on("finish", js_handler=f"() => getElement({upload.id}).$refs.qRef.reset()")
    return upload.props(f"accept={suffix} flat bordered").classes("w-full")


def _run_model(page: Any) -> None:
    ui.separator().classes("q-my-md")
    ui.label("Run a Coral model on the live picture").classes("font-medium")
    kind = ui.select(list(nodes_of("edgetpu_vision")), value="object_detector", label="what it does").props(
        "dense outlined data-id=run_kind"
    )
    kind.classes("w-full")
    path = _model_path(page)
    labels = (
        ui.input("labels: a file, coco, or nothing")
        .props("dense outlined data-id=run_labels")
        .classes("w-full")
    )

    async def run(event: Any) -> None:
        async with errors_shown(event.sender):
            name = str(kind.value)
            if not path.value:
                raise InputError("expected the path of a model file; got nothing")
            parameters = {"model": _quoted(path.value)}
            if labels.value:
                parameters["labels"] = _quoted(labels.value)
            await asyncio.to_thread(page.dashboard.restart_node, name, **parameters)
            ui.notify(f"{name} starts with {path.value}", type="positive")
            page.select(name)
            await page.watch_start(name)

    for each in (kind, path, labels):
        each.classes("q-mb-xs")
    ui.button("run", icon="play_arrow", on_click=run).props("outline dense no-caps data-id=run_model")


def _model_path(page: Any) -> ui.input:
    """The field for the path of a model file, and below it one to upload such a file."""
    path = (
        ui.input("model file, in a folder of the driver's model_dirs")
        .props("dense outlined data-id=run_path list=model_files")
        .classes("w-full")
    )

    async def take(event: Any) -> None:
        async with errors_shown():
            folder = await page.calls.model_folder()
            data = await uploaded(event.file, LARGEST)
            path.value = str(await asyncio.to_thread(save_model, data, event.file.name, folder))
            ui.notify(f"saved as {path.value}", type="positive")

    models = _upload("or a model of this computer, .tflite", ".tflite", LARGEST, take)
    models.props("data-id=run_file").classes("q-mb-xs")
    return path


async def _everything_typed() -> None:
    """Wait for text typed before an upload, which uses a separate connection and may arrive earlier."""
    with contextlib.suppress(TimeoutError):
        await ui.run_javascript("0")


def _quoted(text: str) -> str:
    """A string, quoted for YAML."""
    return "'" + text.replace("'", "''") + "'"
