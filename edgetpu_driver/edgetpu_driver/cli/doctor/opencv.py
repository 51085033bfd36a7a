"""Finding on OpenCV: whether it can be imported beside the NumPy that is installed."""

from __future__ import annotations

import subprocess
import sys

from edgetpu_driver.cli.doctor.finding import Finding, fine, missing, note
from edgetpu_driver.cli.doctor.pip_packages import ON_EXTERNALLY_MANAGED, installed_version

_PACKAGES = ("opencv-python-headless", "opencv-python", "opencv-contrib-python")
"""Names on PyPI. Python knows no version of Ubuntu's package."""
_IMPORT = "import cv2; print(cv2.__version__)"
_NOT_FOUND = "No module named 'cv2'"
_BUILT_FOR_NUMPY_1 = ("_ARRAY_API not found", "multiarray failed to import")
"""What Python says of a module that was built for NumPy 1 when it is imported beside NumPy 2."""
_IMPORT_TIMEOUT = 60.0
"""Time for the import, s; it takes less than one. Uncritical."""


def opencv() -> Finding:
    """Whether OpenCV, which nodes with images need, is installed and can be imported.

    It is imported in a process of its own, because it may crash beside another NumPy than it was built for.
    """
    error = _import_error()
    if not error:
        return fine("OpenCV", next(filter(None, map(installed_version, _PACKAGES)), "of the system"))
    if error.endswith(_NOT_FOUND):
        return note("OpenCV", "not installed; nodes with images need it", "sudo apt install python3-opencv")
    numpy = installed_version("numpy")
    if numpy and not numpy.startswith("1.") and any(sign in error for sign in _BUILT_FOR_NUMPY_1):
        return missing(
            "OpenCV",
            f"cannot be imported, so no node with images starts: it was built for NumPy 1, not {numpy}",
            "pip install 'numpy<2'" + ON_EXTERNALLY_MANAGED,
        )
    return missing(
        "OpenCV",
        f"cannot be imported, so no node with images starts: {error.splitlines()[-1]}",
        "sudo apt reinstall python3-opencv, or pip install --force-reinstall opencv-python-headless",
    )


def _import_error() -> str:
    """What Python writes when OpenCV cannot be imported; empty if it can."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _IMPORT],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_IMPORT_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the import takes more than {_IMPORT_TIMEOUT:g} s"
    if done.returncode == 0:
        return ""
    end = f"Python ended with status {done.returncode}"  # negative: the number of a signal
    return done.stderr.strip() + (f"\n{end}" if done.returncode < 0 or not done.stderr.strip() else "")
