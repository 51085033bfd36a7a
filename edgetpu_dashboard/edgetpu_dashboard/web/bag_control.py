"""Saves a bag of the camera and the results, from the page."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from edgetpu_dashboard.live.bag_writer import BagProgress
from edgetpu_dashboard.web.error_notice import errors_shown
from edgetpu_driver.errors import InputError
from edgetpu_driver.files.file_access import user_path

LONGEST = 3600.0
"""Longest duration of a bag, s."""


def bag_control(page: Any) -> None:
    """A button that starts and stops a bag, a field for its duration, and its progress."""
    recorder = page.dashboard.bags

    async def toggle() -> None:
        async with errors_shown():
            if recorder.records:
                await page.calls.in_executor(recorder.stop)
            else:
                wanted = _seconds(seconds.value)
                folder = user_path(page.dashboard.values["bag_dir"])
                await page.calls.in_executor(lambda: recorder.start(folder, wanted))
        show()

    def show() -> None:
        button.text = "stop" if recorder.records else "save a bag"
        button.props(f"icon={'stop' if recorder.records else 'fiber_manual_record'}")
        progress = recorder.progress()
        state.text = in_words(progress) if progress is not None else ""

    with ui.row().classes("items-center gap-2 w-full"):
        button = ui.button("save a bag", icon="fiber_manual_record", on_click=toggle)
        button.props("flat dense no-caps data-id=bag")
        seconds = ui.input("seconds").props("dense outlined data-id=bag_seconds").classes("short")
        seconds.tooltip("empty: until stopped")
        state = ui.label().classes("hint").props("data-id=bag_state")
    show()
    ui.timer(0.5, show)


def _seconds(text: str | None) -> float:
    """Read a duration; 0 for nothing. Raises InputError."""
    if not (text or "").strip():
        return 0.0
    try:
        seconds = float(text or "")
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= LONGEST:
        raise InputError(f"expected seconds, at most {LONGEST:g}, or nothing; got '{text}'")
    return seconds


def in_words(progress: BagProgress) -> str:
    """Describe the progress of a bag, and its path."""
    lost = f", {progress.lost} lost" if progress.lost else ""
    state = "recording" if not progress.ended else "saved" if progress.complete else "not complete"
    problems = "".join(f"; {each}" for each in (*progress.left_out, progress.problem) if each)
    size = f"{progress.messages} messages{lost}, {progress.bytes / 1e6:.1f} MB"
    return f"{state}: {size}: {progress.path}{problems}"
