"""The suite's own graphs by name: quantised TFLite models of operators that Google's compiler maps.

A name says everything about a graph, so that a node can ask a driver for it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetpu_driver.errors import EdgeTpuError, GraphError
from edgetpu_perception.graphs import features, looming, pattern, spot


class ModelNameError(EdgeTpuError, ValueError):
    """A name that is none of the suite's own graphs."""


@dataclass(frozen=True)
class _Family:
    """Graphs whose names have one form; `build` gets the groups of `pattern`."""

    form: str
    pattern: re.Pattern[str]
    build: Callable[..., bytes]


def _build_spot_color(digits: str, height: str, width: str) -> bytes:
    red, green, blue = np.frombuffer(bytes.fromhex(digits), np.int8).tolist()
    return spot.build((red, green, blue), int(height), int(width))


def _build_pattern(height: str, width: str, template_height: str, template_width: str) -> bytes:
    return pattern.build((int(height), int(width)), (int(template_height), int(template_width)))


_SIZE = r"([1-9]\d{0,3})x([1-9]\d{0,3})"

_FAMILIES = (
    _Family(
        "spot_bright_<height>x<width>",
        re.compile(f"spot_bright_{_SIZE}"),
        lambda height, width: spot.build(None, int(height), int(width)),
    ),
    _Family(
        "spot_color_<weights, 6 hex digits>_<height>x<width>",
        re.compile(f"spot_color_([0-9a-f]{{6}})_{_SIZE}"),
        _build_spot_color,
    ),
    _Family(
        "features<order>_<height>x<width>",
        re.compile(f"features([12])_{_SIZE}"),
        lambda order, height, width: features.build(int(height), int(width), int(order)),
    ),
    _Family(
        "looming_<height>x<width>",
        re.compile(f"looming_{_SIZE}"),
        lambda height, width: looming.build(int(height), int(width)),
    ),
    _Family(
        "pattern_<height>x<width>_<template height>x<template width>",
        re.compile(f"pattern_{_SIZE}_{_SIZE}"),
        _build_pattern,
    ),
)


def build(name: str) -> bytes:
    """Build the graph of that name, always the same bytes.

    Raises ModelNameError for any other name, and for sizes without a graph.
    """
    for family in _FAMILIES:
        match = family.pattern.fullmatch(name)
        if match is not None:
            try:
                return family.build(*match.groups())
            except GraphError as error:
                raise ModelNameError(
                    f"expected the name of a graph that can be built; got '{name}': {error}"
                ) from error
    forms = ", ".join(family.form for family in _FAMILIES)
    raise ModelNameError(f"expected one of {forms}; got '{name}'")


def write_model(name: str, directory: Path, data: bytes | None = None) -> Path:
    """Put a graph under that name into a directory, made when absent, and return the file's path.

    `data`: the graph; without it the suite's own one of that name. A file with these bytes is left alone; any
    other is replaced in one step, so that a reader never sees half a graph. Raises ModelNameError, and
    OSError when the directory cannot be written.
    """
    if data is None:
        data = build(name)
    path = directory / f"{name}.tflite"
    if path.is_file() and path.read_bytes() == data:
        return path
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=directory, prefix=f".{name}.", delete=False) as file:
        try:
            file.write(data)
            os.fchmod(file.fileno(), 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    return path
