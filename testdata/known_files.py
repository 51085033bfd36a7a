"""Finds files by their SHA-256 in the folders that an environment variable names."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_SKIPPED_FOLDERS = {".git"}


class MissingFileError(Exception):
    """Raised if a known file is in none of the folders; the text names the variable to set."""


@dataclass(frozen=True)
class KnownFile:
    """One row of the table.

    name: name of the file in this repository. repository, commit, path: where it was published, or "".
    """

    name: str
    sha256: str
    bytes: int
    repository: str
    commit: str
    path: str


class KnownFiles:
    """The files of one table. The folders are read only once, when the first file is requested."""

    def __init__(self, table: Path, variable: str, default: Path, noun: str) -> None:
        """Read the table.

        table: a CSV file with the fields of KnownFile. variable: environment variable with the folders,
        separated by ":". default: folder to search if the variable is not set. noun: term for the files.
        """
        self.variable = variable
        self.noun = noun
        self._default = default
        with table.open(newline="") as rows:
            self._files = {row["name"]: _known_file(**row) for row in csv.DictReader(rows)}

    @property
    def missing_reason(self) -> str:
        """A sentence that explains why something is not possible without these files."""
        return f"no {self.noun} (set {self.variable}, see README.md)"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that are searched."""
        named = os.environ.get(self.variable)
        return tuple(map(Path, filter(None, named.split(os.pathsep)))) if named else (self._default,)

    def names(self, start: str = "", end: str = "") -> tuple[str, ...]:
        """Sorted names in the table that begin with `start` and end with `end`."""
        return tuple(sorted(name for name in self._files if name.startswith(start) and name.endswith(end)))

    def sha256(self, name: str) -> str:
        """Return the SHA-256 of a file of the table in hex; the file need not be present."""
        return self._files[name].sha256

    def path(self, name: str) -> Path:
        """Return the path of a file of the table; raises MissingFileError if it is in none of the folders."""
        path = self.find(name)
        if path is None:
            raise MissingFileError(f"{self.missing_reason}: {name} is missing")
        return path

    def find(self, name: str) -> Path | None:
        """Return the path of a file of the table; None if it is in none of the folders."""
        return self._present.get(self._files[name].sha256)

    def gather(self, start: str, folder: Path) -> Path:
        """Put the present files whose names begin with `start` into `folder`, by name; return `folder`.

        Models expect their sidecars, and bags their metadata, in the same folder.
        """
        for name in self.names(start):
            source = self.find(name)
            if source is not None:
                _link_or_copy(source, folder / name)
        return folder

    @cached_property
    def _present(self) -> dict[str, Path]:
        """The known files that are present, by SHA-256. Only files of a known size are read."""
        sizes = {file.bytes for file in self._files.values()}
        known = {file.sha256 for file in self._files.values()}
        present: dict[str, Path] = {}
        for path in _files_in(self.folders):
            if path.stat().st_size in sizes:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                if digest in known:
                    present.setdefault(digest, path)
        return present


def _known_file(name: str, sha256: str, bytes: str, repository: str, commit: str, path: str) -> KnownFile:
    return KnownFile(name, sha256, int(bytes), repository, commit, path)


def _files_in(folders: tuple[Path, ...]) -> Iterator[Path]:
    """Give every regular file below the folders, in a fixed order."""
    for top in folders:
        for folder, subfolders, names in os.walk(top):
            subfolders[:] = sorted(set(subfolders) - _SKIPPED_FOLDERS)
            yield from filter(Path.is_file, (Path(folder, name) for name in sorted(names)))


def _link_or_copy(source: Path, target: Path) -> None:
    """Make a hard link, as ModelDirectories resolves symbolic links; on another file system, make a copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        os.link(source.resolve(), target)
        return
    shutil.copyfile(source, target)
