"""Imports MuJoCo for rendering without a screen; `problem` says why it cannot be used, if so."""

from __future__ import annotations

import importlib
import os
from typing import Any

mujoco: Any = None
problem = ""
"""Why MuJoCo cannot be used, with the remedy; empty if it can."""


def cannot_render(error: Exception) -> str:
    """Return the reason why MuJoCo does not render, with the remedy."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"MuJoCo cannot render here ({reason}): apt install libegl1 libgl1-mesa-dri"


os.environ.setdefault("MUJOCO_GL", "egl")  # rendering without a screen

try:
    mujoco = importlib.import_module("mujoco")
except ImportError as error:
    problem = f"MuJoCo is missing ({error}): start with make drive, which installs it"
except Exception as error:  # MuJoCo and PyOpenGL load the rendering library when they are imported
    problem = cannot_render(error)
