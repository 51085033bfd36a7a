"""Leaves open sticks to the process that opened them: a process forked from it does not touch them."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

NOT_OURS = "belongs to the process that opened it; open another one here"
"""End of the message to a process that uses a stick of the process that it was forked from."""


class StickHolder(Protocol):
    """An object that has a stick open."""

    def disown(self) -> None:
        """Drop the stick without any transfer, and refuse every further call.

        Locks are replaced, because they may be held by threads that exist only in the other process.
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
