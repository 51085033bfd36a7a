"""Options that several commands have, and adding a command. Imports only argparse, so that help is fast."""

from __future__ import annotations

import argparse
from typing import TypeAlias

from edgetpu_driver.cli.number_arguments import number

# Not public in argparse.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
OptionGroup: TypeAlias = "argparse._ArgumentGroup"

BACKENDS = ("usb", "virtual", "cpu")

PRESETS = ("low", "medium", "high", "max")

MAX_TIMEOUT = 1e6
"""Largest timeout that is accepted, s. Uncritical."""


def add_command(
    commands: Commands, name: str, summary: str, more: str = "", *, module: str, function: str = ""
) -> argparse.ArgumentParser:
    """Add a command run by a function of `module`, by default the one of the same name; all have --json."""
    command = commands.add_parser(name, help=summary, description=f"{_sentence(summary)} {more}")
    command.set_defaults(module=module, function=function or name)
    command.add_argument("--json", action="store_true", help="write one JSON value instead of text")
    return command


def add_group(commands: Commands, name: str, summary: str) -> Commands:
    """Add a command with subcommands."""
    group = commands.add_parser(name, help=summary, description=_sentence(summary))
    return group.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_device_options(
    command: argparse.ArgumentParser,
    backends: tuple[str, ...] = BACKENDS,
    *,
    virtual: str = "a virtual stick",
) -> OptionGroup:
    """Add the options that select and open a stick; return their group; virtual: help on that backend."""
    kinds = {"usb": "usb: a stick (default)", "virtual": f"virtual: {virtual}", "cpu": "cpu: LiteRT"}
    group = command.add_argument_group("device")
    group.add_argument(
        "--backend", choices=backends, default="usb", help="; ".join(kinds[each] for each in backends)
    )
    group.add_argument("--serial", default="", help="use the stick with this serial number")
    group.add_argument("--port", default="", metavar="BUS-PORT", help="use the stick there, e.g. 2-1.4")
    group.add_argument(
        "--firmware",
        default="",
        metavar="FILE",
        help="image for a stick in boot mode (default: apex_latest_single_ep.bin in $ROS_HOME/edgetpu or "
        "~/.ros/edgetpu)",
    )
    group.add_argument("--preset", choices=PRESETS, default="high", help="clock rates (default: high)")
    return group


def seconds(text: str) -> float:
    """Read a timeout."""
    expected = f"seconds, more than 0 and at most {MAX_TIMEOUT:g}"
    return number(text, lambda value: 0 < value <= MAX_TIMEOUT, expected)


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."
