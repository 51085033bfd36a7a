"""The options of `edgetpu models`: build, compile, retarget, import."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgetpu_driver.cli.common_options import Commands, add_command, add_group, seconds

_MODEL_DIR = "edgetpu/models in $ROS_HOME or ~/.ros, where the driver looks"


def add(commands: Commands) -> None:
    """Add `models` and its own commands."""
    parts = add_group(commands, "models", "build and compile graphs, retarget and import compiled models")
    _add_build(parts)
    _add_compile(parts)
    _add_retarget(parts)
    _add_import(parts)


def _command(commands: Commands, name: str, summary: str, more: str) -> argparse.ArgumentParser:
    return add_command(commands, name, summary, more, module=f"models.models_{name}", function="run")


def _add_output(command: argparse.ArgumentParser, default: str) -> None:
    command.add_argument("--output", type=Path, metavar="DIR", help=f"default: {default}")


def _add_build(commands: Commands) -> None:
    command = _command(
        commands,
        "build",
        "write the suite's own graphs",
        "The name gives the kind and size of a graph, so any size can be built; the same name always gives "
        "the same bytes. A JSON file next to each graph lists its tensors with scales and zero points.",
    )
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("names", nargs="*", default=[], metavar="NAME", help="e.g. pattern_96x128_24x24")
    which.add_argument("--all", action="store_true", help="write all graphs that the nodes use by default")
    which.add_argument("--list", action="store_true", help="list the possible names and write nothing")
    _add_output(command, _MODEL_DIR)


def _add_compile(commands: Commands) -> None:
    command = _command(
        commands,
        "compile",
        "compile graphs for the Edge TPU",
        "Runs Google's edgetpu_compiler and reports the mapped operators and the memory used. Without the "
        "compiler it generates the program of a matrix (dense_<size> up to 1024) itself, for a real stick, "
        "and packs other graphs for the virtual stick only.",
    )
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("files", type=Path, nargs="*", default=[], metavar="FILE", help="plain .tflite graphs")
    which.add_argument(
        "--all", action="store_true", help="build the graphs that the nodes use by default, and compile those"
    )
    command.add_argument("--compiler", metavar="PATH", help="default: edgetpu_compiler in PATH, if any")
    command.add_argument(
        "--on",
        default="",
        metavar="HOST",
        help="run the compiler there, over ssh: any x86-64 Linux computer that has it; graphs and results "
        "are copied",
    )
    command.add_argument(
        "--co-compile",
        action="store_true",
        help="compile all files together, so that they stay in the chip's memory together",
    )
    command.add_argument(
        "--timeout", type=seconds, default=300.0, metavar="S", help="seconds to wait (default: 300)"
    )
    _add_output(command, "next to each graph")


def _add_retarget(commands: Commands) -> None:
    command = _command(
        commands,
        "retarget",
        "put the weights and scales of a graph into a compiled model of the same form",
        "The graph needs the same operators and shapes as the compiled model, whose own graph must be next "
        "to it. Needs no compiler; the result equals the compiler's output. If a layer cannot be replaced, "
        "names it and writes nothing.",
    )
    command.add_argument("compiled", type=Path, metavar="COMPILED", help="x_edgetpu.tflite, next to x.tflite")
    command.add_argument("graph", type=Path, metavar="GRAPH", help="a plain .tflite graph")
    _add_output(command, "next to the graph")


def _add_import(commands: Commands) -> None:
    command = _command(
        commands,
        "import",
        "import models that were compiled elsewhere",
        "Copies the models of a directory with x_edgetpu.tflite, x.tflite and x_edgetpu.json, and reports "
        "the kind and use of each. Models that cannot be used are not copied; the reason is printed.",
    )
    command.add_argument("directory", type=Path, metavar="DIR", help="where the models are")
    command.add_argument("--overwrite", action="store_true", help="replace existing files of the same name")
    _add_output(command, _MODEL_DIR)
