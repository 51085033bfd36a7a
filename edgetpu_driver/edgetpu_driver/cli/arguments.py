"""The grammar of the command line."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgetpu_driver.cli import models_arguments
from edgetpu_driver.cli.command_parsers import PRESETS, Commands, add_command, positive
from edgetpu_driver.cli.program import arguments as program_arguments

_BACKENDS = ("usb", "virtual", "cpu")

_EPILOG = """\
exit codes: 0 done, 1 a model, an input or a check is at fault, 2 wrong usage, 3 no stick can be used,
130 interrupted. With --json standard output holds one JSON value, {"error": ..} in case of an error.
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command; it sets `module` and `function` of the subcommand chosen."""
    top = argparse.ArgumentParser(
        prog="edgetpu",
        description="Look at Edge TPUs and at models for them, build, run and measure models, test sticks.",
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
    models_arguments.add(commands)
    program_arguments.add(commands)
    return top


def _add_device_options(command: argparse.ArgumentParser, backends: tuple[str, ...] = _BACKENDS) -> None:
    group = command.add_argument_group("device")
    group.add_argument(
        "--backend",
        choices=backends,
        default="usb",
        help="a stick on USB (default), a virtual stick, or LiteRT on the CPU",
    )
    group.add_argument("--serial", default="", help="only the stick of this serial number")
    group.add_argument("--port", default="", metavar="BUS-PORT", help="only the stick there, e.g. 2-1.4")
    group.add_argument(
        "--firmware",
        default="",
        metavar="FILE",
        help="image for a stick in boot mode (default: apex_latest_single_ep.bin in $ROS_HOME/edgetpu or "
        "~/.ros/edgetpu)",
    )
    group.add_argument("--preset", choices=PRESETS, default="high", help="clock rates (default: high)")


def _add_devices(commands: Commands) -> None:
    command = add_command(
        commands,
        "devices",
        "list the sticks on the bus and whether they can be used",
        "Each stick that cannot be used is shown with the reason and the remedy. Without a stick it checks "
        "what one will need: the udev rule, your groups and the firmware.",
        module="devices",
    )
    command.add_argument("--backend", choices=_BACKENDS, default="usb", help="default: usb")


def _add_doctor(commands: Commands) -> None:
    command = add_command(
        commands,
        "doctor",
        "say what is missing before a stick gives results",
        "Looks at the computer, Python, libusb, the udev rule, the group, the firmware, the stick and its "
        "link, the models, LiteRT and ROS. Each line says what was found and, where something is wrong, the "
        "command that fixes it. The exit code is 1 if something is missing.",
        module="doctor.command",
    )
    command.add_argument("--backend", choices=_BACKENDS, default="usb", help="default: usb")


def _add_info(commands: Commands) -> None:
    command = add_command(
        commands,
        "info",
        "show what model files hold",
        "Of a compiled model: tensors, executables, layers with their layout on the wire, and DMA hints. Of "
        "a plain graph: tensors and operators. The segments of a pipeline, in their order, are described as "
        "one model first; other files one by one.",
        module="info",
    )
    command.add_argument(
        "models", type=Path, nargs="+", metavar="MODEL", help="a .tflite file, compiled or not"
    )


def _add_disassemble(commands: Commands) -> None:
    command = add_command(
        commands,
        "disassemble",
        "show the instructions in compiled models or bare bitstreams",
        "One line for each operation, of 1 to 17 words, with the fields that are known and what else is set, "
        "then the transfers a program asks for.",
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
        "or the segments of a pipeline, in their order",
    )
    command.add_argument(
        "--part",
        type=positive,
        nargs="?",
        const=1,
        metavar="NUMBER",
        help="only this part for the Edge TPU, with its inner tensors (the first without a number), not the "
        "operators before and after it",
    )


def _add_run(commands: Commands) -> None:
    command = add_command(
        commands,
        "run",
        "run a model once",
        "Inputs are .npy, .npz (arrays by input name), images (resized, through OpenCV) or raw bytes. Arrays "
        "of floating-point numbers are quantised as the model says. Operators that the compiler left to the "
        "CPU run there. The state of a recurrent model starts at zero where no input gives it.",
        module="run",
    )
    _add_model(command)
    command.add_argument(
        "--input",
        action="append",
        required=True,
        metavar="[NAME=]FILE",
        help="once for each input; without a name for a model of one input",
    )
    command.add_argument(
        "--feedback",
        action="append",
        default=[],
        metavar="OUTPUT=INPUT",
        help="of a recurrent model, an output and the input that it is in the next run; found by their names "
        "otherwise",
    )
    command.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the outputs to a .npz, .npy (one output) or raw file",
    )
    _add_device_options(command)


def _add_benchmark(commands: Commands) -> None:
    command = add_command(
        commands,
        "benchmark",
        "measure how long a model takes",
        "Random inputs; wall time on this host. A virtual stick computes with LiteRT, so that its times say "
        "nothing of a real one.",
        module="run",
    )
    _add_model(command)
    command.add_argument("--runs", type=positive, default=200, help="inferences to measure (default: 200)")
    _add_device_options(command)


def _add_registers(commands: Commands) -> None:
    command = add_command(
        commands,
        "registers",
        "read the error and status registers of a stick",
        module="selftest",
    )
    _add_device_options(command)


def _add_selftest(commands: Commands) -> None:
    command = add_command(
        commands,
        "selftest",
        "check that a stick works",
        "Opens the stick, looks at its registers and temperature, runs a model and compares with LiteRT. A "
        "real stick needs a compiled model for that.",
        module="selftest",
    )
    command.add_argument(
        "--model",
        type=Path,
        help="the compiled model to run, its graph next to it; virtual and cpu have one built in",
    )
    command.add_argument("--runs", type=positive, default=50, help="inferences to compare (default: 50)")
    _add_device_options(command)


def _add_confirm(commands: Commands) -> None:
    command = add_command(
        commands,
        "confirm",
        "go through what only a real stick can confirm, and write a report",
        "Safest first; stops where the stick has to be plugged in again. docs/unconfirmed_on_silicon.md has "
        "the same table.",
        module="confirm.command",
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument("--from", dest="first", default="", metavar="STEP", help="go on with this step")
    which.add_argument("--only", default="", metavar="STEP", help="run this step alone")
    which.add_argument("--list", action="store_true", help="run nothing; list the steps")
    command.add_argument(
        "--models",
        type=Path,
        metavar="DIR",
        help="compiled models for the steps that need some (default: where the driver looks)",
    )
    command.add_argument(
        "--report",
        type=Path,
        default=Path("edgetpu_confirm"),
        metavar="FILE",
        help="FILE.json and FILE.txt are written (default: edgetpu_confirm); --from and --only add to them",
    )
    _add_device_options(command, backends=("usb", "virtual"))
