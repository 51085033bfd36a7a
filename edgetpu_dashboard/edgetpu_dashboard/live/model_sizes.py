"""Sizes of models as text."""

from __future__ import annotations


def size_in_words(count: int) -> str:
    """Return a size in bytes as text, such as "12 kB"."""
    return f"{count} bytes" if count < 1000 else f"{count / 1e3:.0f} kB"
