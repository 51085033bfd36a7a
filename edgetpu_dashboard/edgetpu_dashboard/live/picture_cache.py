"""Pictures for the browsers, each drawn and encoded once for all that show it."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from edgetpu_dashboard.live.picture_encoding import jpeg
from edgetpu_dashboard.live.pictures_with_results import LivePicture

Encoded = tuple[LivePicture, bytes]
"""A picture, and its JPEG."""


_Making = dict[int, tuple[int, asyncio.Task[Encoded]]]
"""The number of a picture and its encoding, by width."""


class PictureCache:
    """The newest picture of each view as a JPEG. For one event loop."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Any, _Making] = WeakKeyDictionary()
        """By tap."""

    async def newest(self, tap: Any, widest: int) -> Encoded:
        """Return the newest picture of a tap, at most `widest` px wide. InputError if there is none."""
        made = self._made.setdefault(tap, {})
        if widest not in made or made[widest][0] != tap.number:
            for width in [width for width, (number, _) in made.items() if number != tap.number]:
                del made[width]  # which may never be asked for again
            task = asyncio.create_task(asyncio.to_thread(_encoded, tap, widest))
            made[widest] = tap.number, task
        return await asyncio.shield(made[widest][1])  # another browser may wait for it, too


def _encoded(tap: Any, widest: int) -> Encoded:
    picture = tap.picture()
    return picture, jpeg(picture.drawn, widest)
