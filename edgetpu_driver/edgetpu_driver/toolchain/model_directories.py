"""Finds model files by name, inside the permitted directories only."""

from __future__ import annotations

import difflib
import errno
import functools
import logging
import os
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path

from edgetpu_driver.errors import (
    BusyError,
    EdgeTpuError,
    ModelNotFoundError,
    ModelUnsupportedError,
    PathRefusedError,
    reason_of,
)
from edgetpu_driver.files.compiled_file_names import (
    COMPILED_SUFFIX,
    compiled_path,
    is_compiled,
    is_file,
)
from edgetpu_driver.files.detached_reading import RETRY_AFTER
from edgetpu_driver.files.file_access import user_path
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.toolchain.dense_compiler import is_dense
from edgetpu_driver.toolchain.edgetpu_compiler import compile_command
from edgetpu_driver.toolchain.graph_catalogue import named_graph
from edgetpu_driver.toolchain.retargeting.compiled_sources import (
    graphs_by_form,
    has_retargeting_source,
    retargeting_sources,
)

_log = logging.getLogger(__name__)

_LARGEST_DENSE_FILE = 4 << 20
"""Largest file, bytes, that is examined; a file of a 1024 x 1024 matrix has 1.1 MB."""

_LONGEST_PATH = 4096
"""Most characters of a path. Given by Linux, PATH_MAX."""

_MOST_COMPARED = 100
"""For the error about a name that was not found: most names, those that begin like it, with which it is
compared, and most files that are examined. Each takes 0.6 ms."""
_MOST_LISTED = 10
"""Most names listed in that error. Uncritical."""
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the operating system that are not caused by a directory."""
_MOST_KNOWN_FILES = 10_000
"""Number of files whose kind is cached: examining one takes half a millisecond, at every listing."""


def _is_text(path: str) -> bool:
    """Whether a path can be in a message."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _real(path: Path) -> Path:
    """The path without symbolic links, as far as they can be resolved."""
    try:
        return Path(os.path.realpath(path))
    except OSError:  # a link that may not be read
        return Path(os.path.abspath(path))


def _expanded(directories: Sequence[str | Path]) -> tuple[Path, ...]:
    """Expand ~ and variables; ignore an entry that is then empty, as it would mean the working directory."""
    found = []
    for entry in directories:
        name = os.path.expandvars(entry)
        if str(name).strip():
            found.append(_real(user_path(name)))
        else:
            _log.warning(
                "expected directories of models; got an empty entry, which is ignored: %r", str(entry)
            )
    return tuple(found)


def _same_beginning(name: str, other: str) -> int:
    """Number of characters with which both names begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False)))


def _likeliest(name: str, stems: Sequence[str]) -> list[str]:
    """The _MOST_COMPARED stems that begin most like a name, the likeliest first. stems: sorted."""
    position = bisect(stems, name)  # those with the longest common beginning are next to it
    around = stems[max(position - _MOST_COMPARED, 0) : position + _MOST_COMPARED]
    return sorted(around, key=lambda stem: -_same_beginning(stem, name))[:_MOST_COMPARED]


def _model_names(directory: Path) -> list[str]:
    """The names of the .tflite files in a directory; empty if it cannot be read.

    Files whose path is not UTF-8 are left out. Names are text, since there may be thousands: paths take four
    times as long. Raises BusyError if this process cannot read any directory at present.
    """
    if not _is_text(str(directory)):
        return []
    try:
        with os.scandir(directory) as entries:
            names = [each.name for each in entries if each.name.endswith(".tflite") and _is_regular(each)]
    except OSError as error:
        if error.errno in _SHORTAGES:
            text = f"cannot list {directory}: {error.strerror}; try again in {RETRY_AFTER:g} s"
            raise BusyError(text, RETRY_AFTER) from None
        return []
    return [name for name in names if _is_text(name)]


def _is_regular(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a directory is a regular file, or a link to one that can be accessed."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_dense_file(path: Path) -> bool:
    """Whether a file is a graph whose program can be generated here."""
    try:
        status = path.stat()
        if status.st_size > _LARGEST_DENSE_FILE:
            return False
        return _holds_dense(path, status.st_ino, status.st_size, status.st_mtime_ns)
    except (ModelNotFoundError, OSError):
        return False


@functools.lru_cache(maxsize=_MOST_KNOWN_FILES)
def _holds_dense(path: Path, *_version: int) -> bool:
    """Whether a file is a Dense graph. version: numbers that change with the file, for the cache.

    Raises ModelNotFoundError, which is not cached, for a file that cannot be read: later it may be readable.
    """
    data = read_model_file(path)
    try:
        return is_dense(data)
    except EdgeTpuError:
        return False


def _is_made_here(path: Path) -> bool:
    """Whether the program of a graph can be generated here, or made from a compiled file next to it."""
    return _is_dense_file(path) or bool(retargeting_sources(path))


class ModelDirectories:
    """The .tflite files in a list of directories that one backend can run.

    compiled: search for compiled models (x_edgetpu.tflite). uncompiled: search for graphs (x.tflite). With
    both, a compiled model is preferred to its graph. Without `uncompiled`, a graph counts only if its program
    can be generated here, see `dense_compiler`, or made from a compiled file of the same form next to it, see
    `retargeting`. For the latter, a graph of the catalogue needs no file.
    """

    def __init__(self, directories: Sequence[str | Path], *, compiled: bool, uncompiled: bool) -> None:
        self.directories = _expanded(directories)
        self._compiled = compiled
        self._uncompiled = uncompiled

    def find(self, model: str) -> Path:
        """Find a model by stem, file name or path; the path returned is absolute, without symbolic links.

        A name is searched for in the directories in their order, a relative path is relative to each. Raises
        PathRefusedError for a path that leads outside of all directories, also by symbolic links;
        ModelNotFoundError; ModelUnsupportedError if there is only a graph that must be compiled first.
        """
        if not model:
            raise ModelNotFoundError("expected a model's name, file name or path; got an empty string")
        if len(model) > _LONGEST_PATH:  # similar names would be searched for, which takes long
            raise ModelNotFoundError(
                f"expected a model's name, file name or path of at most {_LONGEST_PATH} characters; got "
                f"{len(model)}"
            )
        try:
            path = self._find(model)
        except (OSError, ValueError, RuntimeError) as error:
            # A name too long, a zero byte, symbolic links in a circle.
            raise ModelNotFoundError(f"no model {model[:100]!r}: {reason_of(error)}") from None
        if not _is_text(str(path)):  # a symbolic link leads there; no message can name it
            raise ModelNotFoundError(f"no model {model[:100]!r}: expected a path in UTF-8; got {str(path)!r}")
        return path

    def available(self) -> list[Path]:
        """List the model files this backend could load, sorted by directory and name.

        Files whose path is not UTF-8 are left out: no request can name them. Raises BusyError if the process
        has no descriptor or memory left.
        """
        return [path for directory in self.directories for path in self._available_in(directory)]

    def _available_in(self, directory: Path) -> list[Path]:
        is_usable = self._usability_in(directory)
        return [path for name in sorted(_model_names(directory)) if is_usable(path := directory / name)]

    def _usability_in(self, directory: Path) -> Callable[[Path], bool]:
        """A function that tells whether this backend could load a file of the directory."""
        graphs = functools.cache(lambda: graphs_by_form(directory))  # once for all graphs, if there are any

        def is_usable(path: Path) -> bool:
            if is_compiled(path):
                return self._compiled
            if self._uncompiled or is_file(compiled_path(path)):
                return self._uncompiled
            return _is_dense_file(path) or has_retargeting_source(path, graphs())

        return is_usable

    def _find(self, model: str) -> Path:
        if Path(model).is_absolute():
            return self._existing(self._inside(Path(model)))
        is_path = os.sep in model or model.lower().endswith(".tflite")
        names = (model,) if is_path else self._file_names(model)
        found = next(self._meant(model, names), None)
        if found is None:
            raise self._not_found(model, names)
        return found

    def _meant(self, model: str, names: Sequence[str]) -> Iterator[Path]:
        """The files that a name may mean, in order of preference."""
        yield from self._files_inside(directory / name for directory in self.directories for name in names)
        graphs = [directory / f"{model}.tflite" for directory in self.directories]
        yield from filter(_is_made_here, self._files_inside(graphs))
        without_files = self._compiled and not self._uncompiled and os.sep not in model
        if without_files and named_graph(model) is not None:
            yield from filter(retargeting_sources, graphs)

    def _files_inside(self, paths: Iterable[Path]) -> Iterator[Path]:
        """The paths that are files, with symbolic links resolved. Raises PathRefusedError."""
        return (found for path in paths if (found := self._file_inside(path)) is not None)

    def _file_names(self, stem: str) -> tuple[str, ...]:
        names = []
        if self._compiled:
            names.append(f"{stem}{'' if stem.endswith(COMPILED_SUFFIX) else COMPILED_SUFFIX}.tflite")
        if self._uncompiled:
            names.append(f"{stem}.tflite")
        return tuple(names)

    def _inside(self, path: Path) -> Path:
        resolved = path.resolve()
        if not any(resolved.is_relative_to(directory) for directory in self.directories):
            raise PathRefusedError(f"expected a model inside {self._described()}; got {path}")
        return resolved

    def _file_inside(self, path: Path) -> Path | None:
        """The file at a path; None if it is missing or behind circular links."""
        try:
            resolved = self._inside(path)
        except (OSError, RuntimeError):
            return None
        return resolved if is_file(resolved) else None

    def _existing(self, path: Path) -> Path:
        if not path.is_file():
            raise ModelNotFoundError(f"no such model file: {path}")
        return path

    def _not_found(self, model: str, names: Sequence[str]) -> ModelNotFoundError | ModelUnsupportedError:
        graph = next(
            (d / f"{model}.tflite" for d in self.directories if is_file(d / f"{model}.tflite")), None
        )
        if graph is not None:
            return ModelUnsupportedError(
                f"{graph} is not compiled for the Edge TPU; run: {compile_command(graph)}"
            )
        return ModelNotFoundError(f"no {' or '.join(names)} in {self._described()}; {self._hint(model)}")

    def _hint(self, model: str) -> str:
        """Similar names or, failing that, available ones. Only some of thousands of files are examined."""
        files: dict[str, list[tuple[Callable[[Path], bool], Path, str]]] = {}
        for directory in self.directories:
            is_usable = self._usability_in(directory)
            for name in _model_names(directory):
                stem = name.removesuffix(".tflite").removesuffix(COMPILED_SUFFIX)
                files.setdefault(stem, []).append((is_usable, directory, name))

        def usable(stems: Iterable[str]) -> Iterator[str]:
            return (stem for stem in stems if any(check(path / name) for check, path, name in files[stem]))

        stems = sorted(files)
        near = difflib.get_close_matches(model, _likeliest(model, stems), n=_MOST_COMPARED)
        meant = list(islice(usable(near), 3))
        if meant:
            return f"did you mean {' or '.join(meant)}?"
        present = list(islice(usable(stems[:_MOST_COMPARED]), _MOST_LISTED + 1))
        if present:
            more = " and more" if len(present) > _MOST_LISTED else ""
            return f"there are {', '.join(present[:_MOST_LISTED])}{more}"
        if len(stems) <= _MOST_COMPARED:
            return "there are no models"
        return f"of the {len(stems)} models there, the first {_MOST_COMPARED} cannot be loaded here"

    def _described(self) -> str:
        names = (f"{each}{'' if os.path.isdir(each) else ' (no directory)'}" for each in self.directories)
        return ", ".join(names) or "model_dirs (which is empty)"
