"""Command line that trains a policy on the actions of a teacher: `ros2 run edgetpu_control train_policy`."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgetpu_control.learned import servo_teacher
from edgetpu_control.learned.network import Network
from edgetpu_control.learned.quantised_network import quantise
from edgetpu_control.learned.training import TrainingPlan, train
from edgetpu_driver.errors import EdgeTpuError, InputError, reason_of
from edgetpu_driver.files.file_access import read_file
from edgetpu_driver.weights.real_arrays import real_array

_DEFAULTS = TrainingPlan()
EXIT_ERROR, EXIT_INTERRUPTED = 2, 130
VISUAL_SERVO = "visual_servo"
"""Name of the simulated teacher."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, write the network, and print the error due to 8 bits in each layer."""
    options = _parser().parse_args(arguments)
    try:
        taught = str(options.samples) == VISUAL_SERVO
        if not taught and options.policy.exists() and options.policy.samefile(options.samples):
            raise InputError(f"{options.policy}: expected a file other than that of the samples")
        observations, commands = servo_teacher.lessons() if taught else _samples(options.samples)
        plan = TrainingPlan(tuple(options.hidden), options.epochs, seed=options.seed)
        network = train(observations, commands, plan)
        network.save(options.policy)
        _print_errors(network, max(options.width, *network.sizes), commands, network(observations))
        if taught:
            print(f'parameter observations of the policy node: "{servo_teacher.SOURCES}"')
    except (EdgeTpuError, OSError) as error:
        print(f"train_policy: {reason_of(error)}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("train_policy: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="train_policy",
        description=(
            "Train a neural network to command as a teacher did, write it to a file for the policy node, "
            "and print its deviation from the teacher and the error due to 8 bits in each layer."
        ),
    )
    parser.add_argument(
        "samples",
        type=Path,
        help=f".npz with observations [count, n] and commands [count, m]; or {VISUAL_SERVO}: the visual "
        "servo is the teacher, with a simulated robot",
    )
    parser.add_argument("policy", type=Path, help=".npz file to write")
    parser.add_argument(
        "--hidden",
        type=int,
        nargs="*",
        default=list(_DEFAULTS.hidden),
        help=f"units of each hidden layer (default: {' '.join(map(str, _DEFAULTS.hidden))})",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=_DEFAULTS.epochs,
        help="passes through the samples (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=_DEFAULTS.seed,
        help="of the initial weights and the order of the samples (default: %(default)s)",
    )
    parser.add_argument(
        "--width",
        type=int,
        default=256,
        help="parameter width of the policy node, for the printed errors (default: %(default)s)",
    )
    return parser


def _samples(path: Path) -> tuple[np.ndarray, np.ndarray]:
    data = read_file(path)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            observations, commands = (real_array(file[name], name) for name in ("observations", "commands"))
    except Exception as error:  # zipfile and NumPy raise many kinds
        raise InputError(f"{path}: expected an .npz file with observations and commands; {error}") from None
    return observations.astype(np.float64), commands.astype(np.float64)


def _print_errors(network: Network, width: int, wanted: np.ndarray, found: np.ndarray) -> None:
    sizes, deviations = (np.sqrt(np.mean(np.square(each), axis=0)) for each in (wanted, found - wanted))
    print(
        "deviation from the teacher, relative to the RMS of its commands:",
        ", ".join(
            f"{deviation / size:.2%}" if size else "always 0"
            for deviation, size in zip(deviations, sizes, strict=True)
        ),
    )
    for number, each in enumerate(quantise(network, width=width).layer_errors, 1):
        print(
            f"error due to 8 bits in layer {number}: {each.own:.2%} alone, {each.total:.2%} including the "
            "layers before it"
        )


if __name__ == "__main__":
    sys.exit(main())
