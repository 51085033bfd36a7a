"""Families of graphs whose names say everything about them, and building one of them by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetpu_driver.errors import GraphError, ModelNameError


@dataclass(frozen=True)
class GraphFamily:
    """Graphs whose names have one form."""

    form: str
    """How the names look: "dense_<size>"."""
    pattern: re.Pattern[str]
    """What matches all of such a name; sizes from 1 to 9999, without leading zeros."""
    build: Callable[..., bytes]
    """Gives the .tflite file for the groups of `pattern`, always the same bytes; GraphError for sizes
    without a graph."""
    purpose: str
    """What the graphs are for, in a few words."""
    standard: tuple[str, ...]
    """Names of those the suite uses unless told otherwise."""


def build_graph(name: str, families: Sequence[GraphFamily]) -> bytes:
    """The graph of that name: the bytes of a .tflite file.

    Raises ModelNameError for a name of no family, and for sizes without a graph.
    """
    for family in families:
        match = family.pattern.fullmatch(name)
        if match is not None:
            try:
                return family.build(*match.groups())
            except GraphError as error:
                raise ModelNameError(
                    f"expected the name of a graph that can be built; got '{name}': {error}"
                ) from error
    forms = ", ".join(family.form for family in families)
    raise ModelNameError(f"expected one of {forms}, with sizes from 1 to 9999; got '{name[:100]}'")
