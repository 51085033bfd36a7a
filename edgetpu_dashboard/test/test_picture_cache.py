"""Pictures are encoded once for all browsers."""

from __future__ import annotations

import asyncio
import threading
import weakref

import numpy as np
import pytest

from edgetpu_dashboard.live.picture_cache import PictureCache
from edgetpu_dashboard.live.pictures_with_results import ImageTap, LivePicture
from edgetpu_driver.errors import InputError
from testdata.timeouts import PATIENCE


class Tap(ImageTap):
    """A tap that counts how often its picture was drawn, once a test allows it."""

    def __init__(self) -> None:
        super().__init__(lambda level: np.full((4, 6, 3), level, np.uint8))
        self.drawn = 0
        self.allowed = threading.Event()
        self.allowed.set()
        self.put(50)

    def picture(self) -> LivePicture:
        self.drawn += 1
        assert self.allowed.wait(PATIENCE)
        return super().picture()


def test_browsers_that_show_the_same_get_the_same_picture() -> None:
    async def show(tap: Tap) -> None:
        pictures = PictureCache()
        first, second = await asyncio.gather(pictures.newest(tap, 640), pictures.newest(tap, 640))
        assert first is second
        assert await pictures.newest(tap, 640) is first

    tap = Tap()
    asyncio.run(show(tap))
    assert tap.drawn == 1


def test_a_newer_picture_and_another_width_are_encoded() -> None:
    async def show(tap: Tap) -> list[int]:
        pictures = PictureCache()
        await pictures.newest(tap, 640)
        await pictures.newest(tap, 3)
        small = tap.drawn
        tap.put(100)
        picture, _ = await pictures.newest(tap, 640)
        assert picture.image[0, 0, 0] == 100
        return [small, tap.drawn]

    assert asyncio.run(show(Tap())) == [2, 3]


def test_a_width_that_is_no_longer_shown_keeps_no_picture() -> None:
    async def show(tap: Tap) -> None:
        pictures = PictureCache()
        kept = weakref.ref((await pictures.newest(tap, 3))[0])
        assert kept() is not None
        tap.put(100)
        await pictures.newest(tap, 640)
        while kept() is not None:  # the thread that has encoded it may not have gone on yet
            await asyncio.sleep(0)

    asyncio.run(show(Tap()))


def test_a_browser_that_leaves_takes_no_picture_from_another() -> None:
    async def show(tap: Tap) -> None:
        pictures = PictureCache()
        tap.allowed.clear()
        leaving, staying = (asyncio.ensure_future(pictures.newest(tap, 640)) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        tap.allowed.set()
        _, data = await staying
        assert data.startswith(b"\xff\xd8")

    tap = Tap()
    asyncio.run(show(tap))
    assert tap.drawn == 1


def test_a_picture_that_is_not_there_is_an_error() -> None:
    tap = Tap()
    tap.number = 0
    with pytest.raises(InputError, match="there is no picture yet"):
        asyncio.run(PictureCache().newest(tap, 640))
