"""The state of the graph and of one node, as it is sent to a browser twice a second."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

_SEVERITY = ("ok", "stale", "warning", "error")
_DIGITS = 15
"""Largest integer that a browser represents exactly."""


def snapshot(view: Any, name: str) -> dict[str, Any]:
    """Return what the page shows of the graph and of one node, as JSON values."""
    now = time.monotonic()
    with view.lock:
        pictured = view.pictured()
        nodes = {
            each: {"pictured": each in pictured} | _summary(viewed, now)
            for each, viewed in view.nodes.items()
        }
        shown = view.nodes.get(name)
        curves = _curves(shown, now) if shown is not None and shown.log is not None else []
        return {"node": name, "nodes": nodes, "curves": curves}


def _summary(viewed: Any, now: float) -> dict[str, Any]:
    entries = viewed.diagnostics.values()
    worst = max(entries, key=lambda each: _SEVERITY.index(each.level), default=None)
    found: dict[str, Any] = {
        "running": viewed.running,
        "level": worst.level if worst else "ok",
        "problem": worst.message if worst and worst.level != "ok" else "",
        "dropped": sum(_count(each.values, "dropped") for each in entries),
        "failed": sum(_count(each.values, "failed") for each in entries),
    }
    if viewed.log is not None:
        pace = viewed.log.pace(now)
        found |= {
            "rate": round(pace.rate, 1),
            "latency": _number(1e3 * pace.latency),
            "gap": _number(1e3 * pace.gap),
            "valid": bool(viewed.log.last.get("valid", False)),
            "confidence": _number(viewed.log.last.get("confidence", math.nan)),
        }
    return found


def _count(values: Mapping[str, str], key: str) -> int:
    """A number of a diagnostic; 0 for any other text, which any node may publish."""
    text = values.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else 0


def _curves(viewed: Any, now: float) -> list[dict[str, Any]]:
    return [
        {
            "field": value.field,
            "meaning": value.meaning,
            "unit": value.unit,
            "value": _number(viewed.log.last.get(value.field, math.nan)),
            "sigma": _number(viewed.log.last.get(value.sigma, math.nan)) if value.sigma else None,
            "points": [[t, _number(v), _number(s)] for t, v, s in viewed.log.curves[value.field].points(now)],
        }
        for value in viewed.result.values
    ]


def _number(value: float | None) -> float | None:
    """A number for JSON, with the digits that a curve shows."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.5g}")
