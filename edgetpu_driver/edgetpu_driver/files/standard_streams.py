"""Standard streams of a process that was started without some of them."""

from __future__ import annotations

import os


def fill_standard_streams() -> None:
    """Open /dev/null as each of the standard streams that is closed.

    Otherwise the next file or socket takes its place, and the log is written to that.
    """
    for number in range(3):
        if not os.path.exists(f"/proc/self/fd/{number}"):
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(number, True)
