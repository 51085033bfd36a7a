"""A short run of the fuzzing (`make fuzz` runs the long one)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("hypothesis", reason="it draws the inputs (pip install hypothesis)")

from fuzz.corpus import Sample
from fuzz.harness import FuzzError, Tally, check, fuzz
from fuzz.targets import Target, targets

INPUTS = 60


@pytest.fixture(scope="module")
def by_name() -> dict[str, Target]:
    return {target.name: target for target in targets()}


@pytest.mark.parametrize(
    "name",
    [
        "parse_model",
        "CompiledModel.parse",
        "parse_package",
        "flexbuffer.decode",
        "disassemble",
        "from_text",
        "decode_parameters",
        "encode_parameters",
    ],
)
def test_a_parser_raises_nothing_but_format_errors(name: str, by_name: dict[str, Target]) -> None:
    tally = Tally()
    fuzz(by_name[name], INPUTS, 1, tally, lambda: None)
    assert tally.inputs >= INPUTS
    assert tally.refused > 0


def test_valid_inputs_are_accepted(by_name: dict[str, Target]) -> None:
    for name in ("parse_model", "parse_package", "flexbuffer.decode", "from_text", "decode_parameters"):
        for sample in by_name[name].samples:
            by_name[name].parse(sample.data)


def test_another_exception_is_a_finding() -> None:
    def parse(data: bytes) -> None:
        if data and data[0]:
            raise IndexError("out of range")

    target = Target("broken", [Sample("zeros", bytes(8))], parse, 1.0)
    with pytest.raises(IndexError):
        fuzz(target, 200, 1, Tally(), lambda: None)


@pytest.mark.parametrize(
    ("parse", "message"),
    [
        (lambda _: bytearray(64 << 20), "bytes of memory"),
        (lambda _: __import__("time").sleep(2.1), "took 2.1"),
    ],
)
def test_much_memory_or_time_is_a_finding(parse: Callable[[bytes], object], message: str) -> None:
    with pytest.raises(FuzzError, match=message):
        check(Target("greedy", [], parse, 1.0), bytes(8), Tally())
