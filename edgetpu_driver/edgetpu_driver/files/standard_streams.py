"""Standard streams of a process that was started without some of them."""

from __future__ import annotations

import os


def fill_standard_streams() -> None:
    """Open /dev/null in place of each closed standard stream.

    Otherwise the next file or socket gets the stream's number, and the log is written to it.
    """
    for number in range(3):
        if not os.path.exists(f"/proc/self/fd/{number}"):
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(number, True)
