"""Arrays in a file: NumPy's .npz without pickled objects, replaced in one step, checked when read."""

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
"""Name of the array that says what an archive holds."""


def save(path: Path, kind: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays into a file, its directory made when absent; a reader never sees half of it.

    kind: what the file holds, checked by `load`. Raises OSError when the file cannot be written.
    """
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{KIND: np.array(kind), **arrays})
    write_file(path, buffer.getvalue())


def load(path: Path, kind: str, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Read the named arrays of a file that `save` wrote with this kind.

    Raises ArchiveError for any other file, OSError when it cannot be read.
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
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        if isinstance(error, ArchiveError):
            raise
        raise ArchiveError(f"{path.name}: expected {kind} in an .npz file without pickle: {error}") from error
