"""Files of arrays: NumPy's .npz without pickled objects, written atomically and checked when read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.toolchain.model_files import write_file
from edgetpu_matrix.errors import ArchiveError

KIND = "kind"
"""Name of the array that holds the kind of an archive."""


def save(path: Path, kind: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file atomically; its directory is made if absent.

    kind: what the file holds, checked by `load`. Raises ArchiveError if the file cannot be written.
    """
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{KIND: np.array(kind), **arrays})
    try:
        write_file(path, buffer.getvalue())
    except OSError as error:
        raise ArchiveError(f"cannot write {path}: {error.strerror or error}") from error


def load(path: Path, kind: str, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Read the named arrays of a file that `save` has written with this kind.

    Raises ArchiveError for any other file, and for one that is missing or cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            found = str(archive[KIND]) if KIND in archive else "no kind"
            missing = [name for name in names if name not in archive]
            if found != kind or missing:
                raise ArchiveError(
                    f"{path.name}: expected {kind} with {', '.join(names)}; got {found}"
                    + (f" without {', '.join(missing)}" if missing else "")
                )
            return {name: archive[name] for name in names}
    except FileNotFoundError as error:
        raise ArchiveError(f"expected a file {path}; {_names_in_directory_of(path)}") from error
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        if isinstance(error, ArchiveError):
            raise
        raise ArchiveError(f"{path.name}: expected {kind} in an .npz file without pickle: {error}") from error


def _names_in_directory_of(path: Path) -> str:
    """The names of the archives in the directory of `path`, as a caller would give them."""
    names = sorted(file.stem for file in path.parent.glob(f"*{path.suffix}"))
    return f"that directory holds: {', '.join(names)}" if names else "that directory holds no such files"
