"""Programs of matrices, read from their bytes: every field matters, or is listed with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
import pytest

from edgetpu_driver.darwinn.instructions.address_fields import write_field
from edgetpu_driver.darwinn.instructions.operations import Operation, join, split_by_length
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout
from edgetpu_driver.darwinn.programs.dense_program import SIZES, DenseProgram, known_operations
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.virtual.matrix_programs.fields import EXECUTION, UPLOAD
from edgetpu_driver.virtual.matrix_programs.operation_roles import (
    ProgramFaultError,
    RoleOperation,
    Roles,
    execution_roles,
    upload_roles,
)
from edgetpu_driver.virtual.matrix_programs.product import MatrixProduct, read_product
from edgetpu_driver.virtual.matrix_programs.upload import MatrixUpload, read_upload
from edgetpu_driver.virtual.processor.core_execution import CodeProgram, read_matrix_program
from edgetpu_driver.virtual.processor.tile_memory import TileMemory

READS = Requantisation(1.0, -100.0, 101.0, 126, 0, 130)
"""Every number that a program may hold differs from the one in the list of operations."""

ALL_ROLES = {role for section in known_operations().values() for role in section}

HARMLESS = {
    "host_address": "the link moves what the program asks for, wherever it lies on the host",
}
"""Fields in which no change matters, with the reason."""
SOMETIMES_HARMLESS = {
    "minimum": "outputs are whole steps: a limit between the same two steps is the same limit",
    "maximum": "outputs are whole steps: a limit between the same two steps is the same limit",
}
"""Fields in which some changes do not matter, with the reason."""


@cache
def parameters(size: int) -> bytes:
    """Random weights whose outputs reach both limits and leave them too."""
    rng = np.random.default_rng(size)
    layout = DenseLayout(size)
    blob = layout.new_blob(rng.uniform(0.5, 2.0, size) * 0.8e-3)
    layout.encode(rng.integers(-128, 128, (size, size)).astype(np.int8), blob)
    return blob.tobytes()


def result(caching: bytes, execution: bytes, size: int) -> bytes | None:
    """What both programs give for one input; None if a chip would hang, "noise" if it has no such matrix."""
    upload, product = understood(caching), understood(execution)
    if upload is None or product is None or upload.upload is None or product.product is None:
        return None
    return product.product.multiply(values(size), filled(upload.upload, size)) or b"noise"


@cache
def values(size: int) -> bytes:
    """A random input."""
    return np.random.default_rng(1).integers(0, 256, size, np.uint8).tobytes()


@lru_cache(maxsize=4)
def understood(instructions: bytes) -> CodeProgram | None:
    """A program as it is read; None for one that hangs or is not understood."""
    try:
        return read_matrix_program(instructions)
    except ProgramFaultError:
        return None


@lru_cache(maxsize=4)
def filled(upload: MatrixUpload, size: int) -> TileMemory:
    """The tiles after an upload."""
    memory = TileMemory()
    upload.store(parameters(size), memory)
    return memory


class Case(NamedTuple):
    """A program with its roles, and what it gives when it is changed."""

    roles: Roles
    operations: list[Operation]
    run: Callable[[bytes], bytes | None]


@cache
def case_of(size: int, kind: str) -> Case:
    program = DenseProgram(size, READS)
    caching, execution = program.caching().data, program.execution("x", "y").data
    if kind == "upload":
        operations = split_by_length(caching)
        roles = upload_roles(operations)
        run: Callable[[bytes], bytes | None] = lambda changed: result(changed, execution, size)  # noqa: E731
    else:
        operations = split_by_length(execution)
        roles = execution_roles(operations)
        run = lambda changed: result(caching, changed, size)  # noqa: E731
    assert roles is not None
    return Case(roles, operations, run)


def variants(part: RoleOperation, name: str) -> Iterator[int]:
    """Other values of a field: each bit flipped, one more, one less, nothing, everything."""
    value, bits = part[name], part.fields[name]
    others = {value ^ 1 << bit for bit in range(bits.last - bits.first + 1)}
    others |= {(value + 1) & bits.largest, (value - 1) & bits.largest, 0, bits.largest}
    return iter(sorted(others - {value}))


def unnoticed(case: Case, role: str, copies: int | None = None) -> set[str]:
    """The fields of a role in which a change neither makes the chip hang nor changes the result.

    Every change is made to the first operation of the role, every fifth to the others, or the last only.
    """
    expected = case.run(join(case.operations))
    assert expected not in (None, b"noise")
    found = set()
    parts = case.roles.all(role)
    for copy, part in enumerate(parts if copies is None else parts[:1] + parts[-1:]):
        position = next(i for i, each in enumerate(case.operations) if each is part.operation)
        for name in part.fields:
            for value in islice(variants(part, name), 0, None, 5 if copy else 1):
                changed = list(case.operations)
                changed[position] = part.operation.with_field(*part.fields[name], value)
                if case.run(join(changed)) == expected:
                    found.add(name)
    return found


@pytest.mark.parametrize("role", UPLOAD)
def test_every_changed_field_of_an_upload_is_found(role: str) -> None:
    assert unnoticed(case_of(256, "upload"), role) == set(UPLOAD[role]) & set(HARMLESS)


@pytest.mark.parametrize("role", EXECUTION)
def test_every_changed_field_of_an_execution_is_found(role: str) -> None:
    harmless = set(EXECUTION[role]) & (set(HARMLESS) | set(SOMETIMES_HARMLESS))
    assert unnoticed(case_of(256, "execution"), role) == harmless


@pytest.mark.parametrize("role", ["c11", "c06", "pre-14"])
def test_the_same_for_the_largest_upload(role: str) -> None:
    assert unnoticed(case_of(1024, "upload"), role, 2) == set()


def test_a_limit_that_differs_by_a_step_is_found() -> None:
    """The float fields of which some bits do not matter: a step more or less does."""
    size = 256
    caching = DenseProgram(size, READS).caching().data
    outputs = {
        result(caching, DenseProgram(size, each).execution("x", "y").data, size)
        for each in (READS, replace(READS, minimum=-99.0), replace(READS, maximum=100.0))
    }
    assert len(outputs) == 3


def with_swapped(data: bytes, roles: Roles, swaps: dict[str, tuple[str, ...]]) -> bytes:
    """A program in which the first two operations of some roles have exchanged some fields."""
    operations = split_by_length(data)
    for role, names in swaps.items():
        first, second = roles.all(role)[:2]
        for part, other in ((first, second), (second, first)):
            position = next(i for i, each in enumerate(operations) if each == part.operation)
            changed = part.operation
            for name in names:
                changed = changed.with_field(*part.fields[name], other[name])
            operations[position] = changed
    return join(operations)


def blocks(data: bytes) -> list[bytes]:
    """The bytes of each tile."""
    return [data[start : start + 64] for start in range(0, len(data), 64)]


@pytest.mark.parametrize("size", SIZES)
def test_parameters_that_go_to_other_tiles_give_their_outputs_there(size: int) -> None:
    case = case_of(size, "upload")
    expected, program = blocks(case.run(join(case.operations)) or b""), join(case.operations)
    actual = blocks(case.run(with_swapped(program, case.roles, {"c06": ("tiles",)})) or b"")
    assert actual == [expected[1], expected[0], *expected[2:]]


def test_tiles_that_send_in_another_order_give_another_order_of_outputs() -> None:
    case = case_of(512, "execution")
    expected, program = blocks(case.run(join(case.operations)) or b""), join(case.operations)
    actual = blocks(case.run(with_swapped(program, case.roles, {"o10": ("tiles",)})) or b"")
    assert actual == [expected[1], expected[0], *expected[2:]]


@pytest.mark.parametrize(
    "swaps",
    [{"g10": ("tiles",), "g13": ("tiles",)}, {"row11": ("tiles",), "row06": ("tiles",)}, {"col": ("tiles",)}],
    ids=["sender", "row", "column"],
)
def test_inputs_that_take_another_way_are_multiplied_by_other_weights(
    swaps: dict[str, tuple[str, ...]],
) -> None:
    size = 512
    case = case_of(size, "execution")
    other = read_product(roles_of(with_swapped(join(case.operations), case.roles, swaps)))
    straight = read_product(case.roles)
    assert sorted(other.order) == list(range(8))
    assert other.order != straight.order
    memory = filled(read_upload(case_of(size, "upload").roles), size)
    moved = b"".join(blocks(values(size))[piece] for piece in other.order)
    assert other.multiply(values(size), memory) == straight.multiply(moved, memory)


def roles_of(execution: bytes) -> Roles:
    """The roles in a program that multiplies."""
    roles = execution_roles(split_by_length(execution))
    assert roles is not None
    return roles


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("converts_output", [True, False])
def test_size_tiles_and_requantisation_are_read(size: int, converts_output: bool) -> None:
    program = DenseProgram(size, READS, converts_output)
    upload = upload_roles(split_by_length(program.caching().data))
    assert upload is not None
    assert read_upload(upload).parameter_bytes == program.parameter_bytes
    pieces = tuple(range(size // 64))
    execution = roles_of(program.execution("x", "y").data)
    assert read_product(execution) == MatrixProduct(size, pieces, pieces, READS)


def test_inserted_addresses_change_nothing() -> None:
    program = DenseProgram(256, READS)
    caching, execution = program.caching(), program.execution("x", "y")
    linked = bytearray(caching.data), bytearray(execution.data)
    for data, bitstream in zip(linked, (caching, execution), strict=True):
        for field in bitstream.field_offsets:
            write_field(data, field.bit, 0x1234_5678)
    expected = result(caching.data, execution.data, 256)
    assert expected not in (None, b"noise")
    assert result(bytes(linked[0]), bytes(linked[1]), 256) == expected


@pytest.mark.parametrize("kind", ["upload", "execution"])
def test_a_changed_bit_outside_of_the_fields_is_found(kind: str) -> None:
    """Two bits of every word, numbers and bits that no field holds among them."""
    case = case_of(256, kind)
    program = join(case.operations)
    position = 0
    for operation in case.operations:
        part = role_of(case.roles, operation)
        free = {bit for bits in part.fields.values() for bit in range(bits.first, bits.last + 1)}
        for word in range(operation.words):
            for start in (37 * (position + word), 37 * (position + word) + 64):
                bit = 128 * word + start % 128
                changed = bytearray(program)
                changed[16 * position + bit // 8] ^= 1 << bit % 8
                assert bit in free or case.run(bytes(changed)) is None, f"{part.role} bit {bit}"
        position += operation.words


def role_of(roles: Roles, operation: Operation) -> RoleOperation:
    """One of the operations with its role."""
    return next(part for role in ALL_ROLES for part in roles.all(role) if part.operation is operation)


@pytest.mark.parametrize("position", [0, 3, 20, 33])
def test_a_missing_operation_is_found(position: int) -> None:
    case = case_of(256, "upload")
    assert case.run(join(case.operations[:position] + case.operations[position + 1 :])) is None
