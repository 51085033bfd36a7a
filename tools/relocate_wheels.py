"""Point the CMake files of the ROS wheels at this interpreter.

The wheels name two folders of the machine on which they were built: those of Python's and NumPy's headers.
To build interface packages, CMake needs the folders of this environment.
"""

import re
import sysconfig
from pathlib import Path

import numpy

BUILD_MACHINE_FOLDERS = {
    re.compile(r"/opt/python/[^;\"\s]*/numpy/_core/include"): numpy.get_include(),
    re.compile(r"/opt/python/[^;\"\s]*/include/python3\.\d+"): sysconfig.get_path("include"),
}


def relocate(cmake_file: Path) -> None:
    """Replace the foreign folders in one file; files without such folders are not changed."""
    text = original = cmake_file.read_text()
    for foreign, local in BUILD_MACHINE_FOLDERS.items():
        text = foreign.sub(lambda _, local=local: local, text)
    if text != original:
        cmake_file.write_text(text)


for path in Path(sysconfig.get_path("data"), "share").rglob("*.cmake"):
    relocate(path)
