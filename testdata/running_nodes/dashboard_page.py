"""The dashboard in a separate process, and its page in Chromium, driven by Selenium."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pytest

from testdata.running_nodes import live_tools  # noqa: F401 - may provide Selenium
from testdata.running_nodes.node_forker import NodeForker, content
from testdata.timeouts import PATIENCE

webdriver = pytest.importorskip(
    "selenium.webdriver", reason="Selenium is not installed: tools/run.sh tools/install_extra.sh live"
)
if find_spec("nicegui") is None:  # importing it would cost every process of the tests a second
    pytest.skip("NiceGUI is not installed: tools/run.sh tools/install_extra.sh live", allow_module_level=True)

from selenium.common.exceptions import StaleElementReferenceException, TimeoutException  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SIZES = {"wide": (1500, 950), "phone": (390, 844)}
"""Widths and heights of the page, px."""
_PORTS = range(20_000, 30_000)
"""TCP ports for dashboards: below those that the system hands out to programs that do not choose."""
_reserved: list[IO[str]] = []
_POLL = 0.1
"""Time between two checks of the page, s."""
_REACTION = 0.3
"""Time after which an action without effect on the page is repeated, s."""

needs_browser = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="no browser: apt install chromium chromium-driver"
)
at_every_size = pytest.mark.parametrize("browser", SIZES.values(), ids=SIZES, indirect=True)
"""For tests of layout, of positions in the picture and of one control of each kind; others need one size."""


def free_port() -> int:
    """An unused TCP port, which no other process gets from here until this one ends.

    A port that the system hands out might be handed out again before the server that is started binds to it.
    """
    for number in range(len(_PORTS)):
        port = _PORTS[(os.getpid() + number) % len(_PORTS)]
        lock = open(Path(tempfile.gettempdir()) / f"edgetpu_port_{port}", "w")  # noqa: SIM115 - reserved
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
        else:
            _reserved.append(lock)
            return port
    pytest.fail(f"all TCP ports from {_PORTS.start} to {_PORTS.stop} are in use")


class Dashboard:
    """A dashboard in a separate process, which `forker` starts; see `dashboard_forker`."""

    def __init__(self, forker: NodeForker | None, *parameters: str) -> None:
        self.port = free_port()
        settings = [part for each in (f"port:={self.port}", *parameters) for part in ("-p", each)]
        self._forker = forker
        self._arguments = ["-m", "testdata.running_nodes.patient_dashboard", "--ros-args", *settings]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the tests)
        self.start()

    def start(self) -> None:
        """Start the process."""
        assert self._forker is not None
        self._process: Any = self._forker.start(self._arguments, self._log)

    def stop(self) -> None:
        """Stop the process, which must end cleanly."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE) == 0
        sys.stderr.write(content(self._log))

    def complaints(self) -> list[str]:
        """Errors that the dashboard has logged so far."""
        return [line for line in content(self._log).splitlines() if "[ERROR]" in line]

    def await_page(self) -> None:
        """Wait until the page is served."""
        end = time.monotonic() + PATIENCE
        while self.answers() != 200:
            assert time.monotonic() < end, f"{self.address} does not answer"
            time.sleep(0.1)

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://127.0.0.1:{self.port}/"

    def answers(self, path: str = "", **headers: str) -> int | None:
        """The HTTP status of a request; None if the server does not listen yet."""
        try:
            request = urllib.request.Request(self.address + path, headers=headers)
            with urllib.request.urlopen(request, timeout=20.0) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None


@contextmanager
def running_dashboard(graph: Any, forker: NodeForker, *parameters: str) -> Iterator[Dashboard]:
    """A dashboard that answers, while the test's node spins."""
    made = Dashboard(forker, *parameters)
    try:
        graph.spin_until(lambda: made.answers() == 200)
        yield made
    finally:
        made.stop()


@contextmanager
def empty_browser() -> Iterator[Any]:
    """A browser that shows nothing."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield browser
    finally:
        browser.quit()


@contextmanager
def page_of(dashboard: Dashboard, size: tuple[int, int], browser: Any) -> Iterator[Any]:
    """The browser with the page, in a size of (width, height) px; afterwards it shows nothing."""
    # Set through metrics, since a window cannot be as narrow as a phone.
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    errors_in_console(browser)  # drops errors of an earlier page
    browser.get(dashboard.address)
    yield browser
    browser.get("about:blank")


def wait(browser: Any, condition: Callable[[], Any]) -> Any:
    """Wait until a condition holds; return its value. The page may be redrawn in the meantime."""
    waiting = WebDriverWait(browser, PATIENCE, _POLL, [StaleElementReferenceException])
    try:
        return waiting.until(lambda _browser: condition())
    except TimeoutException:
        raise AssertionError(
            f"the page still says: {browser.find_element(By.TAG_NAME, 'body').text}"
        ) from None


def pictures(browser: Any) -> int:
    """The number of pictures that the page has shown."""
    return int(browser.execute_script("return document.getElementById('live')?.dataset.count || 0"))


def text(browser: Any, selector: str) -> str:
    """The text of an element; empty if there is none."""
    return str(browser.execute_script(f"return document.querySelector(`{selector}`)?.textContent || ''"))


def press(browser: Any, selector: str) -> None:
    """Click an element, which may appear later and anywhere."""
    # At once, since the page may be redrawn at any time.
    click = f"const found = document.querySelector(`{selector}`); found?.click(); return found !== null"
    wait(browser, lambda: browser.execute_script(click))


def show(browser: Any, node: str) -> None:
    """Have the page show a node."""
    press(browser, f"#node_{node}")
    wait(browser, lambda: text(browser, ".stage .title") == node)


def key(browser: Any, character: str) -> None:
    """Press a key."""
    ActionChains(browser).send_keys(character).perform()


def fill(browser: Any, name: str, value: str) -> None:
    """Replace the text of a field."""
    field = wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, f"input[data-id={name}]"))[0]
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(value)


def choose(browser: Any, name: str, option: str) -> None:
    """Choose an option of a menu."""
    press(browser, f"[data-id={name}]")

    def found() -> list[Any]:  # an option has no text until the menu has opened
        options = browser.find_elements(By.CSS_SELECTOR, ".q-menu .q-item")
        return [each for each in options if each.text == option]

    (element,) = wait(browser, found)
    browser.execute_script("arguments[0].click()", element)  # a notification may cover it


def upload(browser: Any, name: str, path: Path) -> None:
    """Upload a file with an upload control."""
    field = f"[data-id={name}] input[type=file]"
    (chooser,) = wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, field))
    chooser.send_keys(str(path))


def show_actions(browser: Any, node: str) -> None:
    """Have the page show the actions of a running node."""
    show(browser, node)
    wait(browser, lambda: text(browser, "#state") == "running")
    press(browser, "[data-id=tab_actions]")


def press_until(browser: Any, selector: str, words: str) -> None:
    """Click until the page shows a text: the node may not be ready for the first click."""
    repeat_until(browser, lambda: press(browser, selector), words)


def repeat_until(browser: Any, action: Callable[[], None], *words: str) -> None:
    """Repeat an action until the page shows one of these texts."""

    def says() -> bool:
        said = text(browser, "body")
        return any(each in said for each in words)

    def said() -> bool:
        if says():
            return True
        action()
        end = time.monotonic() + _REACTION
        while not says() and time.monotonic() < end:
            time.sleep(_POLL)
        return says()

    wait(browser, said)


def drag(browser: Any, start: tuple[int, int], end: tuple[int, int]) -> None:
    """Drag a box in the picture, in px from its centre."""
    actions = ActionChains(browser).move_to_element_with_offset(browser.find_element(By.ID, "live"), *start)
    actions.click_and_hold().move_by_offset(end[0] - start[0], end[1] - start[1]).release().perform()


def errors_in_console(browser: Any) -> list[str]:
    """Errors in the browser's console since the last call."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
