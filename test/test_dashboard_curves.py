"""Curves in the browser, which gets each of their points once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from testdata.running_nodes.dashboard_page import errors_in_console, needs_browser

from edgetpu_dashboard.web import __file__ as web_package  # isort: skip

pytestmark = needs_browser


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """An empty page with the script of the curves."""
    with open(web_package.replace("__init__.py", "static/curves.js"), encoding="utf-8") as script:
        text = script.read()
    chromium.get("about:blank")
    errors_in_console(chromium)
    chromium.execute_script(f"{text}; window.edgetpuCurves = edgetpuCurves")
    yield chromium
    assert errors_in_console(chromium) == []


def whole(page: Any, now: float, **points: tuple[bool, list[list[float]]]) -> dict[str, list[list[float]]]:
    """The points of each curve after a message, with times before now."""
    curves = [{"id": name, "anew": anew, "points": new} for name, (anew, new) in points.items()]
    found = page.execute_script("return edgetpuCurves.whole(arguments[0], arguments[1])", curves, now)
    return {each["id"]: each["points"] for each in found}


def test_points_are_added_and_those_that_have_changed_are_replaced(page: Any) -> None:
    whole(page, 10.0, x=(True, [[1, 9.0, 5.0, 0.5], [2, 9.5, 6.0, 0.5]]))
    found = whole(page, 11.0, x=(False, [[2, 9.75, 6.5, 0.5], [3, 10.5, 7.0, 0.5]]))
    assert found == {"x": [[-2.0, 5.0, 0.5], [-1.25, 6.5, 0.5], [-0.5, 7.0, 0.5]]}


def test_points_older_than_a_minute_are_forgotten(page: Any) -> None:
    whole(page, 10.0, x=(True, [[1, 9.0, 5.0, 0.5], [2, 9.5, 6.0, 0.5]]))
    assert whole(page, 69.25, x=(False, [])) == {"x": [[-59.75, 6.0, 0.5]]}


def test_a_curve_that_begins_anew_has_no_earlier_points(page: Any) -> None:
    whole(page, 10.0, x=(True, [[1, 9.0, 5.0, 0.5]]), y=(True, [[1, 9.0, 1.0, 0.0]]))
    found = whole(page, 11.0, x=(True, [[4, 10.5, 7.0, 0.5]]), y=(False, []))
    assert found == {"x": [[-0.5, 7.0, 0.5]], "y": [[-2.0, 1.0, 0.0]]}
    page.execute_script("edgetpuCurves.forget()")
    assert whole(page, 11.0, y=(False, [])) == {"y": []}
