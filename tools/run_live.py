"""`make live`: the driver, a camera, some nodes and the dashboard, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from demo.errors import GraphError  # noqa: E402
from demo.processes import find_executable, isolate  # noqa: E402

DEFAULT_NODES = "spot_tracker,looming,optical_flow,visual_compass,pattern_tracker"


def main() -> int:
    """Replace this process by the dashboard, which starts the others and stops them with itself."""
    parser = argparse.ArgumentParser(prog="make live", description=__doc__)
    parser.add_argument("--nodes", default=DEFAULT_NODES, help="to start, separated by commas")
    parser.add_argument("--backend", default="virtual", help="usb, virtual or cpu")
    parser.add_argument(
        "--camera", default="scene", help="source of the camera node; none: a camera of yours"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", default="8080")
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    os.environ.update(isolate())
    camera = [] if given.camera == "none" else ["camera"]
    names = [name.strip() for name in given.nodes.split(",") if name.strip()]
    parameters = {
        "host": given.host,
        "port": given.port,
        "token": f"'{given.token}'",
        "start": f"[{','.join(['edgetpu', *camera, *names])}]",
    }
    try:
        path = find_executable("edgetpu_dashboard", "dashboard")
    except GraphError as error:
        print(f"[live] {error}", file=sys.stderr)
        return 2
    # Parameters of the others go to them, too, by the names of their nodes.
    others = {
        "edgetpu:backend": given.backend,
        "camera:source": given.camera,
        "camera:width": "320",
        "camera:height": "240",
    }
    arguments = [part for name, value in parameters.items() for part in ("-p", f"{name}:={value}")]
    files = ["--params-file", str(_parameter_file(others))]
    os.execv(path, [str(path), "--ros-args", *files, *arguments])
    return 0


def _parameter_file(values: dict[str, str]) -> Path:
    """A file that gives nodes parameters by name, in build/."""
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
