"""The options of every command: `edgetpu devices`, `info`, `run`, `benchmark` and so on."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgetpu_driver.cli.common_options import BACKENDS, Commands, add_command, add_device_options
from edgetpu_driver.cli.models import models_options
from edgetpu_driver.cli.number_arguments import positive
from edgetpu_driver.cli.program import program_options

_EPILOG = """\
exit codes: 0 success, 1 faulty model or input, or failed check, 2 wrong usage, 3 no usable stick,
130 interrupted. With --json standard output holds one JSON value, {"error": ..} in case of an error.
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command; it sets `module` and `function` of the subcommand chosen."""
    top = argparse.ArgumentParser(
        prog="edgetpu",
        description="Inspect and test Edge TPU sticks; inspect, build, compile, run and measure models.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_devices(commands)
    _add_doctor(commands)
    _add_info(commands)
    _add_disassemble(commands)
    _add_run(commands)
    _add_benchmark(commands)
    _add_registers(commands)
    _add_selftest(commands)
    _add_confirm(commands)
    models_options.add(commands)
    program_options.add(commands)
    return top


def _add_devices(commands: Commands) -> None:
    command = add_command(
        commands,
        "devices",
        "list the sticks on USB, and say which can be used",
        "For a stick that cannot be used, prints the reason and what to do. If there is no stick, checks the "
        "udev rule, your groups and the firmware.",
        module="devices",
    )
    command.add_argument("--backend", choices=BACKENDS, default="usb", help="default: usb")


def _add_doctor(commands: Commands) -> None:
    command = add_command(
        commands,
        "doctor",
        "check that everything a stick needs is in place",
        "Checks the computer, Python, libusb, the udev rule, the group, the firmware, the stick and its "
        "link, the models, LiteRT and ROS. Each problem is shown with the command that fixes it. The exit "
        "code is 1 if something is missing.",
        module="doctor.command",
    )
    command.add_argument("--backend", choices=BACKENDS, default="usb", help="default: usb")


def _add_info(commands: Commands) -> None:
    command = add_command(
        commands,
        "info",
        "show the contents of model files",
        "For a compiled model: tensors, executables, layers with their layout on the wire, and DMA hints. "
        "For a plain graph: tensors and operators. The segments of a pipeline, in order, are first described "
        "as one model; other files one by one.",
        module="info",
    )
    command.add_argument(
        "models", type=Path, nargs="+", metavar="MODEL", help="a .tflite file, compiled or not"
    )


def _add_disassemble(commands: Commands) -> None:
    command = add_command(
        commands,
        "disassemble",
        "show the instructions in compiled models or bitstreams as text",
        "Prints one line for each operation (1 to 17 words) with its known fields and the remaining nonzero "
        "bits, then the transfers that the program requests.",
        module="disassemble",
    )
    command.add_argument(
        "files", type=Path, nargs="+", metavar="MODEL|BITSTREAM", help="compiled .tflite files or bitstreams"
    )
    view = command.add_mutually_exclusive_group()
    view.add_argument("--words", action="store_true", help="one line for each 128-bit word instead")
    view.add_argument(
        "--stats", action="store_true", help="count the values of every field over all words of all files"
    )


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "model",
        type=Path,
        nargs="+",
        metavar="MODEL",
        help="x_edgetpu.tflite for usb, for virtual with x.tflite next to it; x.tflite for cpu or virtual; "
        "or the segments of a pipeline, in order",
    )
    command.add_argument(
        "--part",
        type=positive,
        nargs="?",
        const=1,
        metavar="NUMBER",
        help="run only this part of the model, of those compiled for the Edge TPU (default: the first)",
    )


def _add_run(commands: Commands) -> None:
    command = add_command(
        commands,
        "run",
        "run a model once",
        "Inputs are .npy, .npz (arrays by input name), images (resized with OpenCV) or raw bytes. "
        "Floating-point arrays are quantised as the model specifies. Operators that the compiler left to the "
        "CPU run there. The state of a recurrent model starts at zero unless an input gives it.",
        module="run",
    )
    _add_model(command)
    command.add_argument(
        "--input",
        action="append",
        required=True,
        metavar="[NAME=]FILE",
        help="once for each input; NAME is optional for a model with one input",
    )
    command.add_argument(
        "--feedback",
        action="append",
        default=[],
        metavar="OUTPUT=INPUT",
        help="an output of a recurrent model and the input it feeds in the next run; by default found by "
        "name",
    )
    command.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the outputs to a .npz, .npy (one output) or raw file",
    )
    add_device_options(command)


def _add_benchmark(commands: Commands) -> None:
    command = add_command(
        commands,
        "benchmark",
        "measure how long a model takes",
        "Runs the model with random inputs and prints wall times on this computer. A virtual stick computes "
        "with LiteRT, so its times say nothing about a real one.",
        module="benchmark",
    )
    _add_model(command)
    command.add_argument("--runs", type=positive, default=200, help="inferences to measure (default: 200)")
    add_device_options(command)


def _add_registers(commands: Commands) -> None:
    command = add_command(
        commands,
        "registers",
        "read the error and status registers of a stick",
        "The backend cpu has none.",
        module="registers",
    )
    add_device_options(command)


def _add_selftest(commands: Commands) -> None:
    command = add_command(
        commands,
        "selftest",
        "check that a stick works",
        "Opens the stick, checks its registers and temperature, runs a model and compares the results with "
        "LiteRT. A real stick needs a compiled model for that.",
        module="selftest",
    )
    command.add_argument(
        "--model",
        type=Path,
        help="the compiled model to run, with its graph next to it; virtual and cpu have a built-in one",
    )
    command.add_argument("--runs", type=positive, default=50, help="inferences to compare (default: 50)")
    add_device_options(command)


def _add_confirm(commands: Commands) -> None:
    command = add_command(
        commands,
        "confirm",
        "check on a real stick what is only assumed so far, and write a report",
        "Runs one step for each assumption of docs/unconfirmed_on_silicon.md, the safest first, and stops if "
        "the stick has to be plugged in again: then continue with --from. A step is confirmed, refuted, or "
        "skipped because something is missing; the exit code is 1 if one is refuted.",
        module="confirm.command",
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--from", dest="first", default="", metavar="STEP", help="run this step and those after it"
    )
    which.add_argument("--only", default="", metavar="STEP", help="run only this step")
    which.add_argument("--list", action="store_true", help="list the steps without running them")
    command.add_argument(
        "--models",
        type=Path,
        metavar="DIR",
        help="directory of compiled models for the steps that need them (default: edgetpu/models in "
        "$ROS_HOME or ~/.ros)",
    )
    command.add_argument(
        "--report",
        type=Path,
        default=Path("edgetpu_confirm"),
        metavar="FILE",
        help="write FILE.json and FILE.txt (default: edgetpu_confirm); --from and --only add to these files",
    )
    add_device_options(command, backends=("usb", "virtual"))
