"""`make live`: the driver, a camera, some nodes and the dashboard, until Ctrl-C."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import os
import shutil
import socket
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from demo.errors import GraphError  # noqa: E402
from demo.processes import find_executable, isolate  # noqa: E402
from drive.scene_network import NAME, scene_network  # noqa: E402
from edgetpu_driver.files.default_paths import default_model_dir  # noqa: E402

BROWSERS = ("xdg-open", "chromium", "chromium-browser", "google-chrome", "firefox", "epiphany", "wslview")
REMAPPINGS = (
    "place_recognition:embedding:=embedder/embedding",
    "contact_guard:cmd_vel_in:=visual_servo/cmd_vel",
    "reservoir:signal:=optical_flow/flow",
    "reservoir:target:=optical_flow/flow",
    "spectrum:signal:=visual_compass/heading",
)
"""Remappings of nodes that can be started on the page, so that each has inputs."""
DEFAULT_NODES = "spot_tracker,looming,optical_flow,visual_compass,pattern_tracker"
STARTED_ANYWAY = ("camera", "dashboard")
"""Nodes that are always started, whatever nodes the user chooses."""

PARAMETERS = {
    "camera:width": "320",
    "camera:height": "240",
    "reservoir:input_type": "edgetpu_msgs/msg/Flow",
    "reservoir:input_fields": "dx,dy",
    "reservoir:target_type": "edgetpu_msgs/msg/Flow",
    "reservoir:target_fields": "dx,dy",
    "spectrum:input_type": "edgetpu_msgs/msg/Heading",
    "spectrum:input_fields": "yaw_rate",
}
"""Parameters of these nodes, besides those that the user chooses."""


def main() -> int:
    """Replace this process by the dashboard, which starts the others and stops them with itself."""
    given = _parser().parse_args()
    if problem := problem_of(given):
        print(f"[live] {problem}", file=sys.stderr)
        return 2
    if hint := browser_hint(given.host, given.port):
        print(f"[live] {hint}")
    os.environ.update(isolate())
    try:
        path = find_executable("edgetpu_dashboard", "dashboard")
    except GraphError as error:
        print(f"[live] {error}", file=sys.stderr)
        return 2
    os.execv(path, [str(path), "--ros-args", *_ros_arguments(given)])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make live",
        description="Start the driver, a camera, some nodes and the dashboard, and run until Ctrl-C.",
    )
    parser.add_argument("--nodes", default=DEFAULT_NODES, help="nodes to start, separated by commas")
    parser.add_argument("--backend", default="virtual", help="of the driver: usb, virtual or cpu")
    parser.add_argument(
        "--camera", default="scene", help="source of the camera node; none: your own camera publishes image"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to serve the page on")
    parser.add_argument("--port", default="8080", help="TCP port of the page")
    parser.add_argument("--token", default="", help="secret that the page asks for, needed for another host")
    return parser


def _ros_arguments(given: argparse.Namespace) -> list[str]:
    """ROS arguments of the dashboard, which it passes to the nodes that it starts."""
    camera = [] if given.camera == "none" else ["camera"]
    parameters = {
        "host": f"'{given.host}'",
        "port": given.port,
        "token": "'" + given.token.replace("'", "''") + "'",  # quoted as in YAML
        "start": f"[{','.join(['edgetpu', *camera, *names_in(given.nodes)])}]",
    }
    of_others = {
        "edgetpu:backend": given.backend,
        "camera:source": given.camera,
        "embedder:model": _scene_model().stem,
        **PARAMETERS,
    }
    arguments = [part for name, value in parameters.items() for part in ("-p", f"{name}:={value}")]
    files = ["--params-file", str(_parameter_file(of_others))]
    rules = [part for rule in REMAPPINGS for part in ("-r", rule)]
    return [*files, *rules, *arguments]


def names_in(text: str) -> list[str]:
    """The nodes in a comma-separated list, without duplicates."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def problem_of(given: argparse.Namespace) -> str:
    """The reason why the dashboard cannot run, with the remedy; empty if it can."""
    from edgetpu_dashboard.camera.capture_thread import SOURCES
    from edgetpu_driver.node_kit.node_table import node_table

    if importlib.util.find_spec("nicegui") is None:
        return (
            "NiceGUI is not installed: `make live` installs it, or `tools/run.sh tools/install_extra.sh live`"
        )
    choices = [name for name in node_table() if name not in STARTED_ANYWAY]
    if unknown := [name for name in names_in(given.nodes) if name not in choices]:
        return f"NODES: expected some of {', '.join(choices)}; got {unknown[0]!r}"
    if given.backend not in ("usb", "virtual", "cpu"):
        return f"BACKEND: expected usb, virtual or cpu; got {given.backend!r}"
    if given.camera not in (*SOURCES, "none"):
        return f"CAMERA: expected {', '.join(SOURCES)} or none; got {given.camera!r}"
    if not given.port.isdecimal() or not 0 < int(given.port) < 2**16:
        return f"PORT: expected a TCP port; got {given.port!r}"
    return _problem_of_address(given.host, int(given.port), given.token)


def _problem_of_address(host: str, port: int, token: str) -> str:
    """The reason why the page cannot be served at this address, with the remedy; empty if it can."""
    from edgetpu_dashboard.web import address
    from edgetpu_dashboard.web.access import is_local

    try:
        local = is_local(host)
    except ValueError:
        return f"HOST: expected an address such as 127.0.0.1 or 0.0.0.0; got {host!r}"
    if not local and not token:
        return (
            f"HOST: {host} can be reached by others, which needs a token: "
            f"`make live HOST={host} TOKEN=secret`"
        )
    try:
        address.bound_socket(host, port).close()
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return f"HOST: expected an address of this computer, such as 127.0.0.1 or 0.0.0.0; got {host!r}"
        other = 8081 if port != 8081 else 8082
        return f"port {port} of {host}: {error.strerror}; `make live PORT={other}` takes another one"
    return ""


def browser_hint(host: str, port: str) -> str:
    """A hint how to see the page if this computer has no browser; empty if it has one."""
    from edgetpu_dashboard.web.address import bracketed

    here = "127.0.0.1" if host == "0.0.0.0" else "[::1]" if host == "::" else bracketed(host)
    if any(shutil.which(browser) for browser in BROWSERS):
        return ""
    return (
        "no browser is installed here: `sudo apt install chromium` installs one; or, on a computer that has "
        f"one, `ssh -L {port}:{here}:{port} {socket.gethostname()}` and open http://127.0.0.1:{port}"
    )


def _scene_model() -> Path:
    """Write the embedding network of `make drive` to a folder of the driver; return its path."""
    path = default_model_dir() / f"{NAME}.tflite"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(scene_network())
    return path


def _parameter_file(values: dict[str, str]) -> Path:
    """Write a parameter file with the values of nodes to build/; return its path."""
    path = ROOT / "build" / "live.yaml"
    path.parent.mkdir(exist_ok=True)
    sections: dict[str, list[str]] = {}
    for key, value in values.items():
        node, _, name = key.partition(":")
        sections.setdefault(node, []).append(f"    {name}: {value}")
    lines = [
        line for node, rows in sections.items() for line in (f"/**/{node}:", "  ros__parameters:", *rows)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
