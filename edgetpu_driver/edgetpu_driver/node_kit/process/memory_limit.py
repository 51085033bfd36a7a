"""The memory that a process of nodes may use."""

from __future__ import annotations

import os
import resource

MEMORY_VARIABLE = "EDGETPU_MEMORY_LIMIT"
"""Environment variable with the limit, MiB; 0: no limit, anything but a number: the default."""

DEFAULT_MEMORY = 2048
LEAST_MEMORY = 256
"""The default, and the least with which a process starts, MiB. The largest requests take half of the default.

Fast DDS allocates as much memory as a damaged request claims to hold, up to 8 GiB, unless `damaged_requests`
has checked it. With a limit, that allocation fails.
"""


def limit_memory() -> None:
    """Limit the memory of this process as the environment says."""
    value = os.environ.get(MEMORY_VARIABLE, "")
    # Ten digits are more than any computer's memory. int() refuses thousands of them.
    limit = (int(value[:10]) if value.isdecimal() else DEFAULT_MEMORY) << 20
    if limit:
        limit = max(limit, LEAST_MEMORY << 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    present = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
    if limit and limit < min(present, default=limit + 1):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
