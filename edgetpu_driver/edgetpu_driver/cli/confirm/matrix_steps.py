"""Steps with generated programs: a stick's results, with various parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from edgetpu_driver.cli.confirm.outcome import Refuted, Values
from edgetpu_driver.cli.confirm.trial_matrix import (
    GOOGLE_PROGRAMS,
    RetargetedMatrix,
    TrialMatrix,
    compared,
    google_matrix,
)
from edgetpu_driver.cli.confirm.trial_stick import TrialStick

_REPETITIONS = 50
"""Number of runs on one input that must agree. Rarer faults may go unnoticed."""
_VECTORS = 64
"""Random inputs of the step `arithmetic`; more check more values and take longer."""


def google_program(stick: TrialStick) -> Values:
    """Run a program that is byte for byte equal to Google's, unmodified."""
    matrix = google_matrix()
    programs = (matrix.model.execution, matrix.model.caching)
    digests = [hashlib.sha256(each.bitstreams[0].data).hexdigest() for each in programs if each]
    if tuple(digests) != GOOGLE_PROGRAMS:
        raise Refuted(f"expected programs with the SHA-256 {GOOGLE_PROGRAMS}; got {digests}")
    return stick.check(matrix)


def arithmetic(stick: TrialStick) -> Values:
    """Count the outputs that differ from the documented arithmetic, over many inputs."""
    matrix = google_matrix(seed=1)
    inputs = np.random.default_rng(2).integers(0, 256, (_VECTORS, matrix.columns), np.uint8)
    return compared(stick.multiply(matrix, inputs), matrix.products(inputs))


def repeats(stick: TrialStick) -> Values:
    """Multiply the same vector many times."""
    matrix = google_matrix()
    vector = matrix.inputs()[:1]
    outputs = stick.multiply(matrix, np.repeat(vector, _REPETITIONS, axis=0))
    differing = int(np.count_nonzero((outputs != outputs[0]).any(axis=1)))
    values = {"runs": _REPETITIONS, "differing": differing}
    if differing:
        raise Refuted(f"{differing} of {_REPETITIONS} runs gave different outputs for the same input", values)
    return values


def of_matrix(matrix: TrialMatrix) -> Callable[[TrialStick], Values]:
    """A step that compares the products of one matrix."""
    return lambda stick: stick.check(matrix)


def of_matrices(*matrices: TrialMatrix) -> Callable[[TrialStick], Values]:
    """A step that compares the products of several matrices."""

    def check(stick: TrialStick) -> Values:
        return {"matrices": [stick.check(each) for each in matrices]}

    return check


PATCHED_FIELDS = of_matrices(
    TrialMatrix(256, 256, input_zero_point=90, output_zero_point=60, output_scale=0.3),
    TrialMatrix(256, 256, activation="RELU", output_zero_point=0),
    TrialMatrix(256, 256, activation="RELU6", output_zero_point=10, input_zero_point=1),
)
RETARGETED = of_matrix(
    RetargetedMatrix(
        256, 256, input_zero_point=100, output_zero_point=150, output_scale=0.25, scale_spread=0.5, seed=4
    )
)
PADDING = of_matrix(TrialMatrix(200, 180, bias=True, output_scale=0.4))


def replaced_weights(stick: TrialStick) -> Values:
    """Upload other weights with the same caching token, then the original ones."""
    first, second = google_matrix(), google_matrix(seed=3)
    inputs = first.inputs()
    loaded = stick.load(first)
    stick.multiply(first, inputs)
    loaded.upload(second.weights)
    try:
        values = compared(stick.multiply(first, inputs), second.products(inputs))
    except Refuted as error:
        raise Refuted(f"with replaced weights {error}", error.values) from None
    loaded.upload(first.weights)
    compared(stick.multiply(first, inputs), first.products(inputs))
    return values


def row_multipliers(stick: TrialStick) -> Values:
    """Upload the multipliers of a matrix whose weight scales differ by up to a factor of four."""
    usual, rescaled = TrialMatrix(256, 256), TrialMatrix(256, 256, scale_spread=3.0)
    inputs = usual.inputs()
    loaded = stick.load(usual)
    stick.multiply(usual, inputs)
    loaded.upload(rescaled.model.parameters.cached)
    return compared(stick.multiply(usual, inputs), rescaled.products(inputs))
