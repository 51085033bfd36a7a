"""Reads the graph of a compiled model, such as the file next to it."""

from __future__ import annotations

from pathlib import Path

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.model_reader import parse_model


def read_source_graph(path: Path) -> bytes:
    """The content of a graph; errors name its file, which may be one of several.

    Raises ModelNotFoundError if it cannot be read, ModelFormatError if it is malformed.
    """
    data = read_model_file(path)
    try:
        parse_model(data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from None
    return data
