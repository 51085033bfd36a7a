"""The operations of a program, each with its role, if it has the form of a matrix's program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from edgetpu_driver.darwinn.instructions.instruction_word_fields import WORD_BITS
from edgetpu_driver.darwinn.instructions.operations import NUMBERS, Kind, Operation
from edgetpu_driver.darwinn.programs.dense_program import known_operations
from edgetpu_driver.virtual.matrix_programs.fields import EXECUTION, UPLOAD, Fields

_UPLOAD_GROUPS = (("c11",), ("c06",))
_EXECUTION_GROUPS = (("col",), ("row11", "row06"), ("g14", "g11", "g10", "g13"), ("o07", "o10"))
_CONVERSION = "post-5"
"""Role of the QUANTIZE at the end, which a program may omit."""


class ProgramFaultError(Exception):
    """A program that no chip would run to its end; the message names the operation and the fault."""


@dataclass(frozen=True)
class RoleOperation:
    """One operation of a program, with its role."""

    role: str
    copy: int
    """Index of the operation among the operations of its role."""
    operation: Operation
    fields: Fields

    def __getitem__(self, name: str) -> int:
        return self.operation.field(*self.fields[name])

    def expect(self, **values: int) -> None:
        """Raise ProgramFaultError unless the fields hold these values, modulo their range."""
        for name, value in values.items():
            if self[name] != value & self.fields[name].largest:
                raise self.fault(
                    f"{name} is {self[name]:#x} instead of {value & self.fields[name].largest:#x}"
                )

    def expect_all(self, prefix: str, value: int) -> None:
        """Check all fields whose names are the prefix and a number; see `expect`."""
        self.expect(**{name: value for name in self.fields if name.rpartition("_")[0] == prefix})

    def fault(self, what: str) -> ProgramFaultError:
        """An error that names this operation."""
        return ProgramFaultError(f"operation {self.role} number {self.copy}: {what}")


class Roles:
    """All operations of a program by role."""

    def __init__(self, parts: list[RoleOperation]) -> None:
        self._by_role: dict[str, list[RoleOperation]] = {}
        for part in parts:
            self._by_role.setdefault(part.role, []).append(part)

    def all(self, role: str) -> list[RoleOperation]:
        """The operations of a role, in their order."""
        return self._by_role.get(role, [])

    def one(self, role: str) -> RoleOperation:
        """The only operation of a role."""
        return self._by_role[role][0]


def upload_roles(operations: list[Operation]) -> Roles | None:
    """The roles in a program that uploads the parameters of a matrix; None for a program of another form.

    Raises ProgramFaultError for a program of that form with a wrong length or number, or with a difference in
    the bits that all such programs share.
    """
    return _roles(operations, known_operations()["PARAMETER_CACHING"], _UPLOAD_GROUPS, UPLOAD)


def execution_roles(operations: list[Operation]) -> Roles | None:
    """The roles in a program that multiplies; see `upload_roles`."""
    return _roles(operations, known_operations()["EXECUTION_ONLY"], _EXECUTION_GROUPS, EXECUTION)


def _roles(
    operations: list[Operation],
    known: Mapping[str, Operation],
    groups: tuple[tuple[str, ...], ...],
    fields: Mapping[str, Fields],
) -> Roles | None:
    kinds = [operation.kind for operation in operations]
    roles = list(_assigned(kinds, known, groups))
    if len(roles) != len(operations) or len(set(roles)) != len(known) - (_CONVERSION in known) + (
        _CONVERSION in roles
    ):
        return None
    copies: dict[str, int] = {}
    parts = []
    for role, operation in zip(roles, operations, strict=True):
        copies[role] = copies.get(role, -1) + 1
        parts.append(RoleOperation(role, copies[role], operation, fields.get(role, {})))
    strange = [
        part for part in parts if _differing_bits(part.operation, known[part.role]) & ~_free_bits(part)
    ]
    if len(strange) > 1:
        return None  # of another network
    if strange:
        raise strange[0].fault("it has bits that no known program has")
    _check_numbers(parts)
    parts[0].expect(length=(sum(each.words for each in operations) - 2) * WORD_BITS)
    return Roles(parts)


def _assigned(
    kinds: list[Kind], known: Mapping[str, Operation], groups: tuple[tuple[str, ...], ...]
) -> Iterator[str]:
    """The role of each operation, as far as the kinds of operations match the form."""
    position = 0
    for names in _in_order(known, groups):
        wanted = [known[name].kind for name in names]
        repeated = "-" not in names[0]
        while kinds[position : position + len(names)] == wanted:
            yield from names
            position += len(names)
            if not repeated:
                break
        else:
            if not repeated and names[0] != _CONVERSION:
                return


def _in_order(
    known: Mapping[str, Operation], groups: tuple[tuple[str, ...], ...]
) -> Iterator[tuple[str, ...]]:
    """The roles in the order of the program; repeated ones are grouped."""
    first = {group[0]: group for group in groups}
    inner = {name for group in groups for name in group[1:]}
    return (first.get(role, (role,)) for role in known if role not in inner)


def _differing_bits(operation: Operation, other: Operation) -> int:
    """The bits in which two operations of one kind differ, apart from their numbers."""
    if operation.numbered:
        operation, other = operation.numbered_as(0), other.numbered_as(0)
    return operation.value ^ other.value


def _free_bits(part: RoleOperation) -> int:
    """The bits that differ between programs."""
    return sum(bits.largest << bits.first for bits in part.fields.values())


def _check_numbers(parts: list[RoleOperation]) -> None:
    expected = 0
    for part in parts:
        if not part.operation.numbered:
            continue
        number = part.operation.number
        if number != expected % NUMBERS:
            raise part.fault(f"its number is {number} instead of {expected % NUMBERS}")
        expected += 1
