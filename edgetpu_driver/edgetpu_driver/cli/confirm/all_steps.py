"""All steps of `edgetpu confirm`, safest first; docs/unconfirmed_on_silicon.md has the same table."""

from __future__ import annotations

from edgetpu_driver.cli.confirm import core_steps as core
from edgetpu_driver.cli.confirm import link_steps as link
from edgetpu_driver.cli.confirm import matrix_steps as matrix
from edgetpu_driver.cli.confirm import memory_steps as memory
from edgetpu_driver.cli.confirm import network_steps as network
from edgetpu_driver.cli.confirm.step import Step
from edgetpu_driver.cli.confirm.trial_matrix import TrialMatrix

FIRMWARE = "firmware"
PORT = "port"
BRING_UP = "bring_up"
_PROGRAM = "google_program"

_BEFORE_PROGRAMS = (
    Step(FIRMWARE, "firmware image with single-endpoint mode", link.firmware),
    Step(PORT, "port after the firmware load", link.port),
    Step(BRING_UP, "0.5 s for a register to change in bring-up", link.bring_up),
    Step("registers", "error registers after bring-up", link.registers),
    Step(_PROGRAM, "a program that equals Google's, sent without patched addresses", matrix.google_program),
)
_ON_PROGRAMS = (
    ("arithmetic", "the virtual device's numbers", matrix.arithmetic),
    ("repeats", "results that repeat to the bit", matrix.repeats),
    ("patched_fields", "zero points and clamps written into a program", matrix.PATCHED_FIELDS),
    ("retargeted", "compiled files made into those of other graphs", matrix.RETARGETED),
    (
        "sizes",
        "programs of matrices of 512 and 1024 rows",
        matrix.of_matrices(TrialMatrix(512, 512), TrialMatrix(1024, 1024)),
    ),
    ("size_768", "the program of a matrix of 768 rows", matrix.of_matrix(TrialMatrix(768, 768))),
    (
        "signed_output",
        "programs without the QUANTIZE to uint8",
        matrix.of_matrix(TrialMatrix(256, 256, signed_output=True)),
    ),
    ("padding", "inputs of a matrix that is padded, and its bias", matrix.PADDING),
    (
        "replaced_weights",
        "weights replaced without changing the caching token",
        matrix.replaced_weights,
    ),
    (
        "row_multipliers",
        "Dense multipliers in the parameter blob (`rescale_rows`)",
        matrix.row_multipliers,
    ),
    ("network_layer", "weights of a layer of a network", network.network_layer),
    ("resident_together", "rows of the memory that parameters fill", memory.resident_together),
    ("copies", "co-compiled copies of one graph", memory.copies),
    ("headers_together", "header and payload of a frame in one bulk transfer", link.headers_together),
    ("chunk_length", "outfeed chunk length 0x20 at high speed (USB 2)", link.chunk_length),
    ("leftovers", "a whole output that arrives twice", link.leftovers),
    ("times", "the virtual device's times", link.times),
    ("temperature", "temperature", link.temperature),
    ("clock", "main clock of a running chip", link.clock),
    ("interrupts", "interrupt words of endpoint 0x83", link.interrupts),
    ("draining", "draining instead of a reset", link.draining),
    ("credits", "credits (register ep_status_credit)", link.credits),
    ("given_up_program", "error registers after a fault", link.given_up_program),
    ("scalar_core", "the scalar core and its registers", core.scalar_core),
    ("single_step", "single-stepping of the scalar core", core.single_stepping),
)

STEPS = (
    *_BEFORE_PROGRAMS,
    *(Step(name, subject, check, needs=_PROGRAM) for name, subject, check in _ON_PROGRAMS),
)
