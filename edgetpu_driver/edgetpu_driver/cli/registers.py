"""`edgetpu registers`: the error and status registers of a stick."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from edgetpu_driver.cli.device_and_model import chosen, opened
from edgetpu_driver.cli.terminal import Answer, Progress, table


def registers(options: argparse.Namespace, progress: Progress) -> Answer:  # noqa: ARG001
    """Read the error and status registers."""
    with opened(chosen(options)) as backend:
        values = backend.registers()
    rows = [(each.name, f"{each.address:#07x}", f"{each.value:#x}") for each in values]
    text = table(rows, ("register", "address", "value")) if rows else "this backend has no registers"
    return Answer([asdict(each) for each in values], text)
