"""Draws the pictures of the dashboard for the README into docs/images, from `make live` in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from testdata.running_nodes.dashboard_page import (  # noqa: E402
    SIZES,
    Dashboard,
    empty_browser,
    page_of,
    pictures,
    press,
    show,
    text,
    wait,
)
from testdata.running_nodes.live_tools import LIVE_TOOLS  # noqa: E402

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402  # isort: skip
from selenium.webdriver.common.by import By  # noqa: E402  # isort: skip

FOLDER = ROOT / "docs" / "images"
JPEG_QUALITY = 55
"""Quality of the pictures, 0 to 100: text stays legible, and a picture has less than 110 kB."""
_SECONDS = 25
"""Length of the curves in the pictures, s."""

_BALL = """
const image = document.getElementById('live'), canvas = document.createElement('canvas');
[canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
const context = canvas.getContext('2d');
context.drawImage(image, 0, 0);
const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
let x = 0, y = 0, count = 0;
for (let index = 0; index < data.length / 4; index++) {
  if (data[4 * index] < 200 || data[4 * index + 1] > 80) continue;
  x += index % canvas.width; y += Math.floor(index / canvas.width); count++;
}
return count ? [x / count / canvas.width - 0.5, y / count / canvas.height - 0.5] : null;
"""
"""Script that finds the scene's red ball: its position from the centre, as shares of the picture."""


class _Live(Dashboard):
    """`make live` on a port of its own."""

    def start(self) -> None:
        command = [sys.executable, str(ROOT / "tools" / "run_live.py"), "--port", str(self.port)]
        paths = [os.environ.get("PYTHONPATH", ""), str(LIVE_TOOLS)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._process = subprocess.Popen(command, env=environment)


def main() -> int:
    """Draw the pictures."""
    live = _Live(None)
    try:
        live.await_page()
        with empty_browser() as other, page_of(live, SIZES["wide"], other) as browser:
            _track_ball(browser)
            _save(browser, "dashboard")
            press(browser, "#node_overview")
            wait(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "#tiles img[data-count]")) >= 6)
            _save(browser, "dashboard_overview")
        with empty_browser() as other, page_of(live, SIZES["phone"], other) as browser:
            show(browser, "visual_compass")
            wait(browser, lambda: pictures(browser) > 3 and "confidence 0." in text(browser, "#numbers"))
            _save(browser, "dashboard_phone")
    finally:
        live.stop()
    return 0


def _track_ball(browser: Any) -> None:
    """Have the spot tracker follow the ball for a while."""
    show(browser, "spot_tracker")
    wait(browser, lambda: pictures(browser) > 0)

    def clicked() -> bool:
        ball = browser.execute_script(_BALL)
        if ball is not None:
            image = browser.find_element(By.ID, "live")
            offset = [
                int(share * image.size[side]) for share, side in zip(ball, ("width", "height"), strict=True)
            ]
            ActionChains(browser).move_to_element_with_offset(image, *offset).click().perform()
        return "tracks the colour (2" in text(browser, "body")

    wait(browser, clicked)
    browser.execute_async_script(f"setTimeout(arguments[0], {1000 * _SECONDS})")
    wait(browser, lambda: ", confidence 1" in text(browser, "#numbers"))


def _save(browser: Any, name: str) -> None:
    image = cv2.imdecode(np.frombuffer(browser.get_screenshot_as_png(), np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    cv2.imwrite(str(FOLDER / f"{name}.jpg"), image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])


if __name__ == "__main__":
    sys.exit(main())
