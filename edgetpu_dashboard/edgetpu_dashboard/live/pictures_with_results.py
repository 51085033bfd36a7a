"""The newest picture of the camera, of a node's debug images, or of a node's results on the camera's images.

The executor's thread adds messages; pictures are made in the thread that asks for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgetpu_dashboard.live.picture_encoding import Pixels
from edgetpu_driver.errors import InputError
from edgetpu_driver.images import drawing
from edgetpu_driver.images.region import Region

KEPT_BYTES = 32 * 2**20
"""Most bytes of camera images that wait for results: half a second of 640x480 RGB at 60 Hz."""
MOST_WAITING = 64
"""Most results that wait for their image, which may arrive after them."""
MOST_UNMATCHED = 20
"""Most results in a row without their image; with more the node is assumed to use another camera."""

BARE_AFTER = 2.0
"""Seconds without a result after which images are shown without one; a node that measures is faster."""

Stamp = tuple[int, int]
"""Seconds and nanoseconds."""


@dataclass(frozen=True)
class LivePicture:
    """A picture to show, and the image that it was drawn on."""

    drawn: Pixels
    """[H, W] or [H, W, 3] RGB."""
    image: Pixels
    """The camera's image, of the same size; for a debug image, the debug image itself."""


class ImageTap:
    """The newest image of a topic."""

    def __init__(self, decode: Callable[[Any], Pixels]) -> None:
        """decode: converts an image, as `put` gets it, to pixels."""
        self._decode = decode
        self._newest: Any = None
        self.number = 0
        """Number of the newest picture."""

    def put(self, image: Any) -> None:
        """Add an image."""
        self._newest = image
        self.number += 1

    def picture(self) -> LivePicture:
        """Return the newest picture; InputError if there is none."""
        if not self.number:
            raise InputError("there is no picture yet")
        image = self._decode(self._newest)
        return LivePicture(image, image)


class OverlayTap:
    """The results of a node, each drawn here on its camera image, so that the node draws nothing."""

    def __init__(self, decode: Callable[[Any], Pixels], draw: Callable[[Pixels, Any], Pixels]) -> None:
        """draw: draws a result message on a copy of its image."""
        self._decode, self._draw = decode, draw
        self._images: dict[Stamp, tuple[Any, int]] = {}
        """Images with their sizes in bytes, the oldest first."""
        self._results: dict[Stamp, Any] = {}
        self._newest: tuple[Any, Any] | None = None
        self.region: Sequence[int] = (0, 0, 0, 0)
        """The part of the image that the node looks at, the value of its parameter `roi`."""
        self.number = 0
        """Number of the newest picture."""
        self.unmatched = 0
        """Number of results since the last one that was matched with its image."""
        self._bare_since: float | None = None
        """Stamp of the first image after the last result, s."""

    def put_image(self, stamp: Stamp, image: Any, size: int) -> None:
        """Add an image of the camera. size: its size in bytes."""
        self._images.pop(stamp, None)
        self._images[stamp] = image, size
        kept = sum(each for _, each in self._images.values())
        while kept > KEPT_BYTES and len(self._images) > 1:
            kept -= self._images.pop(next(iter(self._images)))[1]
        time = stamp[0] + 1e-9 * stamp[1]
        if self._bare_since is None or time < self._bare_since:
            self._bare_since = time
        if stamp in self._results:
            self._join(stamp)
        elif time - self._bare_since > BARE_AFTER:  # the node waits for the driver, a template or a model
            self._newest = image, None
            self.number += 1

    def put_result(self, stamp: Stamp, result: Any) -> None:
        """Add a result message."""
        self._results.pop(stamp, None)
        self._results[stamp] = result
        self.unmatched += 1
        self._bare_since = None
        if len(self._results) > MOST_WAITING:
            del self._results[next(iter(self._results))]
        if stamp in self._images:
            self._join(stamp)

    def picture(self) -> LivePicture:
        """Return the newest result drawn on its image; InputError if there is none.

        It is the image alone if there has been no result for a while, or if the result cannot be drawn.
        """
        if self._newest is None:
            raise InputError("there is no picture yet")
        message, result = self._newest
        image = self._decode(message)
        if result is None:
            return LivePicture(image, image)
        try:
            drawn = self._draw(image, result)
        except Exception:  # numbers that cannot be drawn, perhaps from another program's node
            return LivePicture(image, image)
        return LivePicture(drawing.with_region(drawn, Region(*self.region)), image)

    def _join(self, stamp: Stamp) -> None:
        self._newest = self._images[stamp][0], self._results.pop(stamp)
        # Results come in the order of their images, so that earlier images are no longer needed.
        while (oldest := next(iter(self._images))) != stamp:
            del self._images[oldest]
        del self._images[stamp]
        self.number += 1
        self.unmatched = 0
