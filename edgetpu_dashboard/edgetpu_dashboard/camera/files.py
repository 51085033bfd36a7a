"""Pictures from a file: a picture, a folder of pictures or a video."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import cv2
import numpy as np

from edgetpu_dashboard.camera.source import NoPictureError, Pixels
from edgetpu_driver.errors import InputError, reason_of
from edgetpu_driver.files.file_access import read_file, user_path
from edgetpu_driver.images.compressed_images import decode_file

PICTURES = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Extensions of the files of a folder that count as pictures."""


class FileSource:
    """Returns the picture, the pictures of the folder by name, or the frames of the video, one per call."""

    waits = False

    def __init__(
        self,
        path: str,
        size: tuple[int, int],
        *,
        loop: bool = True,
        left_out: Callable[[Path, str], None] | None = None,
    ) -> None:
        """size: width and height that pictures are resized to, px; 0: their own. Raises NoPictureError.

        left_out: called with each file of a folder that cannot be read and the reason, whenever it is due.
        """
        if not path:
            raise NoPictureError(
                "no file: path is empty; expected a picture, a folder of pictures or a video"
            )
        self._path = user_path(path)
        self._size = size
        self._loop = loop
        self._left_out = left_out
        self._video: cv2.VideoCapture | None = None
        self._pictures = self._open()
        self._last: Pixels | None = None

    def read(self, seconds: float) -> Pixels:  # noqa: ARG002 - one after another, whatever the time
        """Return the next picture; after the last one, the first if `loop`, otherwise the last again.

        Raises NoPictureError if none can be read.
        """
        picture = next(self._pictures, None)
        if picture is None and self._loop:
            self.close()
            self._pictures = self._open()
            picture = next(self._pictures, None)
        if picture is not None or self._loop:
            self._last = picture
        if self._last is None:
            raise NoPictureError(f"{self._path}: expected a video or pictures; none can be read")
        return self._last

    def close(self) -> None:
        """Close the video."""
        if self._video is not None:
            self._video.release()
            self._video = None

    def _open(self) -> Iterator[Pixels]:
        try:
            if self._path.is_dir():
                files = sorted(each for each in self._path.iterdir() if each.suffix.lower() in PICTURES)
                return self._readable(files)
            if not stat.S_ISREG(self._path.stat().st_mode):
                raise NoPictureError(f"{self._path}: expected a file or a folder")
        except (OSError, ValueError) as error:
            raise NoPictureError(reason_of(error)) from None
        if self._path.suffix.lower() in PICTURES:
            self._loop = False  # shown repeatedly, but read once
            return iter([self._load(self._path)])
        self._video = cv2.VideoCapture(str(self._path))
        return self._frames(self._video)

    def _readable(self, files: Iterable[Path]) -> Iterator[Pixels]:
        """The pictures of a folder, without those that cannot be read."""
        for file in files:
            if (picture := self._load_from_folder(file)) is not None:
                yield picture

    def _load_from_folder(self, file: Path) -> Pixels | None:
        try:
            return self._load(file)
        except NoPictureError as error:
            if self._left_out is not None:
                self._left_out(file, str(error))
            return None

    def _load(self, path: Path) -> Pixels:
        try:
            return self._resized(decode_file(read_file(path), str(path), cv2.IMREAD_COLOR))
        except (OSError, InputError) as error:
            reason = reason_of(error)
            raise NoPictureError(reason if str(path) in reason else f"{path}: {reason}") from None

    def _frames(self, video: cv2.VideoCapture) -> Iterator[Pixels]:
        while True:
            found, frame = video.read()
            if not found:
                return
            yield self._resized(frame)

    def _resized(self, picture: Pixels) -> Pixels:
        """An RGB picture of the wanted size, from BGR."""
        height, width = picture.shape[:2]
        wanted = self._size[0] or width, self._size[1] or height
        if wanted != (width, height):
            way = cv2.INTER_AREA if wanted[0] < width else cv2.INTER_LINEAR
            picture = cv2.resize(picture, wanted, interpolation=way)
        return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), np.uint8)
