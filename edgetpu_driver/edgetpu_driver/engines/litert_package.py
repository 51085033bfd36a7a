"""How to install LiteRT beside what is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def install_command() -> str:
    """The command that installs LiteRT and leaves NumPy 1 where it is installed.

    Without the limit pip replaces NumPy 1, which Ubuntu 22.04 and 24.04 have, by NumPy 2, with which their
    OpenCV cannot be imported.
    """
    try:
        has_numpy_1 = version("numpy").startswith("1.")
    except PackageNotFoundError:
        has_numpy_1 = False
    return "pip install ai-edge-litert" + (" 'numpy<2'" if has_numpy_1 else "")
