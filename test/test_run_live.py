"""`make live` says what is missing or wrong, and how to fix it, before it starts anything."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_dashboard.web import address
from testdata.running_nodes.dashboard_page import free_port

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def run_live() -> Any:
    spec = importlib.util.spec_from_file_location("run_live", ROOT / "tools" / "run_live.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def given(**changes: str) -> argparse.Namespace:
    settings = {
        "nodes": "looming",
        "backend": "cpu",
        "camera": "scene",
        "host": "127.0.0.1",
        "port": str(free_port()),
        "token": "",
    }
    return argparse.Namespace(**(settings | changes))


def test_nothing_is_wrong_with_the_defaults(run_live: Any) -> None:
    assert run_live.problem_of(given()) == ""


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("nodes", "looming, loming", "NODES: expected some of .*looming.*; got 'loming'"),
        ("backend", "gpu", "BACKEND: expected usb, virtual or cpu; got 'gpu'"),
        ("camera", "usb", "CAMERA: expected webcam, file, scene, .* or none; got 'usb'"),
        ("port", "http", "PORT: expected a TCP port; got 'http'"),
        ("nodes", "dashboard", "NODES: expected some of .*looming.*; got 'dashboard'"),
        ("nodes", "looming,camera", "NODES: expected some of .*looming.*; got 'camera'"),
        ("host", "robot", "HOST: expected an address such as 127.0.0.1 or 0.0.0.0; got 'robot'"),
        (
            "host",
            "0.0.0.0",
            "HOST: 0.0.0.0 can be reached by others, which needs a token: "
            "`make live HOST=0.0.0.0 TOKEN=secret`",
        ),
    ],
)
def test_a_wrong_value_is_refused(run_live: Any, name: str, value: str, problem: str) -> None:
    assert re.fullmatch(problem, run_live.problem_of(given(**{name: value})))


def test_a_port_in_use_is_named_with_another_one(run_live: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert run_live.problem_of(given(port=port)) == (
            f"port {port} of 127.0.0.1: Address already in use; `make live PORT=8081` takes another one"
        )


def test_another_one_differs_from_the_port_in_use(run_live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_use(_host: str, _port: int) -> socket.socket:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(address, "bound_socket", in_use)
    assert run_live.problem_of(given(port="8081")).endswith("`make live PORT=8082` takes another one")


def test_an_address_of_another_computer_is_told_from_a_port_in_use(run_live: Any) -> None:
    assert run_live.problem_of(given(host="192.0.2.1", token="secret")) == (  # an address for documentation
        "HOST: expected an address of this computer, such as 127.0.0.1 or 0.0.0.0; got '192.0.2.1'"
    )


def test_each_node_is_started_once(run_live: Any) -> None:
    assert run_live.names_in("looming, spot_tracker,,looming") == ["looming", "spot_tracker"]


def test_an_address_of_ipv6_is_tried_as_one(run_live: Any) -> None:
    try:
        other = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this computer has no IPv6")
    with other:
        port = str(other.getsockname()[1])
        assert run_live.problem_of(given(host="::1", port=port)) == (
            f"port {port} of ::1: Address already in use; `make live PORT=8081` takes another one"
        )
    assert run_live.problem_of(given(host="::1", port=port)) == ""


@pytest.mark.parametrize(
    ("host", "end"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::1", "[::1]"),
        ("::", "[::1]"),
        ("192.168.0.2", "192.168.0.2"),
    ],
)
def test_the_tunnel_for_another_computer_ends_at_the_address_of_the_page(
    run_live: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, end: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"`ssh -L 8080:{end}:8080 {socket.gethostname()}`" in run_live.browser_hint(host, "8080")


def test_without_nicegui_the_command_that_installs_it_is_named(
    run_live: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert "`make live` installs it" in run_live.problem_of(given())


def test_without_a_browser_the_command_that_installs_one_is_named(
    run_live: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "`sudo apt install chromium`" in run_live.browser_hint("127.0.0.1", "8080")
    program = tmp_path / "firefox"
    program.write_text("#!" + sys.executable)
    program.chmod(0o755)
    assert run_live.browser_hint("127.0.0.1", "8080") == ""
