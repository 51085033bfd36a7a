"""The state of the graph and of one node, as it is sent to a browser twice a second."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from edgetpu_dashboard.live.diagnostic_readings import SEVERITY, Reading
from edgetpu_dashboard.live.message_numbers import meaning_of
from edgetpu_dashboard.live.result_curves import Curve
from edgetpu_driver.node_kit.diagnostics import ImageCounters

_COUNTS = tuple(each.name for each in fields(ImageCounters))
"""Values of diagnostics that only grow, and so have no curves."""
_DIGITS = 15
"""Digits of the largest integers that a browser represents exactly."""
_COUNTED = 5.5
"""Time over which the rate of a counter is measured, s: its values come once a second, or later if busy."""
_SHORTEST_COUNT = 0.5
"""Least time between two values of a counter that give a rate, s; closer ones have arrived late."""
_LONGEST_GAP = 1.0
"""Longest time between two points of a curve that are joined, s."""
_LONGEST_GAP_OF_READINGS = 3.0
"""The same for diagnostics, which come once a second."""


NewPoints = Callable[[Curve], dict[str, Any]]
"""Returns the points of a curve that are to be sent, as `SentPoints.new_points`."""


class SentPoints:
    """The points of curves that a browser has received, so that each is sent once."""

    def __init__(self) -> None:
        self._counts: WeakKeyDictionary[Curve, int] = WeakKeyDictionary()
        """Number of values at the last message."""

    def new_points(self, curve: Curve, now: float) -> dict[str, Any]:
        """Return the points that are new or have changed, and whether these are all points."""
        sent = self._counts.get(curve)
        self._counts[curve] = curve.count
        points = curve.points(now, sent or 0)
        return {
            "complete": sent is None,
            "points": [[each.number, each.time, _number(each.value), _number(each.sigma)] for each in points],
        }


def snapshot(view: Any, name: str, sent: SentPoints | None = None) -> dict[str, Any]:
    """Return what the page shows of the graph and of one node, as JSON values.

    sent: points to leave out, to which the returned ones are added. None: no points are left out.
    """
    now = time.monotonic()
    sent = sent or SentPoints()
    with view.lock:
        pictured = view.pictured()
        nodes = {
            each: {"pictured": each in pictured} | _summary(viewed, now)
            for each, viewed in view.nodes.items()
        }
        shown = view.nodes.get(name)
        found: dict[str, Any] = {
            "time": round(now, 3),
            "node": name,
            "nodes": nodes,
            "curves": [],
            "facts": {},
        }
        if shown is not None:
            # Cached, because a node may have a curve twice, under two names.
            found["curves"] = _all_curves(view, shown, cache(lambda curve: sent.new_points(curve, now)))
            found["facts"] = {
                entry: {each.name: _fact(each) for each in readings.values()}
                for entry, readings in shown.readings.items()
            }
        return found


def _summary(viewed: Any, now: float) -> dict[str, Any]:
    entries = viewed.diagnostics.values()
    worst = max(entries, key=lambda each: SEVERITY.index(each.level), default=None)
    found: dict[str, Any] = {
        "running": viewed.running,
        "level": worst.level if worst else "ok",
        "problem": worst.message if worst and worst.level != "ok" else "",
        "dropped": sum(_count(each.values, "dropped") for each in entries),
        "failed": sum(_count(each.values, "failed") for each in entries),
    }
    curves = viewed.curves or next((signal.curves for signal in viewed.signals if signal.published), None)
    if curves is not None:
        pace = curves.pace(now)
        found |= {
            "rate": round(pace.rate, 1),
            "latency": _number(1e3 * pace.latency),
            "gap": _number(1e3 * pace.gap),
        }
    elif (rate := rate_of_results(viewed.readings, now)) is not None:
        found |= {"rate": round(rate, 1), "latency": None, "gap": None}
    if viewed.curves is not None:
        found |= {
            "valid": bool(viewed.curves.last.get("valid", False)),
            "confidence": _number(viewed.curves.last.get("confidence", math.nan)),
            "word": viewed.word,
        }
    return found


def _fact(reading: Reading) -> str:
    unknown = reading.text.lower() == "nan"
    return "unknown" if unknown else f"{reading.text} {reading.unit}".rstrip()


def rate_of_results(readings: Mapping[str, Mapping[str, Reading]], now: float) -> float | None:
    """Results per second in the last seconds by the counters of diagnostics; None if they do not tell."""
    counters = [each["results"].curve for each in readings.values() if "results" in each]
    recent = [
        [
            (each.time, each.value)
            for each in curve.points(now)
            if each.time > now - _COUNTED and each.value is not None
        ]
        for curve in counters
        if curve is not None
    ]
    rates = [
        (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
        for points in recent
        if len(points) > 1 and points[-1][0] - points[0][0] >= _SHORTEST_COUNT
    ]
    rate = max(sum(rates), 0.0)  # a node that has restarted counts from 0
    return rate if rates and math.isfinite(rate) else None


def _count(values: Mapping[str, str], key: str) -> int:
    """A number of a diagnostic; 0 for any other text, which any node may publish."""
    text = values.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else 0


def _all_curves(view: Any, viewed: Any, new: NewPoints) -> list[dict[str, Any]]:
    """Curves of a node's results, of results that it receives, of other numbers, and of diagnostics."""
    found = _curves_of_results(viewed, new) if viewed.curves is not None else []
    for name in viewed.takes:
        other = view.nodes.get(name)
        if other is not None and other.curves is not None:
            topic = f"{name}/{other.result.topic}"
            found += _marked(_curves_of_results(other, new), topic, published=False)
    for signal in sorted(viewed.signals, key=lambda each: (not each.published, each.topic)):
        found += _marked(_curves_of_signal(signal.curves, new), signal.topic, published=signal.published)
    for entry, readings in viewed.readings.items():
        subject = entry.partition(": ")[2]
        curves = [
            _curve_of_reading(entry, each, new)
            for key, each in readings.items()
            if key not in (*_COUNTS, subject)
        ]
        found += [each for each in curves if each is not None]
    return found


def _curve(field: str, meaning: str, unit: str, new: dict[str, Any]) -> dict[str, Any]:
    """The fields that all curves have; no last value yet."""
    return {
        "id": field,
        "field": field,
        "meaning": meaning,
        "unit": unit,
        "value": None,
        "sigma": None,
        "words": [],
        "gap": _LONGEST_GAP,
    } | new


def _curves_of_results(viewed: Any, new: NewPoints) -> list[dict[str, Any]]:
    last = viewed.curves.last
    return [
        _curve(value.field, value.meaning, value.unit, new(viewed.curves.by_field[value.field]))
        | {
            "value": _number(last.get(value.field, math.nan)),
            "sigma": _number(last.get(value.sigma, math.nan)) if value.sigma else None,
        }
        for value in viewed.result.values
    ]


def _curves_of_signal(curves: Any, new: NewPoints) -> list[dict[str, Any]]:
    return [
        _curve(field, *meaning_of(field), new(curve)) | {"value": _number(curves.last.get(field))}
        for field, curve in curves.by_field.items()
    ]


def _marked(curves: list[dict[str, Any]], topic: str, *, published: bool) -> list[dict[str, Any]]:
    """Name the topic, and its direction, in curves of another topic than that of the results."""
    way = f"{'published on' if published else 'received on'} {topic}"
    return [
        each
        | {
            "id": f"{topic} {each['field']}",
            "meaning": f"{each['meaning']}, {way}" if each["meaning"] else way,
        }
        for each in curves
    ]


def _curve_of_reading(entry: str, reading: Any, new: NewPoints) -> dict[str, Any] | None:
    if reading.curve is None:
        return None
    words = [*reading.words]
    return _curve(reading.name, f"diagnostics, {entry}", reading.unit, new(reading.curve)) | {
        "id": f"{entry} {reading.name}",
        "value": _number(reading.value),
        "sigma": _number(reading.sigma),
        "words": words,
        "gap": _LONGEST_GAP_OF_READINGS,
    }


def _number(value: float | None) -> float | None:
    """A number for JSON, with the digits that a curve shows."""
    if value is None or not math.isfinite(value):
        return None
    shown = float(f"{value:.5g}")
    return shown if math.isfinite(shown) else value  # the largest number, rounded up
