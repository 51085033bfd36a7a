"""Teaches a class from a folder: reads its pictures in a thread and runs them on the driver, one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError, InputError, ModelNotFoundError, UnavailableError
from edgetpu_driver.host.background_thread import BackgroundThread
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.clients.load_result import ModelFile
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.node_kit.executor.executor_calls import executor_calls
from edgetpu_vision.algorithm import Frame
from edgetpu_vision.embedding.embedder import Embedder
from edgetpu_vision.learning.picture_folder import pictures_in, read_picture

PATIENCE = 10.0
"""Seconds without progress after which a lesson ends."""

Taught = Callable[[Sequence[NDArray[np.float32]] | EdgeTpuError], None]


class FolderLesson:
    """Embeds the pictures of a folder; `done` is called once, with the vectors or the error."""

    def __init__(
        self,
        node: BaseNode,
        folder: Path,
        most: int,
        model: ModelFile,
        driver: str | Sequence[str],
        make_embedder: Callable[[], Embedder],
        done: Taught,
    ) -> None:
        """most: largest number of pictures. make_embedder: makes one that is bound to the model.

        `make_embedder` may raise EdgeTpuError. Raises InputError for a folder without pictures, or with more
        than `most`.
        """
        self._node, self._make_embedder, self._done = node, make_embedder, done
        self._paths = pictures_in(folder, most)
        self._vectors: list[NDArray[np.float32]] = []
        self._embedder: Embedder | None = None
        self._busy = self._ended = False
        self._thread = BackgroundThread(f"{node.get_name()} pictures")
        self._client = ModelClient(node, model, driver=driver, on_ready=self._next, sets_weights=False)
        self._last_progress = time.monotonic()

    def check(self) -> None:
        """End the lesson if there has been no progress for too long; called periodically."""
        if not self._ended and time.monotonic() - self._last_progress > PATIENCE:
            reason = self._client.problem or "the driver does not answer"
            self._end(UnavailableError(f"picture {len(self._vectors) + 1} of {len(self._paths)}: {reason}"))

    def close(self) -> None:
        """End the lesson with an error, because the model or its parameters changed, or the node stops."""
        self._end(UnavailableError("the model or its parameters were changed, or the node is stopping"))

    def _next(self) -> None:
        """Continue with the next picture; called again whenever the driver has loaded the model."""
        if self._busy or self._ended:
            return
        self._last_progress = time.monotonic()
        try:
            self._embedder = self._embedder or self._make_embedder()
        except EdgeTpuError as error:
            self._end(error)
            return
        if len(self._vectors) == len(self._paths):
            self._end(self._vectors)
            return
        self._busy = True
        self._thread.submit(partial(self._read, self._paths[len(self._vectors)]))

    def _read(self, path: Path) -> None:
        """Read a picture, in the thread of the lesson."""
        calls = executor_calls(self._node)
        try:
            pixels = read_picture(path)
        except EdgeTpuError as error:
            calls.add(partial(self._end, error))
        else:
            calls.add(partial(self._send, pixels))

    def _send(self, pixels: Pixels) -> None:
        if self._ended or self._embedder is None:
            return
        try:
            frame = self._embedder.preprocess(pixels)
            self._busy = self._client.invoke(frame.inputs, partial(self._on_answer, frame))
        except EdgeTpuError as error:
            self._end(error)

    def _on_answer(self, frame: Frame, answer: InferenceResult) -> None:
        self._busy = False
        if isinstance(answer.error, ModelNotFoundError | UnavailableError) and not self._ended:
            return  # the client loads the model again, and `_next` continues
        if self._ended or self._embedder is None:
            return
        if answer.error is not None:
            self._end(answer.error)
            return
        try:
            embedding = self._embedder.postprocess(frame, answer.outputs)
        except EdgeTpuError as error:
            self._end(error)
            return
        if not embedding.valid:
            name = self._paths[len(self._vectors)].name
            self._end(InputError(f"{name}: the model's output for this picture is all zeros"))
            return
        self._vectors.append(embedding.vector)
        self._next()

    def _end(self, result: Sequence[NDArray[np.float32]] | EdgeTpuError) -> None:
        if not self._ended:
            self._ended = True
            self._client.close()
            self._done(result)
