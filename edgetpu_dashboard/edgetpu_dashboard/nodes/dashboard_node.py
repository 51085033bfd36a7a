"""The dashboard as a node: serves a page that shows the graph and changes its settings."""

from __future__ import annotations

import sys
import threading
from typing import Any, Protocol

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.timer import Timer
from sensor_msgs.msg import CameraInfo, Image

from edgetpu_dashboard.live.launcher import Launcher, LaunchError
from edgetpu_dashboard.live.message_numbers import SIGNAL_TYPES
from edgetpu_dashboard.nodes.bag_recorder import BagRecorder
from edgetpu_dashboard.nodes.graph_calls import CALLED, GraphCalls
from edgetpu_dashboard.nodes.graph_view import GraphView
from edgetpu_dashboard.web.access import is_local
from edgetpu_dashboard.web.address import bracketed
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.middleware.enclaves import ENCLAVE_OPTIONS, sibling_enclave
from edgetpu_driver.node_kit.node_table import all_nodes, node_table
from edgetpu_driver.node_kit.parameters import Setting

_START_DELAY = 0.5
"""Seconds until the page is served and nodes are started, so that others have discovered this node."""
_REFRESH = 1.0
"""Seconds between two checks of which nodes run."""
_STOP_SECONDS = 1.5
"""Seconds after which nodes started from here are killed when the dashboard ends."""

MISSING = (
    "no page: NiceGUI is not installed; `make live` installs it, elsewhere "
    "`pip install -r requirements-live.txt`"
)
"""The problem that is reported if NiceGUI is missing."""


class PageServer(Protocol):
    """The interface of the page's server."""

    def close(self) -> None:
        """Stop serving."""


class DashboardNode(BaseNode):
    """Shows the nodes of its namespace in a browser."""

    settings = (
        Setting(
            "host",
            "127.0.0.1",
            "Address to serve the page on. One that other computers can reach, such as 0.0.0.0, needs a "
            "token.",
        ),
        Setting("port", 8080, "TCP port of the page.", 1, 65535),
        Setting(
            "token",
            "",
            "Secret needed to open the page, as ?token=... in its address. Empty: none, only this "
            "computer can open it.",
        ),
        Setting("start", [], "Nodes to start with the dashboard; it can also stop them."),
        Setting(
            "picture_rate",
            10.0,
            "Greatest rate of pictures for each browser, Hz; a slow browser gets fewer.",
            0.5,
            60.0,
            read_only=False,
        ),
        Setting(
            "picture_width", 640, "Greatest width of pictures for browsers, px.", 64, 4096, read_only=False
        ),
        Setting("bag_dir", "~/.ros/edgetpu/bags", "Folder that bags are saved in.", read_only=False),
    )

    subject = "messages"

    @classmethod
    def types_on_demand(cls) -> frozenset[str]:
        """Return the types of images, of results and other numbers, and of the services that users call."""
        results = (entry.load().results for entry in node_table().values())
        topics = {CameraInfo, Image, *(result.message_type for result in results if result is not None)}
        return frozenset(
            {
                *(_type_name(each, "msg") for each in topics),
                *(_type_name(each, "srv") for each in CALLED),
                *SIGNAL_TYPES,
            }
        )

    def __init__(self, **options: Any) -> None:
        super().__init__("dashboard", **options)
        self._server: PageServer | None = None
        self._problem = ""
        self.bags: BagRecorder | None = None
        self.launcher = Launcher(ros_arguments(sys.argv))
        with self.destroyed_on_error():
            self._check_address()
            self.view = GraphView(self)
            self.bags = BagRecorder(self, self.view)
            self.calls = GraphCalls(self, self.view.full_name)
            self.start_diagnostics()
            self.create_steady_timer(_REFRESH, self.view.refresh)
            self._begin: Timer = self.create_steady_timer(_START_DELAY, self._serve)

    def destroy_node(self) -> None:
        """Stop serving, stop the nodes that were started from here, then destroy the node."""
        # All at the same time, to meet spin.STOP_DEADLINE.
        stopping = threading.Thread(target=self.launcher.stop_all, args=(_STOP_SECONDS,))
        stopping.start()
        if self.bags is not None:
            self.bags.hurry()
        if self._server is not None:
            self._server.close()
        if self.bags is not None:
            self.bags.close()
        stopping.join()
        super().destroy_node()

    def diagnostic(self) -> DiagnosticStatus:
        """Make the node's entry of /diagnostics from the messages that it has received."""
        self.counters.received = self.view.received
        return super().diagnostic()

    def problems(self) -> list[str]:
        """Return why there is no page."""
        return [self._problem] if self._problem else []

    def start_node(self, name: str, **parameters: str) -> None:
        """Start a node of the table with parameters in YAML. Raises LaunchError."""
        entry = all_nodes().get(name)
        if entry is None:
            raise LaunchError(f"no installed package offers a node {name}")
        arguments = sibling_enclave(sys.argv, name)
        self.launcher.start(name, entry.package, entry.executable, parameters, arguments)

    def restart_node(self, name: str, **parameters: str) -> None:
        """Start a node, in place of a running one; LaunchError if that was not started from here."""
        with self.view.lock:
            viewed = self.view.nodes.get(name)
        if (viewed is not None and viewed.running) or self.launcher.started(name):
            self.launcher.stop(name)
        self.start_node(name, **parameters)

    def _check_address(self) -> None:
        host, token = self.values["host"], self.values["token"]
        try:
            local = is_local(host)
        except ValueError:
            raise FatalError(
                f"host: expected an address such as 127.0.0.1 or 0.0.0.0; got '{host}'"
            ) from None
        if not local and not token:
            raise FatalError(f"host: {host} can be reached by others, which needs a token; got none")

    def _start_or_report(self, name: str) -> None:
        try:
            self.start_node(name)
        except LaunchError as error:
            self.get_logger().error(f"start: {error}")

    def _serve(self) -> None:
        self._begin.cancel()
        self.view.refresh()  # a waiting browser gets the page at once
        for name in self.values["start"]:
            self._start_or_report(name)
        try:
            from edgetpu_dashboard.web.server import serve
        except ImportError as error:
            self._problem = (
                MISSING if (error.name or "").startswith(("nicegui", "fastapi", "uvicorn")) else str(error)
            )
            self.get_logger().error(self._problem)
            return
        host, port = self.values["host"], self.values["port"]
        where = f"{bracketed(host)}:{port}"
        try:
            self._server = serve(self, host, port, self.values["token"])
        except OSError as error:
            self._problem = f"no page: {where}: {error.strerror}"
            self.get_logger().error(self._problem)
            return
        self.get_logger().info(
            f"the page is at http://{where}/{'?token=...' if self.values['token'] else ''}"
        )


def _type_name(kind: Any, group: str) -> str:
    return f"{kind.__module__.partition('.')[0]}/{group}/{kind.__name__}"


def ros_arguments(arguments: list[str]) -> list[str]:
    """Return the ROS arguments of a command line that also apply to other nodes of the graph.

    Names, parameters given with -p, and the enclave apply to this node alone, and are left out.
    """
    found: list[str] = []
    if "--ros-args" not in arguments:
        return found
    rest = iter(arguments[arguments.index("--ros-args") + 1 :])
    for argument in rest:
        if argument == "--":
            break
        if argument in ("-p", "--param", *ENCLAVE_OPTIONS):
            next(rest, None)
        elif argument in ("-r", "--remap"):
            rule = next(rest, "")
            if not rule.startswith(("__node:=", "__name:=")):
                found += [argument, rule]
        elif argument != "--ros-args":
            found.append(argument)
    return found
