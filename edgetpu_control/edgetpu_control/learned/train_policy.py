"""Command line that trains a policy from what a teacher did: `ros2 run edgetpu_control train_policy`."""

from __future__ import annotations

import argparse
import io
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgetpu_control.learned import servo_teacher
from edgetpu_control.learned.network import Network
from edgetpu_control.learned.quantised_network import quantise
from edgetpu_control.learned.training import TrainingPlan, train
from edgetpu_driver.errors import EdgeTpuError, InputError, reason_of
from edgetpu_driver.files.file_access import read_file

_DEFAULTS = TrainingPlan()
EXIT_ERROR = 2
VISUAL_SERVO = "visual_servo"
"""Name of the teacher that is simulated here."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, write the network, and print what 8 bits cost in each layer."""
    parser = argparse.ArgumentParser(prog="train_policy", description=__doc__)
    parser.add_argument(
        "samples",
        type=Path,
        help=f".npz with observations [count, n] and commands [count, m], or {VISUAL_SERVO}: a robot that is "
        "simulated here, turned to a target by the visual servo",
    )
    parser.add_argument("policy", type=Path, help="the .npz file to write")
    parser.add_argument(
        "--hidden", type=int, nargs="*", default=list(_DEFAULTS.hidden), help="units of hidden layers"
    )
    parser.add_argument("--epochs", type=int, default=_DEFAULTS.epochs)
    parser.add_argument("--seed", type=int, default=_DEFAULTS.seed)
    parser.add_argument("--width", type=int, default=256, help="of the program, for the errors printed")
    options = parser.parse_args(arguments)
    try:
        taught = str(options.samples) == VISUAL_SERVO
        observations, commands = servo_teacher.lessons() if taught else _samples(options.samples)
        plan = TrainingPlan(tuple(options.hidden), options.epochs, seed=options.seed)
        network = train(observations, commands, plan)
        network.save(options.policy)
        _tell(network, max(options.width, *network.sizes), commands, network(observations))
        if taught:
            print(f'parameter observations of the policy node: "{servo_teacher.SOURCES}"')
    except (EdgeTpuError, OSError) as error:
        print(f"train_policy: {reason_of(error)}", file=sys.stderr)
        return EXIT_ERROR
    return 0


def _samples(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        with np.load(io.BytesIO(read_file(path)), allow_pickle=False) as file:
            return file["observations"], file["commands"]
    except (EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: expected an .npz file with observations and commands; {error}") from None


def _tell(network: Network, width: int, wanted: np.ndarray, found: np.ndarray) -> None:
    sizes, deviations = (np.sqrt(np.mean(np.square(each), axis=0)) for each in (wanted, found - wanted))
    print(
        "deviation from the teacher, over the RMS of its commands:",
        ", ".join(
            f"{deviation / size:.2%}" if size else "always 0"
            for deviation, size in zip(deviations, sizes, strict=True)
        ),
    )
    for number, each in enumerate(quantise(network, width=width).layer_errors, 1):
        print(
            f"error of layer {number} by 8 bits: {each.own:.2%} alone, {each.total:.2%} with those before it"
        )


if __name__ == "__main__":
    sys.exit(main())
