"""The lessons of a learner: calls of ~/learn, until the embeddings of their images or pictures are there."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import BusyError, EdgeTpuError, InputError, UnavailableError
from edgetpu_driver.node_kit.printable_text import counted
from edgetpu_driver.node_kit.state_paths import named_file
from edgetpu_msgs.srv import Learn
from edgetpu_vision.embedding.embedder import Embedder
from edgetpu_vision.learning.taught_examples import check_class
from edgetpu_vision.nodes.folder_lesson import FolderLesson, Taught
from edgetpu_vision.nodes.vision_node import VisionNode

PATIENCE = 5.0
"""Seconds for which a lesson waits for an image."""
MOST_LESSONS = 8
"""Largest number of calls of ~/learn that wait for images or read pictures."""


@dataclass
class _Lesson:
    """A lesson that takes images from the topic."""

    images: int
    """Number of images it takes."""
    done: Taught
    until: float
    """Steady time at which it ends unless an image arrives, for this lesson or for one before it."""
    vectors: list[NDArray[np.float32]] = field(default_factory=list)


class Lessons:
    """The lessons of one node: images are shown to one after the other, folders are read at the same time."""

    def __init__(
        self, node: VisionNode, make_embedder: Callable[[], Embedder], missing: Callable[[], str]
    ) -> None:
        """make_embedder: see FolderLesson. missing: why nothing can be learned at present, else empty."""
        self._node, self._make_embedder, self._missing = node, make_embedder, missing
        self._waiting: deque[_Lesson] = deque()
        self._folders: list[FolderLesson] = []

    def begin(self, request: Learn.Request, done: Taught) -> None:
        """Begin a lesson; `done` is called once, with the embeddings or the error.

        Raises EdgeTpuError, and never calls `done`, for a request that cannot be met.
        """
        if len(self._waiting) + len(self._folders) >= MOST_LESSONS:
            raise BusyError(f"expected at most {MOST_LESSONS} lessons at a time; wait for them to end")
        check_class(request.label)
        if request.folder:
            self._read(request.folder, done)
            return
        capacity = self._node.values["capacity"]
        if request.images > capacity:
            images = counted(capacity, "image")
            raise InputError(f"expected at most {images}, the capacity; got {request.images}")
        self._waiting.append(_Lesson(max(1, request.images), done, time.monotonic() + PATIENCE))

    def show(self, vector: NDArray[np.float32]) -> None:
        """Give the embedding of an image to the first lesson that waits for one."""
        if not self._waiting:
            return
        lesson = self._waiting[0]
        lesson.vectors.append(vector)
        for each in self._waiting:  # also those whose turn has not come
            each.until = time.monotonic() + PATIENCE
        if len(lesson.vectors) >= lesson.images:
            self._waiting.popleft()
            lesson.done(lesson.vectors)

    def check(self) -> None:
        """End the lessons that have waited too long; called periodically."""
        now = time.monotonic()
        for lesson in [each for each in self._waiting if each.until < now]:
            self._waiting.remove(lesson)
            reason = f"no image for {PATIENCE:g} s; {len(lesson.vectors)} of {lesson.images}"
            lesson.done(UnavailableError(self._missing() or reason))
        for folder in list(self._folders):
            folder.check()

    def end(self, error: UnavailableError) -> None:
        """End all lessons; those that wait for images with this error."""
        while self._waiting:
            self._waiting.popleft().done(error)
        self.close()

    def close(self) -> None:
        """End the lessons of folders, which have clients of their own."""
        for folder in list(self._folders):
            folder.close()

    def _read(self, name: str, done: Taught) -> None:
        if missing := self._missing():
            raise UnavailableError(missing)
        values = self._node.values
        path = named_file(values["pictures_directory"], "pictures", name, "folder").with_suffix("")

        def taught(result: Sequence[NDArray[np.float32]] | EdgeTpuError) -> None:
            self._folders.remove(lesson)
            done(result)

        lesson = FolderLesson(
            self._node,
            path,
            values["capacity"],
            self._node.model_to_load(),
            values["driver"],
            self._make_embedder,
            taught,
        )
        self._folders.append(lesson)
