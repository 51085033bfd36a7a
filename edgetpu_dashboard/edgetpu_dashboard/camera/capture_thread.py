"""Takes pictures at a fixed rate in a separate thread, and reopens a source that failed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

from edgetpu_dashboard.camera.files import FileSource
from edgetpu_dashboard.camera.patterns import DEFAULT_SIZE, PATTERNS, PatternSource
from edgetpu_dashboard.camera.scene_source import SceneSource
from edgetpu_dashboard.camera.source import CameraSettings, NoPictureError, Pixels, Source
from edgetpu_dashboard.camera.webcam import Webcam
from edgetpu_driver.node_kit.printable_text import describe

SOURCES = ("webcam", "file", "scene", *PATTERNS)
"""The sources of pictures."""

RETRY = 1.0
"""Seconds after which a source that failed is opened again."""


def open_source(
    settings: CameraSettings,
    horizontal_fov: float = math.radians(60.0),
    left_out: Callable[[Path, str], None] | None = None,
) -> Source:
    """Open the source of the settings. Raises NoPictureError.

    horizontal_fov: of the rendered scene, rad. left_out: called with each file of a folder that cannot be
    read and the reason.
    """
    if settings.source == "webcam":
        return Webcam(settings)
    if settings.source == "file":
        size = settings.width, settings.height
        return FileSource(settings.path, size, loop=settings.loop, left_out=left_out)
    width, height = settings.width or DEFAULT_SIZE[0], settings.height or DEFAULT_SIZE[1]
    if settings.source == "scene":
        return SceneSource(width, height, horizontal_fov)
    return PatternSource(settings.source, width, height)


class CaptureThread:
    """Passes on one picture in each period until it is closed."""

    def __init__(
        self,
        settings: CameraSettings,
        show: Callable[[Pixels], None],
        open_source: Callable[[CameraSettings], Source] = open_source,
        *,
        paused: bool = False,
    ) -> None:
        """show: called with each picture, in this thread. paused: whether pictures wait for `step`."""
        self.problem = ""
        """Why there are no pictures; empty if there are."""
        self._settings = settings
        self._show = show
        self._open_source = open_source
        self._changed = threading.Condition()
        self._reopen, self._paused, self._closed = False, paused, False
        self._steps = 0
        self._seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="camera", daemon=True)
        self._thread.start()

    @property
    def settings(self) -> CameraSettings:
        """The settings of the source, which is opened again if they are set."""
        return self._settings

    @settings.setter
    def settings(self, settings: CameraSettings) -> None:
        with self._changed:
            self._settings, self._reopen = settings, True
            self._changed.notify()

    @property
    def paused(self) -> bool:
        """Whether pictures are taken by `step` only."""
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        with self._changed:
            self._paused, self._steps = paused, 0
            self._changed.notify()

    def step(self) -> None:
        """Take one picture while paused; its time is one period after that of the last picture."""
        with self._changed:
            self._steps += 1
            self._changed.notify()

    def close(self, seconds: float = 2.0) -> None:
        """Stop, and wait for the thread at most this long, in case the device hangs."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._closed:
            self._reopen = False
            try:
                source = self._open_source(self._settings)
                try:
                    self._play(source)
                finally:
                    source.close()
            except Exception as error:  # OpenCV and `show` raise many kinds
                self.problem = str(error) if isinstance(error, NoPictureError) else describe(error)
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or self._reopen, RETRY)

    def _play(self, source: Source) -> None:
        due = last = time.monotonic()
        while self._wait(due):
            period = 1.0 / self._settings.frame_rate
            now = time.monotonic()
            # A pause does not count as time, and pictures missed while the machine was busy are left out.
            self._seconds += period if self._paused else now - last
            due, last = max(due + period, now - period), now
            picture = source.read(self._seconds)
            self.problem = ""
            if source.waits and time.monotonic() < due - period / 2:
                continue  # a webcam that is faster than asked for
            self._show(picture)
            if source.waits:
                due = time.monotonic()

    def _wait(self, due: float) -> bool:
        """Wait until it is time for a picture; False if the source is to be closed instead."""
        with self._changed:
            while not (self._closed or self._reopen):
                if self._paused and self._steps:
                    self._steps -= 1
                    return True
                left = due - time.monotonic()
                if not self._paused and left <= 0:
                    return True
                self._changed.wait(None if self._paused else left)
        return False
