"""Packages of Python as pip knows them: the version of an installed one, and how to install one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

ON_EXTERNALLY_MANAGED = " (on Debian and Ubuntu in a virtual environment, or with --break-system-packages)"
"""What to add to a command of pip that may be for the system's Python."""


def installed_version(name: str) -> str:
    """The version of an installed package; empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
