"""Assigns models to sticks."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import accumulate, combinations, pairwise
from typing import TypeVar

_Group = TypeVar("_Group", bound=Hashable)


class Spreading(Enum):
    """How the models of a host are assigned to its sticks."""

    REPLICATED = "replicated"
    """Every stick holds every model."""
    SPREAD = "spread"
    """Each model is on one stick; models that were compiled together are on the same one."""


def spread(
    sizes: Mapping[_Group, int], present: Mapping[_Group, int], sticks: Sequence[int]
) -> dict[_Group, int]:
    """Assign groups of models to sticks, so that the sticks hold about as much.

    sizes: bytes of parameters of each group. present: the sticks they are on; a group stays there unless the
    stick is gone, or moving it brings the fullest stick closer to the emptiest. sticks: numbers of those that
    are there.
    """
    if not sticks:
        return dict(present)
    assigned = {group: stick for group, stick in present.items() if group in sizes and stick in sticks}
    load = dict.fromkeys(sticks, 0)
    for group, stick in assigned.items():
        load[stick] += sizes[group] + 1  # a model without parameters is work as well
    for group in sorted(sizes.keys() - assigned.keys(), key=lambda group: (-sizes[group], str(group))):
        emptiest = min(sticks, key=lambda stick: load[stick])
        assigned[group] = emptiest
        load[emptiest] += sizes[group] + 1
    while True:
        emptiest, fullest = min(load, key=lambda s: load[s]), max(load, key=lambda s: load[s])
        gap = load[fullest] - load[emptiest]
        movable = [group for group, on in assigned.items() if on == fullest and sizes[group] + 1 < gap]
        if not movable:
            return assigned
        moved = min(movable, key=lambda group: abs(gap / 2 - sizes[group] - 1))
        assigned[moved] = emptiest
        load[fullest] -= sizes[moved] + 1
        load[emptiest] += sizes[moved] + 1


def stages(sizes: Sequence[int], sticks: Sequence[int]) -> list[list[int]]:
    """Assign the stages of a pipeline to sticks, so that they work at the same time: the sticks of each.

    sizes: bytes of parameters of each stage, as a measure of its work. With fewer sticks than stages, each
    stick has consecutive ones; with more, the largest stages have several sticks.
    """
    if len(sticks) >= len(sizes):
        counts = [1] * len(sizes)
        for _ in range(len(sticks) - len(sizes)):
            largest = max(range(len(sizes)), key=lambda stage: (sizes[stage] + 1) / counts[stage])
            counts[largest] += 1
        ends = accumulate(counts)
        return [list(sticks[end - count : end]) for count, end in zip(counts, ends, strict=True)]
    possible = combinations(range(1, len(sizes)), len(sticks) - 1)
    cuts = min(possible, key=lambda cuts: _loads(sizes, cuts))
    return [[sticks[bisect(cuts, stage)]] for stage in range(len(sizes))]


def _loads(sizes: Sequence[int], cuts: Sequence[int]) -> list[int]:
    """The work of each stick if the stages are divided before those in `cuts`, the largest first."""
    parts = pairwise((0, *cuts, len(sizes)))
    return sorted((sum(size + 1 for size in sizes[first:last]) for first, last in parts), reverse=True)


def resident_together(models: Iterable[tuple[_Group, int, int]]) -> list[list[_Group]]:
    """Group models whose parameters one stick can have in its memory at the same time.

    models: each with its caching token, 0 for none, and the rows of the memory that it fills.
    """
    groups: list[tuple[int, int, list[_Group]]] = []
    for model, token, region in models:
        for index, (other, filled, members) in enumerate(groups):
            if token and token == other and not filled & region:
                groups[index] = token, filled | region, [*members, model]
                break
        else:
            groups.append((token, region, [model]))
    return [members for _, _, members in groups]
