"""Leaves open sticks to the process that opened them: a process forked from it does not touch them."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

NOT_OURS = "belongs to the process that opened it; open another one here"
"""The end of the message for what uses a stick of the other process."""


class StickHolder(Protocol):
    """Has a stick open."""

    def disown(self) -> None:
        """Drop the stick without any transfer, and refuse every further call.

        A lock may be held by a thread that exists in the other process only, so it is replaced.
        """
        ...


_holders: weakref.WeakSet[StickHolder] = weakref.WeakSet()
"""All holders of this process."""


def disown_when_forked(holder: StickHolder) -> None:
    """Have a holder disown its stick in every process that is forked from this one."""
    _holders.add(holder)


def _disown_all() -> None:
    for holder in list(_holders):
        holder.disown()


os.register_at_fork(after_in_child=_disown_all)
