"""One measured figure, the way `make accuracy` and `make bench` write it."""

from __future__ import annotations

from measure.rows import Row

__all__ = ["Row"]
