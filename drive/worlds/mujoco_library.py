"""Imports MuJoCo, which renders without a screen; `problem` says why if it cannot be used."""

from __future__ import annotations

import importlib
import os
from typing import Any

mujoco: Any = None
problem = ""
"""Why MuJoCo cannot be used, with the remedy; empty if it can."""


def cannot_render(error: Exception) -> str:
    """Return why MuJoCo does not render, with the remedy."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"MuJoCo cannot render here ({reason}): apt install libegl1 libgl1-mesa-dri"


os.environ.setdefault("MUJOCO_GL", "egl")  # rendering without a screen

try:
    mujoco = importlib.import_module("mujoco")
except ImportError as error:
    problem = f"MuJoCo is missing ({error}): start with make drive, which installs it"
except Exception as error:  # of MuJoCo or PyOpenGL, which look for the library that renders when imported
    problem = cannot_render(error)
