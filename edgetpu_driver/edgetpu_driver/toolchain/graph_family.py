"""Families of graphs that are fully described by their names, and building a graph by name.

A joint graph feeds one input to the graphs of several names, its heads. It is named after them, such as
"looming_64x64_and_spot_bright_64x64".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgetpu_driver.errors import GraphError, ModelNameError
from edgetpu_driver.tflite.graph_draft import Graph

_AND = "_and_"
"""Separator of the heads' names in the name of a joint graph."""


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
    draft: Callable[..., Graph] | None = None
    """Builds the same graph as `build`, but as a draft for a head of a joint graph; raises GraphError too."""


def joint_name(heads: Sequence[str]) -> str:
    """Name of the joint graph with these heads, given in any order."""
    return _AND.join(sorted(heads))


def head_names(name: str) -> tuple[str, ...]:
    """Names of the heads of a joint graph, in their order; the name itself for any other graph."""
    return tuple(name.split(_AND))


def head_prefix(number: int) -> str:
    """Prefix of the names of a head's tensors in a joint graph. number: of the head, from 0."""
    return f"head{number}/"


def build_graph(name: str, families: Sequence[GraphFamily]) -> bytes:
    """Build the graph of a name: the bytes of a .tflite file.

    Raises ModelNameError for a name of no family, for unsupported sizes, and for heads that cannot be
    joined.
    """
    try:
        heads = head_names(name)
        if len(heads) > 1:
            return _joint_graph(name, heads, families)
        family, groups = _family_of(name, families)
        return family.build(*groups)
    except GraphError as error:
        raise ModelNameError(
            f"expected the name of a graph that can be built; got '{name}': {error}"
        ) from error


def draft_graph(name: str, families: Sequence[GraphFamily]) -> Graph:
    """Build the graph of a name as a head of a joint graph.

    Raises ModelNameError for a name of no family, and GraphError for unsupported sizes and for a family
    whose graphs cannot be heads.
    """
    family, groups = _family_of(name, families)
    if family.draft is None:
        raise GraphError(f"{family.form} cannot be a head of a joint graph")
    return family.draft(*groups)


def _joint_graph(name: str, heads: Sequence[str], families: Sequence[GraphFamily]) -> bytes:
    if list(heads) != sorted(heads):
        raise GraphError(f"expected the heads in alphabetical order: {joint_name(heads)}")
    graph = Graph(name)
    for number, head in enumerate(heads):
        graph.add_head(draft_graph(head, families), head_prefix(number))
    return graph.build()


def _family_of(name: str, families: Sequence[GraphFamily]) -> tuple[GraphFamily, tuple[str | Any, ...]]:
    """The family of a name, and the groups of its pattern."""
    for family in families:
        match = family.pattern.fullmatch(name)
        if match is not None:
            return family, match.groups()
    forms = ", ".join(family.form for family in families)
    raise ModelNameError(f"expected one of {forms}, with sizes from 1 to 9999; got '{name[:100]}'")
