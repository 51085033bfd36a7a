"""Which sticks hold which models."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from typing import TypeVar

_Group = TypeVar("_Group", bound=Hashable)


class Spreading(Enum):
    """How the models of a host are assigned to its sticks."""

    REPLICATED = "replicated"
    """Every stick holds every model."""
    SPREAD = "spread"
    """Each model is on one stick, and those that were compiled together are on the same."""


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
        load[stick] += sizes[group] + 1  # a model without parameters is work, too
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
