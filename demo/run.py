"""One run of the demo: bring the graph up, replay the bag, write the summary and the report."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from demo.bag.frames import read_frames
from demo.bag.image_bag import ImageBag
from demo.bag.pattern_template import write_pattern
from demo.bag.recorded_truth import heading_truth, load_truth
from demo.errors import GraphError, UsageError
from demo.model import model_parameters
from demo.nodes import OWN_MODEL, DemoNode, select
from demo.processes import PARAMETERS, Graph, Process, as_parameter, isolate
from demo.replay import Replay
from demo.report.animation import write_animation
from demo.report.debug_frames import DebugFrames
from demo.report.report import write_report
from demo.report.results import NodeResults, summary, write_json
from demo.report.terminal import Terminal
from demo.scene.scene_bag import PARAMETERS_FILE, write_scene
from edgetpu_driver.node_kit.node_table import DRIVER


def run(options: argparse.Namespace) -> None:
    """Run the demo with the options of the command line.

    Raises:
        DemoError: something that the user named does not exist, the graph failed, or a node gave no result.
    """
    terminal = Terminal()
    nodes = select(_wanted_nodes(options))
    model_parameters(options.model, options.labels, nodes)  # reports wrong options before anything takes time
    if not options.params_file.is_file():
        raise UsageError(f"no parameter file at {options.params_file}")
    output: Path = options.output
    for old in ("summary.json", "report.html"):
        (output / old).unlink(missing_ok=True)
    if options.bag is None:
        terminal.say("rendering a scene of known geometry (about ten seconds)")
    path = options.bag or write_scene(output / "scene")
    with ImageBag(path, options.topic) as bag:
        os.environ.update(isolate())
        os.environ.setdefault("ROS_HOME", str((output / "ros").resolve()))  # for models and logs of the nodes
        results, debug = _replay(options, terminal, bag, nodes)
        write_json(output / "summary.json", summary(options.backend, path, results))
        terminal.say("writing the report")
        camera = list(read_frames(bag))
        frames = {node.name: debug.of(node.name) or camera for node in nodes}
        settings = _settings(options, bag, nodes)
        write_report(
            output / "report.html",
            nodes,
            results,
            load_truth(path) or heading_truth(bag.orientations()),
            frames,
            settings,
        )
    if options.gif:
        write_animation(options.gif, camera, frames)
    terminal.table(results)
    terminal.result(f"report:  {(output / 'report.html').resolve().as_uri()}")
    terminal.result(f"summary: {output / 'summary.json'}")
    _require_results(results.values())


def _require_results(nodes: Iterable[NodeResults]) -> None:
    for node in nodes:
        if not node.rows:
            said = f"; it said: {node.fault}" if node.fault else ""
            raise GraphError(
                f"{node.name} gave no result: {node.images} images, {node.malformed} of them malformed{said}"
            )


def _wanted_nodes(options: argparse.Namespace) -> str:
    if options.nodes is not None:
        return str(options.nodes)
    return ",".join(OWN_MODEL)


def _replay(
    options: argparse.Namespace, terminal: Terminal, bag: ImageBag, nodes: Sequence[DemoNode]
) -> tuple[Mapping[str, NodeResults], DebugFrames]:
    processes = _processes(options, bag, nodes)
    names = ", ".join(process.name for process in processes)
    terminal.say(f"starting {names} (backend {options.backend}, ROS domain {os.environ['ROS_DOMAIN_ID']})")
    with Graph(processes, options.output / "log") as graph:
        with Replay(nodes, bag.topic, graph.check) as replay:
            replay.wait_until_ready(options.startup_timeout, terminal.say)
            with terminal.counting(f"replaying {bag.topic.name}", bag.topic.count) as advance:
                results: Mapping[str, NodeResults] = replay.play(
                    bag.records(), rate=options.rate, timeout=options.timeout, progress=advance
                )
        terminal.say("stopping the graph")
    return results, replay.debug_frames


def _processes(options: argparse.Namespace, bag: ImageBag, nodes: Sequence[DemoNode]) -> list[Process]:
    """The processes that bringup.launch.py would start, with this bag as the camera."""
    topic = bag.topic
    of_driver, of_model = model_parameters(options.model, options.labels, nodes)
    driver = Process(
        name=DRIVER,
        package="edgetpu_driver",
        executable="edgetpu_node",
        parameters_file=options.params_file,
        parameters=(("backend", options.backend), *of_driver),
    )
    parameters = [("image_transport", "compressed" if topic.compressed else "raw")]
    if options.rate is None:
        # No image may be lost, not even on its way to the node.
        parameters += [("qos_reliability", "reliable"), ("rate_limit", "0.0"), ("debug_rate", "0.0")]
    remappings = [("image", topic.base)]
    if topic.camera_info:
        remappings.append(("camera_info", topic.camera_info))
    else:
        parameters.append(("horizontal_fov", str(math.radians(options.hfov))))
    perception = [
        Process(
            name=node.name,
            package=node.package,
            executable=node.executable,
            parameters_file=options.params_file,
            parameters=(
                *((name, value) for name, value in parameters if name in node.parameters),
                *(of_model if node.needs_model else ()),
                *_targets(options, bag, node),
            ),
            remappings=tuple(remappings),
        )
        for node in nodes
    ]
    return [driver, *perception]


def _targets(options: argparse.Namespace, bag: ImageBag, node: DemoNode) -> tuple[tuple[str, str], ...]:
    """Parameters that say what the node should look for, unless the user's parameter file says it."""
    if options.params_file != PARAMETERS:
        return ()
    known = bag.path / PARAMETERS_FILE
    if known.is_file():
        texts: dict[str, str] = json.loads(known.read_text()).get(node.name, {})
        return tuple((name, as_parameter(text)) for name, text in texts.items())
    path = options.output.resolve() / "pattern.png"
    if node.name != "pattern_tracker" or not write_pattern(bag, path):
        return ()
    return ("template", as_parameter(str(path))), ("accept_ambiguous", "true")


def _settings(options: argparse.Namespace, bag: ImageBag, nodes: Sequence[DemoNode]) -> dict[str, str]:
    return {
        "bag": str(bag.path),
        "topic": f"{bag.topic.name} ({bag.topic.type})",
        "camera_info": bag.topic.camera_info or f"none; a field of view of {options.hfov:g} deg is assumed",
        "backend": options.backend,
        "nodes": ", ".join(node.name for node in nodes),
        "pace": "as fast as results come" if options.rate is None else f"{options.rate:g} x recorded speed",
        "parameters": str(options.params_file),
        "ROS": f"{os.environ.get('ROS_DISTRO', '?')}, domain {os.environ['ROS_DOMAIN_ID']}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }
