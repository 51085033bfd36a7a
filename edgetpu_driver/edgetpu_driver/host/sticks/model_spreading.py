"""Spreads models over sticks, as the parameter `spreading` says."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import accumulate
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
    """Assign groups of models to sticks, so that all sticks hold about the same number of bytes.

    sizes: bytes of parameters of each group. present: the stick that each group is on; the group stays there
    unless the stick is gone, or moving it brings the fullest stick closer to the emptiest. sticks: numbers of
    the present sticks.
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
    """Assign the stages of a pipeline to sticks that work at the same time; returns the sticks of each stage.

    sizes: bytes of parameters of each stage, as a measure of its work. With fewer sticks than stages, each
    stick has consecutive stages; with more, the largest stages have several sticks.
    """
    if len(sticks) >= len(sizes):
        counts = [1] * len(sizes)
        for _ in range(len(sticks) - len(sizes)):
            largest = max(range(len(sizes)), key=lambda stage: (sizes[stage] + 1) / counts[stage])
            counts[largest] += 1
        ends = accumulate(counts)
        return [list(sticks[end - count : end]) for count, end in zip(counts, ends, strict=True)]
    cuts = _cuts([size + 1 for size in sizes], len(sticks))
    return [[sticks[bisect(cuts, stage)]] for stage in range(len(sizes))]


def _cuts(work: Sequence[int], parts: int) -> tuple[int, ...]:
    """The stages before which to cut, so that the part with the most work has as little as possible.

    Of several such divisions, the one whose next largest part has the least work, and so on; then the one
    that cuts first.
    """
    before, count = [0, *accumulate(work)], len(work)
    # By first stage: the work of the parts that follow, the most first, and the cuts between them. At first
    # the stages that follow are one part; each round divides them into one more.
    best: list[tuple[list[int], tuple[int, ...]]] = [([before[-1] - each], ()) for each in before[:-1]]
    for rest in range(1, parts):
        best = [
            min(
                (sorted([before[cut] - before[first], *best[cut][0]], reverse=True), (cut, *best[cut][1]))
                for cut in range(first + 1, count - rest + 1)
            )
            for first in range(count - rest)
        ]
    return best[0][1]


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
