"""Compiled files in memory for graphs without one, made by retargeting a compiled file of the same form."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.files.compiled_file_names import compiled_path, is_compiled
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain.dense_compiler import is_dense
from edgetpu_driver.toolchain.retargeting.compiled_sources import retarget_beside, retargeting_sources

_log = logging.getLogger(__name__)
_logged: deque[tuple[Path, str]] = deque(maxlen=256)
"""Files and remarks that were logged. Length chosen: more models than a driver holds."""


def retargeted(
    backend: Backend, files: Sequence[tuple[Path, bytes]]
) -> tuple[Sequence[tuple[Path, bytes]], str]:
    """The files to read for a model, and a remark for users on what they were made from; empty if unchanged.

    A graph x.tflite next to a compiled file that can be retargeted to it becomes x_edgetpu.tflite, which is
    not written to disk. All other files stay, as do all files if the backend runs plain graphs. Raises
    ModelFormatError, and ModelUnsupportedError with the reason if the compiled file of the same form cannot
    be retargeted.
    """
    if not backend.compiled or backend.uncompiled or len(files) != 1:
        return files, ""
    path, data = files[0]
    if is_compiled(path) or not _is_graph(data) or not retargeting_sources(path):
        return files, ""
    made = retarget_beside(path, data)
    remark = f"made from {made.source.name}: {made.model.remark}"
    if (path, made.model.remark) not in _logged:
        _logged.append((path, made.model.remark))
        _log.info("the program of %s is %s", path.name, remark)
    return [(compiled_path(path), made.model.file)], remark


def _is_graph(data: bytes) -> bool:
    """Whether a file is a graph that needs a program: not compiled, and not a matrix."""
    try:
        compiled = parse_model(data).subgraphs[0].edgetpu_operators
    except ModelFormatError:
        return False
    return not compiled and not is_dense(data)
