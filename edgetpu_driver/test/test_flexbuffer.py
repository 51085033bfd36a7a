"""FlexBuffers: the options of custom operators."""

from __future__ import annotations

import random
from typing import Any

import pytest
from flatbuffers import flexbuffers

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.tflite.flexbuffer import decode, encode
from edgetpu_driver.tflite.model_reader import parse_model
from testdata import ModelFolder

VALUES: list[Any] = [
    None,
    True,
    False,
    *(0, 1, -1, 127, 128, -128, -129, 32767, 32768, -32769, 2**31, -(2**31), 2**62, -(2**63)),
    *(0.0, 0.5, 0.1, 1e300, -2.5),
    *(b"", b"\0\xff", bytes(300)),
    *([], [18], [1, -70000, 2.5, None, True, b"abc", [], {}]),
    {},
    {"stride": 16, "": b"x", "nested": {"a": [1, [2, [3]]], "b": {}}},
]


@pytest.mark.parametrize("value", VALUES)
def test_decode_gives_back_what_was_encoded(value: Any) -> None:
    assert decode(encode(value)) == value


@pytest.mark.parametrize("value", [v for v in VALUES if b"\xff" not in (v if isinstance(v, bytes) else b"")])
def test_the_reference_library_reads_our_encoding(value: Any) -> None:
    def as_text(item: Any) -> Any:
        if isinstance(item, bytes):
            return item.decode()
        if isinstance(item, list):
            return [as_text(each) for each in item]
        if isinstance(item, dict):
            return {key: as_text(each) for key, each in item.items()}
        return item

    assert flexbuffers.Loads(encode(value)) == as_text(value)


def test_we_read_the_reference_librarys_encoding() -> None:
    value = {"text": "ü", "blob": b"\1\2", "flag": True, "none": None, "list": [1, -2, 0.5, [300]]}
    assert decode(bytes(flexbuffers.Dumps(value))) == {**value, "text": "ü".encode()}


def test_typed_vectors_and_indirect_numbers_are_read() -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("bools")
        builder.TypedVectorFromElements([True, False])
        builder.Key("floats")
        builder.TypedVectorFromElements([0.5, 1.5])
        builder.IndirectInt("far", -70000)
        builder.Key("ints")
        builder.TypedVectorFromElements([1, -2, 300])
        builder.UInt("large", 2**64 - 1)
    assert decode(bytes(builder.Finish())) == {
        "bools": [True, False],
        "floats": [0.5, 1.5],
        "far": -70000,
        "ints": [1, -2, 300],
        "large": 2**64 - 1,
    }


def test_options_of_real_models_are_encoded_byte_for_byte_as_the_vendor_does(golden: ModelFolder) -> None:
    options = [
        operator.custom_options
        for file in golden.models("_edgetpu.tflite")
        for operator in parse_model(file.read_bytes()).subgraphs[0].operators
        if operator.custom_options
    ]
    for each in options:
        assert encode(decode(each)) == each


def test_options_of_a_compiled_model(golden: ModelFolder) -> None:
    model = parse_model(golden.model("dense_256_edgetpu.tflite").read_bytes())
    options = decode(model.subgraphs[0].operators[0].custom_options)
    package = options.pop("4")
    assert options == {"1": 0, "5": -1, "6": [18], "7": []}
    assert (len(package), package[4:8]) == (102400, b"DWN1")


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\0\x04\x03", b"\0\x27\x01", b"\5\x28\x01"])
def test_malformed_data_are_refused(data: bytes) -> None:
    with pytest.raises(ModelFormatError, match="FlexBuffer"):
        decode(data)


def test_vectors_that_contain_themselves_are_refused() -> None:
    # One element, an offset of 0 to the vector's own first element.
    with pytest.raises(ModelFormatError, match="FlexBuffer"):
        decode(b"\x01\x00\x28\x02\x28\x01")


def test_a_small_buffer_that_unfolds_into_a_huge_value_is_refused() -> None:
    # Thirty vectors, each holding the one before twice.
    data = bytearray(b"\x00")
    start = len(data)
    for _ in range(30):
        data += b"\x02"
        next_start = len(data)
        data += bytes([next_start - start, next_start + 1 - start, 0x28, 0x28])
        start = next_start
    data += bytes([len(data) - start, 0x28, 0x01])
    with pytest.raises(ModelFormatError, match="too often"):
        decode(bytes(data))


def test_an_empty_string_that_is_in_a_vector_very_often_is_refused() -> None:
    data, count = bytearray(2), 30_000
    data += count.to_bytes(2, "little")
    for index in range(count):
        data += (3 + 2 * index).to_bytes(2, "little")
    data += bytes([5 << 2]) * count
    data += (len(data) - 4).to_bytes(4, "little") + bytes([10 << 2 | 1, 4])
    with pytest.raises(ModelFormatError, match="too often"):
        decode(bytes(data))


def test_changed_bytes_raise_only_format_errors() -> None:
    data = encode(VALUES[-1] | {"4": bytes(20), "list": [1, 2.5, b"abc", True, None]})
    rng = random.Random(1)
    refused = 0
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(data))] = rng.choice([0, 1, 40, 255, rng.randrange(256)])
        try:
            decode(bytes(changed[rng.choice([0, 0, 0, 1, 7]) :]))
        except ModelFormatError:
            refused += 1
    assert 100 < refused < 400
