"""Warns if the shared memory of this computer has no room for the segments of Fast DDS.

Each process makes a segment when it starts. Without room for it Fast DDS prints that the platform has no
shared memory, and sends the messages of this process through UDP, which costs more processor time. Containers
of Docker have 64 MB, enough for three processes with the segments of config/fastdds.xml.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from edgetpu_driver.node_kit.middleware.fast_dds_memory.fast_dds_port import SHARED_MEMORY
from edgetpu_driver.node_kit.middleware.profile_variables import PROFILE_VARIABLES

DEFAULT_SEGMENT = 512 << 10
"""Size of a segment where no profile names another, bytes (manual of Fast DDS, shared memory transport)."""
_OVERHEAD = 1 << 20
"""Bytes that a process needs besides: 0.8 MB in a segment of 16 MB and 0.05 MB for each port, measured with
Fast DDS 2.14."""
_MB = 1 << 20

# Every node does this when it starts, and importing a parser of XML would take longer than all the rest.
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_SEGMENT_SIZE = re.compile(rb"<(?:\w+:)?segment_size>\s*(\d{1,15})\s*<")


def shortage_of_shared_memory(
    middleware: str, environment: Mapping[str, str], directory: Path = SHARED_MEMORY
) -> str | None:
    """How much memory a process that is about to start lacks, and the remedy; None if there is enough.

    middleware: the identifier of the RMW implementation, `rmw_fastrtps_cpp` for example.
    """
    if not middleware.startswith("rmw_fastrtps") or not directory.is_dir():
        return None
    free, needed = shutil.disk_usage(directory).free, segment_size(environment) + _OVERHEAD
    if free >= needed:
        return None
    return (
        f"{directory} has {free / _MB:.1f} MB left, and Fast DDS needs {needed / _MB:.1f} MB of it for each "
        "process: messages of this process go through UDP, which is slower. Enlarge it (Docker: --ipc=host, "
        "or --shm-size=1g)"
    )


def segment_size(environment: Mapping[str, str]) -> int:
    """Bytes of the segment of a process, as the profile in the environment says."""
    for variable in PROFILE_VARIABLES:
        try:
            profile = Path(environment.get(variable, "")).read_bytes()
        except OSError:
            continue
        sizes = _SEGMENT_SIZE.findall(_COMMENT.sub(b"", profile))
        return max(map(int, sizes), default=DEFAULT_SEGMENT)
    return DEFAULT_SEGMENT
