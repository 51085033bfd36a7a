"""The suite's own graphs by name: quantised TFLite models of operators that Google's compiler maps.

A name determines a graph completely, so a node can request it from a driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edgetpu_driver.files.file_access import write_file
from edgetpu_driver.tflite.graph_draft import Graph
from edgetpu_driver.toolchain.graph_family import GraphFamily, build_graph
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.graphs import looming_slopes as looming
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from edgetpu_perception.graphs import spot_tracker_evidence as spot
from edgetpu_perception.graphs.color_weights import COLORS


def _spot_color(digits: str, height: str, width: str) -> Graph:
    red, green, blue = np.frombuffer(bytes.fromhex(digits), np.int8).tolist()
    return spot.draft((red, green, blue), int(height), int(width))


def _pattern(height: str, width: str, template_height: str, template_width: str) -> Graph:
    return pattern.draft((int(height), int(width)), (int(template_height), int(template_width)))


def _family(
    form: str, pattern: str, draft: Callable[..., Graph], purpose: str, *standard: str
) -> GraphFamily:
    """A family of graphs that take an image, and so can be heads of a joint graph."""

    def build(*groups: str) -> bytes:
        return draft(*groups).build()

    return GraphFamily(form, re.compile(pattern), build, purpose, standard, draft)


_SIZE = r"([1-9]\d{0,3})x([1-9]\d{0,3})"

FAMILIES = (
    _family(
        "spot_bright_<height>x<width>",
        f"spot_bright_{_SIZE}",
        lambda height, width: spot.draft(None, int(height), int(width)),
        "spot_tracker: the brightest spot",
        spot.name(),
    ),
    _family(
        "spot_color_<weights, 6 hex digits>_<height>x<width>",
        f"spot_color_([0-9a-f]{{6}})_{_SIZE}",
        _spot_color,
        "spot_tracker: a spot of a colour",
        *(spot.name(color) for color in COLORS),
    ),
    _family(
        "features<order, 1 or 2>_<height>x<width>",
        f"features([12])_{_SIZE}",
        lambda order, height, width: features.draft(int(height), int(width), int(order)),
        "optical_flow and visual_compass",
        features.name(),
    ),
    _family(
        "looming_<height>x<width>",
        f"looming_{_SIZE}",
        lambda height, width: looming.draft(int(height), int(width)),
        "looming",
        looming.name(),
        looming.name(96, 96),
        looming.name(128, 128),
    ),
    _family(
        "pattern_<height>x<width>_<template height>x<template width>",
        f"pattern_{_SIZE}_{_SIZE}",
        _pattern,
        "pattern_tracker",
        pattern.name(),
    ),
)
"""The graph families that `edgetpu models build` offers from this package."""


def build(name: str) -> bytes:
    """Build the graph with this name; the bytes are always the same.

    Raises ModelNameError for unknown names and for sizes without a graph.
    """
    return build_graph(name, FAMILIES)


def write_model(name: str, directory: Path, data: bytes | None = None) -> Path:
    """Write a graph to `directory`/`name`.tflite and return the path; a missing directory is created.

    `data`: the graph; None for the suite's own graph with this name. A file with the same bytes is kept, any
    other is replaced atomically. Raises ModelNameError, and OSError if the directory is not writable.
    """
    path = directory / f"{name}.tflite"
    write_file(path, build(name) if data is None else data)
    return path
