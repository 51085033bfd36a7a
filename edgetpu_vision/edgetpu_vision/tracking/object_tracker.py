"""Assigns lasting identifiers to objects in a stream of images, by ByteTrack of edgefirst-tracker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from edgetpu_driver.errors import DependencyMissingError
from edgetpu_vision.detection.detections import Detection, Detections

MEMORY = 1.0
"""Seconds for which an object that is out of sight keeps its identifier."""

MIN_OVERLAP = 0.25
"""Least intersection over union of a box and the predicted box of its object."""

START_CONFIDENCE = 0.5
"""Least score of a new object to be tracked; known objects are followed at any score."""


class ObjectTracker:
    """Tracks detected objects by the overlap of their boxes, each class separately."""

    def __init__(self, start_confidence: float = START_CONFIDENCE, memory: float = MEMORY) -> None:
        """Start without objects; see the constants. Raises DependencyMissingError without ByteTrack."""
        self._options = {
            "high_conf": start_confidence,
            "iou": MIN_OVERLAP,
            "lifespan_ns": round(memory * 1e9),
        }
        self._memory = memory
        self._kind = _byte_track()
        self._by_class: dict[int, Any] = {}
        self._numbers: dict[str, int] = {}
        """Our identifiers by the library's, for the objects that are tracked now."""
        self._count = 0
        self._last: float | None = None
        """Time of the last image, s."""

    def update(self, image: Detections) -> tuple[str, ...]:
        """Return an identifier for each detection, "" for one that is not tracked.

        Everything is forgotten if the stamp is before the last one or more than `memory` after it.
        """
        if self._last is not None and not 0 <= image.stamp - self._last <= self._memory:
            self._by_class.clear()
        self._last = image.stamp
        found: list[str] = [""] * len(image.detections)
        classes = {each.class_id for each in image.detections}
        for class_id in sorted(classes | self._by_class.keys()):
            tracker = self._by_class.setdefault(class_id, self._kind(**self._options))
            indices = [index for index, each in enumerate(image.detections) if each.class_id == class_id]
            tracks = self._matched(tracker, image, [image.detections[index] for index in indices])
            for index, uuid in zip(indices, tracks, strict=True):
                found[index] = self._identifier(uuid) if uuid else ""
        self._forget()
        return tuple(found)

    def _matched(self, tracker: Any, image: Detections, detections: Sequence[Detection]) -> Iterable[str]:
        """The library's identifier of each detection of one class; "" for one without a track."""
        size = max(image.image_width, image.image_height, 1)  # the library expects about 0..1
        boxes = [(each.x_min, each.y_min, each.x_max, each.y_max) for each in detections]
        tracks = tracker.update(
            np.array(boxes, np.float32).reshape(-1, 4) / size,
            np.array([each.score for each in detections], np.float32),
            np.zeros(len(detections), np.uintp),
            round(image.stamp * 1e9),
        )
        return ("" if track is None else track.uuid for track in tracks)

    def _identifier(self, uuid: str) -> str:
        if uuid not in self._numbers:
            self._count += 1
            self._numbers[uuid] = self._count
        return str(self._numbers[uuid])

    def _forget(self) -> None:
        """Drop the objects that have been out of sight for too long, and classes without any."""
        alive: set[str] = set()
        for class_id, tracker in list(self._by_class.items()):
            active = {track.info.uuid for track in tracker.get_active_tracks()}
            alive |= active
            if not active:
                del self._by_class[class_id]
        self._numbers = {uuid: number for uuid, number in self._numbers.items() if uuid in alive}


def _byte_track() -> Any:
    try:
        from edgefirst.tracker import ByteTrack
    except ImportError:
        raise DependencyMissingError(
            "tracking needs the package edgefirst-tracker: pip install edgefirst-tracker"
        ) from None
    return ByteTrack
