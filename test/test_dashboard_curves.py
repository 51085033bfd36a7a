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
    curves = [{"id": name, "complete": complete, "points": new} for name, (complete, new) in points.items()]
    found = page.execute_script("return edgetpuCurves.whole(arguments[0], arguments[1])", curves, now)
    return {each["id"]: each["points"] for each in found}


def test_points_are_added_and_those_that_have_changed_are_replaced(page: Any) -> None:
    whole(page, 10.0, x=(True, [[1, 9.0, 5.0, 0.5], [2, 9.5, 6.0, 0.5]]))
    found = whole(page, 11.0, x=(False, [[2, 9.75, 6.5, 0.5], [3, 10.5, 7.0, 0.5]]))
    assert found == {"x": [[-2.0, 5.0, 0.5], [-1.25, 6.5, 0.5], [-0.5, 7.0, 0.5]]}


def test_points_older_than_a_minute_are_forgotten(page: Any) -> None:
    whole(page, 10.0, x=(True, [[1, 9.0, 5.0, 0.5], [2, 9.5, 6.0, 0.5]]))
    assert whole(page, 69.25, x=(False, [])) == {"x": [[-59.75, 6.0, 0.5]]}


def test_a_complete_curve_replaces_the_earlier_points(page: Any) -> None:
    whole(page, 10.0, x=(True, [[1, 9.0, 5.0, 0.5]]), y=(True, [[1, 9.0, 1.0, 0.0]]))
    found = whole(page, 11.0, x=(True, [[4, 10.5, 7.0, 0.5]]), y=(False, []))
    assert found == {"x": [[-0.5, 7.0, 0.5]], "y": [[-2.0, 1.0, 0.0]]}
    page.execute_script("edgetpuCurves.forget()")
    assert whole(page, 11.0, y=(False, [])) == {"y": []}


def test_a_point_alone_is_drawn_with_its_band(page: Any) -> None:
    curve = {
        "id": "x",
        "field": "x",
        "meaning": "",
        "unit": "",
        "value": 1.0,
        "sigma": 0.5,
        "words": [],
        "gap": 1,
    }
    page.execute_script(
        "document.body.innerHTML = '<div id=curves></div>';"
        "document.head.innerHTML = '<style>canvas { width: 330px; height: 110px; }</style>';"
        "edgetpuCurves.draw([arguments[0]])",
        curve | {"points": [[-30.0, 1.0, 0.5]]},
    )
    blue = (
        "const canvas = document.querySelector('canvas');"
        "const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        "const rows = new Set();"
        "for (let place = 0; place < data.length; place += 4)"
        "  if (data[place + 2] > 2 * data[place] && data[place + 3] > arguments[0])"
        "    rows.add(Math.floor(place / 4 / canvas.width));"
        "return rows.size"
    )
    line, band = (page.execute_script(blue, opacity) for opacity in (200, 40))
    assert 1 <= line <= 3
    assert band > 70
