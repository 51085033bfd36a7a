"""Access to the dashboard with a token, in a real browser."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from testdata.running_nodes.dashboard_page import (
    SIZES,
    Dashboard,
    errors_in_console,
    needs_browser,
    page_of,
    text,
    wait,
)
from testdata.running_nodes.node_forker import NodeForker


@pytest.fixture(scope="module")
def dashboard(graph: Any, dashboard_forker: NodeForker) -> Iterator[Dashboard]:
    made = Dashboard(dashboard_forker, "token:=secret")
    try:
        graph.spin_until(lambda: made.answers() == 403)
        yield made
    finally:
        made.stop()


@needs_browser
def test_the_token_leaves_the_address_and_the_pages_that_back_goes_to(
    dashboard: Dashboard, chromium: Any
) -> None:
    with page_of(dashboard, SIZES["wide"], chromium) as browser:
        assert "expected the token" in text(browser, "body")
        browser.get(f"{dashboard.address}?token=secret#spot_tracker")
        wait(browser, lambda: text(browser, "#connection") == "connected")
        wait(browser, lambda: text(browser, ".stage .title") == "spot_tracker")
        assert browser.current_url == f"{dashboard.address}#spot_tracker"
        visited = browser.execute_cdp_cmd("Page.getNavigationHistory", {})["entries"]
        assert [each["url"] for each in visited if "secret" in each["url"]] == []
        errors_in_console(browser)  # of the page that was refused
        browser.refresh()
        wait(browser, lambda: text(browser, "#connection") == "connected")
        assert errors_in_console(browser) == []


def test_an_upload_that_is_too_large_is_refused_before_it_is_sent(dashboard: Dashboard) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port)
    connection.putrequest("POST", "/_nicegui/client/x/upload/1?token=secret")
    connection.putheader("Content-Length", str(200 * 2**20))
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (413, b"expected a request of at most 134284288 bytes\n")
    connection.close()
