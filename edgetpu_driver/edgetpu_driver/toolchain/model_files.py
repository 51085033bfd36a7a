"""Model files: finding them inside the permitted directories only."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from edgetpu_driver.errors import EdgeTpuError, ModelNotFoundError, ModelUnsupportedError, PathRefusedError
from edgetpu_driver.files import user_path
from edgetpu_driver.tflite.file_checks import read_model_file
from edgetpu_driver.toolchain.dense_compiler import is_dense

COMPILED_SUFFIX = "_edgetpu"
"""Suffix that edgetpu_compiler appends to the stem of the graph."""

_SEGMENT = re.compile(r"_segment_(\d+)_of_(\d+)$")
_COCOMPILED = re.compile(r"_cocompiled_with_.*$")

_LARGEST_DENSE_FILE = 4 << 20
"""Bytes; larger files are not looked into. A matrix of 1024 x 1024 with all that goes with it has 1.1 MB."""

FIRMWARE_FILE = "apex_latest_single_ep.bin"
"""The vendor's image for a stick in boot mode."""


def edgetpu_home() -> Path:
    """The directory of models and firmware: edgetpu in $ROS_HOME or ~/.ros."""
    return user_path(os.environ.get("ROS_HOME") or "~/.ros") / "edgetpu"


def firmware_path() -> Path:
    """Give the file that the firmware of a stick is loaded from unless another one is named."""
    return edgetpu_home() / FIRMWARE_FILE


def default_model_dir() -> Path:
    """The default directory of models, for reading and writing."""
    return edgetpu_home() / "models"


def plain_stem(path: Path) -> str:
    """The name of a model: the file's stem without "_edgetpu"."""
    return path.stem.removesuffix(COMPILED_SUFFIX)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_file(path: Path) -> bool:
    """Whether it is a regular file; links in a circle and files that cannot be looked at are not."""
    try:
        return path.is_file()
    except OSError:
        return False


def _real(path: Path) -> Path:
    """The path without symbolic links, as far as they can be followed."""
    return Path(os.path.realpath(path))


def _model_files(directory: Path) -> list[Path]:
    """The files of a directory that are called .tflite, sorted; none if it cannot be read."""
    try:
        return sorted(directory.glob("*.tflite"))
    except OSError:
        return []


def source_graphs(path: Path) -> tuple[Path, ...]:
    """Where the graph of a compiled model may be, beside it, in order.

    x.tflite for x_edgetpu.tflite, for the segment x_segment_0_of_2_edgetpu.tflite of a pipeline, and for
    x_cocompiled_with_y_edgetpu.tflite: names that edgetpu_compiler gives. x_y.tflite for x_edgetpu_y.tflite.
    """
    stem = plain_stem(path).replace(f"{COMPILED_SUFFIX}_", "_")
    alone = _COCOMPILED.sub("", stem)
    stems = (stem, _SEGMENT.sub("", stem), alone, _SEGMENT.sub("", alone))
    graphs = dict.fromkeys(path.with_name(f"{each}.tflite") for each in stems)
    return tuple(each for each in graphs if each != path)


def source_graph(path: Path) -> Path | None:
    """The graph of a compiled model beside it; None if it is not there."""
    return next((each for each in source_graphs(path) if _is_file(each)), None)


def whole_graph(paths: Sequence[Path]) -> Path | None:
    """The graph beside a compiled model, or beside all segments of one; None if it is not there."""
    graphs = {source_graph(path) for path in paths}
    numbers = [_SEGMENT.search(plain_stem(path)) for path in paths]
    segments = [(int(found[1]), int(found[2])) for found in numbers if found]
    complete = [(number, len(paths)) for number in range(len(paths))] == segments
    single = len(paths) == 1 and (not segments or source_graphs(paths[0])[0] in graphs)
    return graphs.pop() if len(graphs) == 1 and (single or complete) else None


def is_compiled(path: Path) -> bool:
    """Whether the file name is one of edgetpu_compiler's outputs."""
    return path.stem.endswith(COMPILED_SUFFIX)


def _compiled_path(graph: Path) -> Path:
    return graph.with_name(f"{graph.stem}{COMPILED_SUFFIX}.tflite")


def _is_dense_file(path: Path) -> bool:
    """Whether a file is a graph whose program can be written here."""
    try:
        if path.stat().st_size > _LARGEST_DENSE_FILE:
            return False
        return is_dense(read_model_file(path))
    except (EdgeTpuError, OSError):
        return False


class ModelFiles:
    """The .tflite files in a list of directories that one backend can run.

    compiled: compiled models (x_edgetpu.tflite) are looked for; uncompiled: graphs (x.tflite) are. With
    both, a compiled model is preferred to its graph. Without `uncompiled`, of graphs that are not compiled
    only those count whose program can be written here, see `dense_compiler`.
    """

    def __init__(self, directories: Sequence[str | Path], *, compiled: bool, uncompiled: bool) -> None:
        self.directories = tuple(_real(user_path(os.path.expandvars(d))) for d in directories)
        self._compiled = compiled
        self._uncompiled = uncompiled

    def find(self, model: str) -> Path:
        """Find a model by stem, file name or path; the path returned is absolute, without symbolic links.

        A name is searched for in the directories in their order, a relative path is relative to each. Raises
        PathRefusedError for anything that, symbolic links followed, lies outside of all directories;
        ModelNotFoundError; ModelUnsupportedError when there is only a graph that must be compiled first.
        """
        if not model:
            raise ModelNotFoundError("expected a model's name, file name or path; got an empty string")
        try:
            return self._find(model)
        except (OSError, ValueError, RuntimeError) as error:
            # A name too long, a zero byte, symbolic links in a circle.
            raise ModelNotFoundError(f"no model {model[:100]!r}: {error}") from None

    def available(self) -> list[Path]:
        """List the model files this backend could load, sorted by directory and name.

        Files whose name is not UTF-8 are left out: no request can name them.
        """
        return [
            path
            for directory in self.directories
            for path in _model_files(directory)
            if _is_text(path.name) and _is_file(path) and self._is_usable(path)
        ]

    def _is_usable(self, path: Path) -> bool:
        if is_compiled(path):
            return self._compiled
        return self._uncompiled or (not _is_file(_compiled_path(path)) and _is_dense_file(path))

    def _find(self, model: str) -> Path:
        if Path(model).is_absolute():
            return self._existing(self._inside(Path(model)))
        if os.sep in model or model.endswith(".tflite"):
            names: tuple[str, ...] = (model,)
        else:
            names = self._file_names(model)
        for directory in self.directories:
            for name in names:
                path = self._file_inside(directory / name)
                if path is not None:
                    return path
        for directory in self.directories:
            path = self._file_inside(directory / f"{model}.tflite")
            if path is not None and _is_dense_file(path):
                return path
        raise self._not_found(model, names)

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
        """The file of that path; None if it is not there, or links in a circle lead to it."""
        try:
            resolved = self._inside(path)
        except (OSError, RuntimeError):
            return None
        return resolved if _is_file(resolved) else None

    def _existing(self, path: Path) -> Path:
        if not path.is_file():
            raise ModelNotFoundError(f"no such model file: {path}")
        return path

    def _not_found(self, model: str, names: Sequence[str]) -> ModelNotFoundError | ModelUnsupportedError:
        graph = next(
            (d / f"{model}.tflite" for d in self.directories if _is_file(d / f"{model}.tflite")), None
        )
        if graph is not None:
            return ModelUnsupportedError(
                f"{graph} is not compiled for the Edge TPU; run: edgetpu_compiler {graph.name}"
            )
        stems = sorted({plain_stem(path) for path in self.available()})
        near = difflib.get_close_matches(model, stems, n=3)
        if near:
            hint = f"; did you mean {' or '.join(near)}?"
        else:
            hint = f"; there are {', '.join(stems[:10])}" if stems else "; there are no models"
        return ModelNotFoundError(f"no {' or '.join(names)} in {self._described()}{hint}")

    def _described(self) -> str:
        return ", ".join(map(str, self.directories)) or "model_dirs (which is empty)"
