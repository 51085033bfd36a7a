"""The capture thread takes pictures at its rate, on request, and again after a failure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from queue import Empty, Queue

import numpy as np
import pytest

from edgetpu_dashboard.camera import capture_thread
from edgetpu_dashboard.camera.capture_thread import SOURCES, CaptureThread, open_source
from edgetpu_dashboard.camera.source import CameraSettings, NoPictureError, Pixels, Source
from testdata.timeouts import PATIENCE

FAST = CameraSettings(frame_rate=200.0, width=16, height=12)


class Times:
    """A source that notes the times that it is asked for, and when."""

    waits = False

    def __init__(self) -> None:
        self.times: Queue[float] = Queue()
        self.moments: list[float] = []
        self.closed = False

    def read(self, seconds: float) -> Pixels:
        self.moments.append(time.monotonic())
        self.times.put(seconds)
        return np.zeros((1, 1, 3), np.uint8)

    def close(self) -> None:
        self.closed = True


@contextmanager
def playing(source: Source, *, paused: bool = False) -> Iterator[CaptureThread]:
    shown: Queue[Pixels] = Queue()
    made = CaptureThread(FAST, shown.put, lambda _settings: source, paused=paused)
    try:
        yield made
    finally:
        made.close(PATIENCE)


def test_the_time_of_a_picture_is_that_since_the_start_and_grows_by_a_period_and_more() -> None:
    source, begin = Times(), time.monotonic()
    with playing(source):
        times = [source.times.get(timeout=PATIENCE) for _ in range(5)]
    passed = np.array(source.moments[:5]) - begin
    assert times[0] >= 0.0
    assert np.all(times <= passed + 1e-6)
    assert np.all(np.diff(times) > 0.0)
    assert times[4] >= 4 * 0.005 - 1e-6
    assert source.closed


def test_while_paused_each_step_takes_one_picture_a_period_later() -> None:
    opened: Queue[Times] = Queue()

    def open_one(_settings: CameraSettings) -> Source:
        opened.put(source := Times())
        return source

    made = CaptureThread(FAST, lambda _picture: None, open_one)
    try:
        before = opened.get(timeout=PATIENCE)
        last = before.times.get(timeout=PATIENCE)
        made.paused = True
        made.settings = replace(FAST, source="noise")  # a picture on its way comes before the next source
        source = opened.get(timeout=PATIENCE)
        while not before.times.empty():
            last = before.times.get()
        made.step()
        made.step()
        steps = [source.times.get(timeout=PATIENCE) for _ in range(2)]
        assert steps == pytest.approx([last + 0.005, last + 0.010])
        with pytest.raises(Empty):
            source.times.get(timeout=0.05)
    finally:
        made.close()


def test_a_player_made_paused_takes_its_first_picture_by_a_step() -> None:
    source = Times()
    with playing(source, paused=True) as made:
        made.step()
        assert source.times.get(timeout=PATIENCE) == pytest.approx(0.005)


def test_new_settings_open_the_source_again() -> None:
    opened: Queue[CameraSettings] = Queue()

    def open_one(settings: CameraSettings) -> Source:
        opened.put(settings)
        return Times()

    made = CaptureThread(FAST, lambda _picture: None, open_one)
    try:
        assert opened.get(timeout=PATIENCE) == FAST
        made.settings = replace(FAST, source="noise")
        assert opened.get(timeout=PATIENCE).source == "noise"
    finally:
        made.close()


def test_a_source_that_fails_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_thread, "RETRY", 0.01)
    shown: Queue[Pixels] = Queue()
    failures = iter([NoPictureError("unplugged"), MemoryError("8 GiB")])
    problems: list[str] = []

    def open_one(_settings: CameraSettings) -> Source:
        problems.append(made.problem if problems else "")
        if (error := next(failures, None)) is not None:
            raise error
        return Times()

    made = CaptureThread.__new__(CaptureThread)
    made.__init__(FAST, shown.put, open_one)  # type: ignore[misc]
    try:
        shown.get(timeout=PATIENCE)
        assert problems == ["", "unplugged", "unexpected MemoryError: 8 GiB"]
        assert made.problem == ""
    finally:
        made.close()


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in ("webcam", "file")])
def test_every_synthetic_source_has_the_size_asked_for(name: str) -> None:
    source = open_source(CameraSettings(source=name, width=64, height=48))
    assert source.read(0.5).shape == (48, 64, 3)
    source.close()


def test_the_scene_starts_again_at_its_end() -> None:
    source = open_source(CameraSettings(source="scene", width=64, height=48))
    assert np.array_equal(source.read(0.0), source.read(345 / 30 + 0.001))
    assert not np.array_equal(source.read(0.0), source.read(1.0))
