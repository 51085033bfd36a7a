"""Point the CMake files of the ROS wheels at this interpreter.

The wheels carry two folders of the machine they were built on: Python's headers and NumPy's headers. CMake
needs the ones of this environment to build interface packages.
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
    """Rewrite the foreign folders in one file; files without any are left alone."""
    text = original = cmake_file.read_text()
    for foreign, local in BUILD_MACHINE_FOLDERS.items():
        text = foreign.sub(lambda _, local=local: local, text)
    if text != original:
        cmake_file.write_text(text)


for path in Path(sysconfig.get_path("data"), "share").rglob("*.cmake"):
    relocate(path)
