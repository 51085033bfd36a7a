"""Files of arrays: NumPy's .npz without pickled objects, written atomically and checked when read.

A file may come from anywhere. NumPy's own reader decompresses and allocates what a file claims, and raises
any exception. Here nothing is allocated that is not in the file, and every fault is an
ArchiveError.
"""

from __future__ import annotations

import io
import math
import struct
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ArchiveError
from edgetpu_driver.files.file_access import read_file, write_file

KIND = "kind"
"""Name of the array that holds the kind of an archive."""

LARGEST_FILE = 2**30
"""Largest file that is read, bytes. Chosen far above those that `save` writes: some MB for a reservoir."""
MOST_FILES = 1000
"""Most files in one directory: names come with requests, so a client could fill the disk."""
MOST_MEMBERS = 64
"""Most arrays in a file. Uncritical: the files that `save` writes have far fewer."""
LARGEST_HEADER = 1024
"""Most bytes in the header of an array; the headers that `save` writes have 118."""
LARGEST_RANK = 4
"""Most dimensions of an array."""
KINDS = "biufU"
"""Kinds of dtypes that are read: booleans, numbers and text."""

_DIRECTORY_ENTRY = b"PK\x01\x02"
"""Start of the entry of a file in a zip archive's directory. Given by PKWARE's APPNOTE, 4.3.12."""
_MAGIC = b"\x93NUMPY"
_LENGTHS = {1: "<H", 2: "<I", 3: "<I"}
"""Format of the header's length by version of the .npy format."""


def save(path: str | Path, kind: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file atomically; its directory is made if absent.

    kind: what the file holds, checked by `load`. Raises ArchiveError if the file cannot be written or there
    are MOST_FILES already.
    """
    path = Path(path)
    buffer = io.BytesIO()
    write_arrays(buffer, {KIND: np.array(kind), **arrays})
    try:
        if not path.exists() and sum(1 for _ in path.parent.glob(f"*{path.suffix}")) >= MOST_FILES:
            raise ArchiveError(f"expected at most {MOST_FILES} files in {path.parent}; remove some first")
        write_file(path, buffer.getvalue())
    except OSError as error:
        raise ArchiveError(f"cannot write {path}: {error.strerror or error}") from error


def write_arrays(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name as an .npz file, without pickle.

    numpy.savez takes the names as keyword arguments, so no array may be called "file", and in NumPy 1 it
    writes its option allow_pickle as an array.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def load(
    path: Path, kind: str, names: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, NDArray[Any]]:
    """Read the named arrays, read-only, from a file that `save` has written with this kind.

    optional: names of arrays that are read if they are there. Raises ArchiveError for any other file, and for
    one that is missing or cannot be read.
    """
    try:
        data = read_file(path, LARGEST_FILE)
    except FileNotFoundError as error:
        raise ArchiveError(f"expected a file {path}; {_names_in_directory_of(path)}") from error
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return _read(path.name, data, kind, names, optional)
    except ArchiveError:
        raise
    except Exception as error:  # zipfile and NumPy raise many kinds
        text = f"{type(error).__name__}: {error}"
        raise ArchiveError(f"{path.name}: expected {kind} in an .npz file without pickle: {text}") from error


def count_members(data: bytes) -> int:
    """Upper bound of the number of members of a zip archive, known before zipfile makes an object of each."""
    return data.count(_DIRECTORY_ENTRY)


def _read(
    file: str, data: bytes, kind: str, names: tuple[str, ...], optional: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    entries = count_members(data)
    if entries > MOST_MEMBERS:
        raise ArchiveError(f"{file}: expected at most {MOST_MEMBERS} arrays; got {entries}")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        found = str(_array(archive, members[KIND])) if KIND in members else "another .npz file"
        missing = [name for name in names if name not in members]
        if found != kind or missing:
            raise ArchiveError(
                f"{file}: expected {kind} with {', '.join(names)}; got {found[:100]}"
                + (f" without {', '.join(missing)}" if missing else "")
            )
        present = [*names, *(name for name in optional if name in members)]
        return {name: _array(archive, members[name]) for name in present}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Read one array. Raises ValueError, among others, for anything that `save` does not write."""
    name = member.filename[:100]
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise ValueError(f"{name}: expected an array that is not compressed")
    return _parsed(name, archive.read(member))


def array_of(name: str, content: bytes) -> NDArray[Any]:
    """Read the array of a .npy file, numbers or text of up to LARGEST_RANK dimensions.

    name: of the file, for messages. Raises ArchiveError for anything else.
    """
    try:
        return _parsed(name, content)
    except Exception as error:  # NumPy raises many kinds
        raise ArchiveError(f"expected an array in a .npy file without pickle: {error}") from None


def _parsed(name: str, content: bytes) -> NDArray[Any]:
    major = content[6:7]
    if not content.startswith(_MAGIC) or major not in (b"\x01", b"\x02", b"\x03"):
        raise ValueError(f"{name}: expected the .npy format without pickle")
    (length,) = struct.unpack_from(_LENGTHS[major[0]], content, 8)
    start = 8 + struct.calcsize(_LENGTHS[major[0]]) + length
    if length > LARGEST_HEADER:
        raise ValueError(f"{name}: expected a header of at most {LARGEST_HEADER} bytes; got {length}")
    shape, fortran, dtype = _header(content[:start], major[0])
    if dtype.kind not in KINDS or (dtype.kind != "U" and dtype.itemsize > 8):
        raise ValueError(f"{name}: expected numbers or text without pickle; got {dtype}")
    if len(shape) > LARGEST_RANK or any(size < 0 for size in shape):
        raise ValueError(f"{name}: expected a shape of up to {LARGEST_RANK} sizes; got {shape}")
    expected, present = math.prod(shape) * dtype.itemsize, len(content) - start
    if present != expected:
        raise ValueError(f"{name}: expected {expected} bytes for {dtype}{list(shape)}; got {present}")
    if not expected:
        return np.zeros(shape, dtype)
    array = np.frombuffer(content, dtype, offset=start)
    if dtype.kind == "U" and array.view(f"{dtype.str[0]}u4").max() > sys.maxunicode:
        raise ValueError(f"{name}: expected text; got a character that does not exist")
    return array.reshape(shape, order="F" if fortran else "C")


def _header(data: bytes, major: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order and dtype with NumPy, which evaluates literals only."""
    file = io.BytesIO(data)
    np.lib.format.read_magic(file)
    if major == 1:
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _names_in_directory_of(path: Path) -> str:
    """The names of the archives in the directory of `path`, as a caller would give them."""
    names = sorted(file.stem for file in path.parent.glob(f"*{path.suffix}"))
    return f"that directory has: {', '.join(names)}" if names else "that directory has no such files"
