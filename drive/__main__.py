"""Command line of the simulated robot: `python -m drive` at the root of the repository."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile

from demo.errors import GraphError
from demo.processes import PARAMETERS, Process, isolate
from drive.film import Film
from drive.report import write_report
from drive.scenario import Outcome, Scenario, SystemScenario
from drive.scenarios.accuracy_scenario import Accuracy
from drive.scenarios.contact_scenarios import NearWall, PassBy, Wall
from drive.scenarios.dock_scenario import DockAtBall, DockAtLamp
from drive.scenarios.fault_scenario import Faults
from drive.scenarios.follow_scenario import Follow, FollowByPolicy
from drive.scenarios.patrol_scenario import Patrol
from drive.scenarios.return_scenario import Return
from drive.scenarios.samples_scenario import SlalomSamples, SwingUpSamples
from drive.scenarios.slalom_scenario import Slalom
from drive.scenarios.swing_up_scenario import SwingUp
from drive.scenarios.turn_scenario import Turn
from drive.simulated_robot_node import SimulatedRobot
from drive.suite_connection import DriveError
from drive.worlds.robot_world import World, renderer_problem
from edgetpu_driver.cli import number_arguments
from edgetpu_driver.errors import reason_of
from edgetpu_driver.node_kit.node_table import all_nodes
from measured_figures.row import Row, line, write_rows

OUTPUT = Path(__file__).resolve().parents[1] / "build" / "drive"
SCENARIOS: dict[str, type[Scenario]] = {
    each.name: each
    for each in (
        Accuracy,
        Wall,
        NearWall,
        PassBy,
        Turn,
        Follow,
        FollowByPolicy,
        DockAtBall,
        DockAtLamp,
        Return,
        Patrol,
        Faults,
        SwingUp,
        Slalom,
        SwingUpSamples,
        SlalomSamples,
    )
}
EXIT_MISSED, EXIT_ERROR, EXIT_INTERRUPTED = 1, 2, 130


def usual() -> list[str]:
    """Return the scenarios that run if none are named."""
    return [name for name, scenario in SCENARIOS.items() if not scenario.on_request]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run scenarios, print and write their figures; return 0 if all limits were reached."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.model and not options.model.is_file():
        parser.error(f"expected an embedding model, .tflite; there is no file {options.model}")
    unknown = [name for name in options.scenarios if name not in SCENARIOS]
    if unknown:
        parser.error(f"expected scenarios of {', '.join(SCENARIOS)}; got {', '.join(unknown)}")
    problem = renderer_problem()
    if problem:
        print(f"[drive] {problem}", file=sys.stderr)
        return EXIT_ERROR
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(options)
    except (DriveError, GraphError) as error:
        print(f"[drive] {error}", file=sys.stderr)
        return EXIT_ERROR
    except OSError as error:  # mostly for OUTPUT
        print(f"[drive] {reason_of(error)}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("[drive] interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m drive",
        description=(
            "Let the real nodes drive a simulated robot through worlds, print the figures, and write them "
            "with plots and films. The exit code is 1 if a figure misses its limit."
        ),
    )
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help=f"of {', '.join(SCENARIOS)} (default: {', '.join(usual())})",
    )
    parser.add_argument(
        "--seeds",
        type=number_arguments.positive,
        default=5,
        help="number of worlds of each scenario (default: 5)",
    )
    parser.add_argument(
        "--first-seed", type=number_arguments.seed, default=0, help="seed of the first world (default: 0)"
    )
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, help="directory to write to (default: build/drive)"
    )
    parser.add_argument(
        "--model", type=Path, help="embedding model for the scenario patrol (default: an untrained one)"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    options.output.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=options.output):  # before anything takes time
        pass
    os.environ.update(isolate())
    os.environ.setdefault("ROS_HOME", str((options.output / "ros").resolve()))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    rows: list[Row] = []
    outcomes: dict[str, list[Outcome]] = {}
    films: dict[str, Film] = {}
    try:
        for name in options.scenarios or usual():
            began = time.monotonic()
            scenario = SCENARIOS[name]()
            print(f"[drive] {name}: {options.seeds} worlds", flush=True)
            outcomes[name], films[name], images, missing = _outcomes(scenario, seeds, options)
            found = scenario.rows(outcomes[name])
            if not isinstance(scenario, SystemScenario):
                found.append(_missing_row(name, images, missing))
            for row in found:
                print(line(row), flush=True)
            print(f"[drive] {name}: {time.monotonic() - began:.0f} s", flush=True)
            rows += found
    finally:  # a run takes hours: earlier scenarios are reported even if one fails or is interrupted
        if rows:
            write_rows(options.output / "results.json", rows)
            write_report(options.output / "report.html", rows, outcomes, SCENARIOS, films)
    return 0 if all(row.reached for row in rows) else EXIT_MISSED


def _outcomes(
    scenario: Scenario, seeds: range, options: argparse.Namespace
) -> tuple[list[Outcome], Film, int, int]:
    """Run all worlds with one graph: outcomes, film, number of images, number of images without results."""
    if isinstance(scenario, SystemScenario):
        return [_printed(scenario.run_alone(seed)) for seed in seeds], Film(), 0, 0
    parameters = scenario.prepare(options.output.resolve() / "models", options.model)
    robot = SimulatedRobot(scenario.cmd_vel)
    try:
        for kind, topic in scenario.watched:
            robot.watch(kind, topic)
        with scenario.start(_processes(scenario, parameters), options.output / "logs" / scenario.name):
            world = World(0, [])
            robot.enter(world)
            robot.await_results()
            world.close()
            robot.film = film = Film(scenario.film_every)
            found = []
            for seed in seeds:
                outcome = scenario.run(robot, seed)
                found.append(_printed(replace(outcome, record=robot.record)))
                robot.film = None  # only the first world is filmed: it takes time
        return found, film, robot.images, robot.missing
    finally:
        robot.close()


def _printed(outcome: Outcome) -> Outcome:
    figures = ", ".join(f"{name} {value:.3g}" for name, value in outcome.values.items())
    print(f"[drive]   seed {outcome.seed}: {figures}", flush=True)
    return outcome


def _processes(scenario: Scenario, parameters: dict[str, dict[str, str]]) -> list[Process]:
    """Processes of the driver with a virtual stick and of the scenario's nodes, with these parameters."""
    options = (("backend", "virtual"), ("use_sim_time", "true"), *parameters.get("edgetpu", {}).items())
    driver = Process("edgetpu", "edgetpu_driver", "edgetpu_node", PARAMETERS, options)
    camera = (("image", "camera/image_raw"), ("camera_info", "camera/camera_info"))
    nodes = [
        Process(
            name,
            all_nodes()[name].package,
            name,
            PARAMETERS,
            (("use_sim_time", "true"), *parameters.get(name, {}).items()),
            (*camera, *scenario.remappings),
        )
        for name in scenario.nodes
    ]
    return [driver, *nodes]


def _missing_row(name: str, images: int, missing: int) -> Row:
    late = 100 * missing / max(images, 1)
    return Row("drive", name, "images without a result within a period", late, "%", None, "lower")


if __name__ == "__main__":
    sys.exit(main())
