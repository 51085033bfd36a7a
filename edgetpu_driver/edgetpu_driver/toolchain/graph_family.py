"""Families of graphs that are fully described by their names, and building a graph by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetpu_driver.errors import GraphError, ModelNameError


@dataclass(frozen=True)
class GraphFamily:
    """Graphs whose names share one pattern."""

    form: str
    """Form of the names: "dense_<size>"."""
    pattern: re.Pattern[str]
    """Pattern of a whole name; sizes from 1 to 9999, without leading zeros."""
    build: Callable[..., bytes]
    """Builds the .tflite file from the groups of `pattern`, deterministically; GraphError for unsupported
    sizes."""
    purpose: str
    """Purpose of the graphs, in a few words."""
    standard: tuple[str, ...]
    """Names of the suite's default graphs."""


def build_graph(name: str, families: Sequence[GraphFamily]) -> bytes:
    """The graph of that name: the bytes of a .tflite file.

    Raises ModelNameError for a name of no family and for unsupported sizes.
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
