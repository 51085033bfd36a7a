"""Cleans up what killed processes have left in the shared memory of Fast DDS: ports and segments."""

from __future__ import annotations

from edgetpu_driver.node_kit.middleware.fast_dds_memory.dead_segments import remove_dead_segments
from edgetpu_driver.node_kit.middleware.fast_dds_memory.zombie_ports import invalidate_zombie_ports


def clean_up_after_killed_processes() -> None:
    """Invalidate dead ports, then delete dead segments.

    To be called before a process makes a participant, and when one has ended.
    """
    invalidate_zombie_ports()  # first: it gives messages back into segments
    remove_dead_segments()


if __name__ == "__main__":
    clean_up_after_killed_processes()
