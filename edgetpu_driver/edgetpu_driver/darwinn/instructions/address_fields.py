"""Address fields: 32-bit values at any bit of a bitstream, which the host may fill in before sending it.

In every compiled program seen they are the imm_scalar of a MOVI, at bit 70 of a word. If the fields stay
zero, addresses are offsets within the transferred data.
"""

from __future__ import annotations

from edgetpu_driver.errors import InputError, ModelFormatError

_VALUE_BITS = 32
"""Length of the immediate operand that holds half of an address."""
_VALUE_MASK = (1 << _VALUE_BITS) - 1


def read_field(data: bytes | bytearray, bit: int) -> int:
    """The 32-bit value whose least significant bit is bit `bit` of a bitstream; 4 or 5 bytes hold it."""
    start, end, shift = _span(data, bit)
    return (int.from_bytes(data[start:end], "little") >> shift) & _VALUE_MASK


def write_field(data: bytearray, bit: int, value: int) -> None:
    """Replace the 32-bit value at a bit, leaving its neighbours; InputError unless value is 32 bits wide."""
    if not 0 <= value <= _VALUE_MASK:
        raise InputError(f"an address field has {_VALUE_BITS} bits; {value:#x} does not fit")
    start, end, shift = _span(data, bit)
    rest = int.from_bytes(data[start:end], "little") & ~(_VALUE_MASK << shift)
    data[start:end] = (rest | value << shift).to_bytes(end - start, "little")


def _span(data: bytes | bytearray, bit: int) -> tuple[int, int, int]:
    """First byte, byte past the last, and the bits to skip in the first."""
    if not 0 <= bit <= 8 * len(data) - _VALUE_BITS:
        raise ModelFormatError(
            f"a bitstream of {8 * len(data)} bits has no {_VALUE_BITS}-bit address field at bit {bit}"
        )
    start, shift = divmod(bit, 8)
    return start, start + (_VALUE_BITS + shift + 7) // 8, shift
