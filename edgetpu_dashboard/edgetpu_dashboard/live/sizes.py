"""Sizes of models in words."""

from __future__ import annotations


def size_in_words(count: int) -> str:
    """Say how large something of so many bytes is."""
    return f"{count} bytes" if count < 1000 else f"{count / 1e3:.0f} kB"
