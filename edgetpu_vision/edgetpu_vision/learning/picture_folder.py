"""Pictures in a folder, as examples of a class."""

from __future__ import annotations

from pathlib import Path

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.file_access import read_file
from edgetpu_driver.images.compressed_images import decode_compressed
from edgetpu_driver.images.encodings import ImageError, Pixels

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")

LARGEST_PICTURE = 64 << 20
"""Largest file, bytes."""


def pictures_in(folder: str | Path, most: int) -> list[Path]:
    """The pictures of a folder, by name; subfolders are ignored.

    Raises InputError for a folder that cannot be read, one without pictures, and one with more than `most`.
    """
    try:
        found = sorted(path for path in Path(folder).iterdir() if path.suffix.lower() in SUFFIXES)
    except OSError as error:
        raise InputError(f"cannot read the folder {folder}: {error.strerror or error}") from None
    if not 1 <= len(found) <= most:
        raise InputError(
            f"expected 1 to {most} pictures ({', '.join(SUFFIXES)}) in {folder}; got {len(found)}"
        )
    return found


def read_picture(path: Path) -> Pixels:
    """A picture, uint8 [H, W, 3] RGB or [H, W]; InputError for one that is damaged or cannot be read."""
    try:
        return decode_compressed(read_file(path, LARGEST_PICTURE))
    except ImageError as error:
        raise InputError(f"{path.name}: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read the picture {path}: {error.strerror or error}") from None
