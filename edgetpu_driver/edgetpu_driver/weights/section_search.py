"""Finds the sections of a graph's layers in the parameters of its compiled file, by their content.

The compiler writes sections one after another, mostly in the order of the graph; at branches the order
differs, and some sections are sent with every inference instead of being cached. Between the sections found
there are rows that route values between tiles, or bytes that are not understood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.parameters.layer_layout import LayerLayout
from edgetpu_driver.darwinn.parameters.section_codec import ALIGNMENT
from edgetpu_driver.tflite.model_reader import ABSENT, Subgraph, parse_model
from edgetpu_driver.weights.network_layers import (
    LayerSection,
    UnknownLayer,
    encode_network,
    with_channel_blocks,
    with_inputs_first,
    with_zero_bias,
    without_last_row,
)

_SAME_FACTOR = 1e-5
"""Relative difference between quotients of multipliers that counts as rounding."""


@dataclass(frozen=True, eq=False)
class PlacedSection:
    """A section and its place in the parameters."""

    section: LayerSection
    offset: int
    """Byte offset in the cached or streamed parameters, a multiple of 64."""
    streamed: bool
    """Whether it is in the streamed parameters (EXECUTION_ONLY) instead of the cached ones."""
    own_scales: bool = False
    """Whether the file's multipliers differ from the graph's, because it was compiled with other scales."""
    ambiguous: bool = False
    """Whether the same bytes are found elsewhere too, so that the layer's own place is not certain."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.section.data.size

    def of(self, parameters: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The view of the cached or streamed parameters that holds the section."""
        return parameters[self.offset : self.offset + self.size]


@dataclass(frozen=True, eq=False)
class NetworkSections:
    """The sections in a compiled file's parameters."""

    graph: Subgraph
    """The part of the graph that the chip runs."""
    placed: tuple[PlacedSection, ...]
    """In the order of the graph."""
    missing: tuple[UnknownLayer, ...]
    """Layers with weights that were not found, or have no known layout; each with the reason."""


def locate_sections(compiled: CompiledModel, graph: bytes) -> NetworkSections:
    """Find the section of every layer of a graph in the parameters of a file compiled from it.

    graph: the whole .tflite file that `compiled` was compiled from; layers outside the part that the chip
    runs are left out. A section is found where all its bytes are equal; failing that, for layers with a scale
    for every channel, where all bytes but the multipliers are equal (`own_scales`). Promised: placed sections
    do not overlap; each is 64-aligned, and its place holds `section.data`, which with `own_scales` has the
    file's multipliers. Layers that are not found are in `missing`; a SOFTMAX that is not found is left out,
    as most programs of a SOFTMAX have no section. ModelFormatError for a malformed graph.
    """
    part = parse_model(compiled.source_part(graph)).subgraphs[0]
    return _Search(compiled, part).run()


class _Search:
    def __init__(self, compiled: CompiledModel, graph: Subgraph) -> None:
        self._graph = graph
        self._blobs = compiled.parameters.arrays
        self._taken = [np.zeros(blob.size // ALIGNMENT, np.bool_) for blob in self._blobs]
        self._starts = [_starts(blob) for blob in self._blobs]

    def run(self) -> NetworkSections:
        sections, missing = encode_network(self._graph)
        found: dict[int, PlacedSection] = {}
        later = []
        for section in sorted(sections, key=lambda each: -each.data.size):
            placed = self._equal(section)
            if placed is None:
                later.append(section)
            else:
                found[section.operator] = placed
        for section in later:
            found_forms = (self._with_other_multipliers(each) for each in self._forms(section))
            placed = next((each for each in found_forms if each is not None), None)
            if placed is not None:
                found[section.operator] = placed
            elif section.tensor != ABSENT:
                reason = "the parameters of the file do not contain its weights in this layout"
                missing.append(UnknownLayer(section.operator, section.name, reason, is_absent=True))
        missing.sort(key=lambda each: each.operator)
        placed_in_order = tuple(found[index] for index in sorted(found))
        return NetworkSections(self._graph, self._marked(placed_in_order), tuple(missing))

    def _equal(self, section: LayerSection) -> PlacedSection | None:
        for form in self._forms(section):
            for streamed, offset in self._places(form.data[:ALIGNMENT]):
                data = self._free(streamed, offset, form.data.size)
                if data is not None and np.array_equal(data, form.data):
                    return self._take(PlacedSection(form, offset, streamed))
        return None

    def _places(self, row: NDArray[np.uint8]) -> Iterator[tuple[bool, int]]:
        """Where the parameters have a row of these 64 bytes: whether in the streamed ones, and the offset."""
        for streamed in (False, True):
            for offset in self._starts[streamed].get(row.tobytes(), ()):
                yield streamed, offset

    def _forms(self, section: LayerSection) -> Iterator[LayerSection]:
        """A section in the forms that compilers give it, the usual one first."""
        yield section
        if section.kind == "SOFTMAX":
            yield without_last_row(self._graph, section)
            return
        for other in (
            with_inputs_first(section),
            with_channel_blocks(self._graph, section),
            with_zero_bias(self._graph, section),
        ):
            if other is not None:
                yield other

    def _with_other_multipliers(self, section: LayerSection) -> PlacedSection | None:
        """The section where all but the multipliers is equal; these must be the graph's times one factor."""
        layout = section.layout
        if not isinstance(layout, LayerLayout) or not layout.header.multipliers:
            return None
        own = layout.decode_multipliers(section.data)
        probe = _row_without_multipliers(layout, section.data)
        found = []
        for streamed, place in self._places(section.data[probe : probe + ALIGNMENT]):
            data = self._free(streamed, place - probe, layout.size)
            if data is None:
                continue
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                ratio = layout.decode_multipliers(data) / own
            if not (np.isfinite(ratio).all() and np.allclose(ratio, ratio[0], rtol=_SAME_FACTOR)):
                continue
            same = section.data.copy()
            layout.encode_multipliers(layout.decode_multipliers(data), same)
            if np.array_equal(same, data):
                changed = replace(section, data=same)
                found.append(PlacedSection(changed, place - probe, streamed, own_scales=True))
        return self._take(found[0]) if len(found) == 1 else None

    def _free(self, streamed: bool, offset: int, size: int) -> NDArray[np.uint8] | None:
        """The bytes at a place; None if another section has them or they are past the end."""
        if offset < 0 or offset + size > self._blobs[streamed].size:
            return None
        if self._taken[streamed][offset // ALIGNMENT : (offset + size) // ALIGNMENT].any():
            return None
        return self._blobs[streamed][offset : offset + size]

    def _take(self, placed: PlacedSection) -> PlacedSection:
        start = placed.offset // ALIGNMENT
        self._taken[placed.streamed][start : start + placed.size // ALIGNMENT] = True
        return placed

    def _marked(self, placed: tuple[PlacedSection, ...]) -> tuple[PlacedSection, ...]:
        """The sections, marked as ambiguous if their bytes are also another section's or in no section."""
        counts = Counter(each.section.data.tobytes() for each in placed)
        return tuple(
            replace(each, ambiguous=counts[each.section.data.tobytes()] > 1 or self._is_elsewhere(each))
            if each.section.tensor != ABSENT
            else each
            for each in placed
        )

    def _is_elsewhere(self, placed: PlacedSection) -> bool:
        """Whether bytes that belong to no section equal those of this section."""
        data = placed.section.data
        places = (self._free(*place, data.size) for place in self._places(data[:ALIGNMENT]))
        return any(place is not None and np.array_equal(place, data) for place in places)


def _starts(blob: NDArray[np.uint8]) -> dict[bytes, list[int]]:
    """The offsets of all aligned rows of 64 bytes, by their content."""
    data = blob.tobytes()
    starts: dict[bytes, list[int]] = {}
    for offset in range(0, len(data) - ALIGNMENT + 1, ALIGNMENT):
        starts.setdefault(data[offset : offset + ALIGNMENT], []).append(offset)
    return starts


def _row_without_multipliers(layout: LayerLayout, data: NDArray[np.uint8]) -> int:
    """The offset of the first 64 bytes of a section, 64-aligned, that hold no multiplier."""
    other = data.copy()
    layout.encode_multipliers(-layout.decode_multipliers(data), other)
    same = (other == data).reshape(-1, ALIGNMENT).all(axis=1)
    return int(np.argmax(same)) * ALIGNMENT
