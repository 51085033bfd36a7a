"""The DarwiNN package: real compiled models, round trips, and malformed packages."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.darwinn.executable import (
    DataType,
    Description,
    Direction,
    DmaHint,
    Executable,
    ExecutableType,
    FenceHint,
    FieldOffset,
    InstructionBitstream,
    InstructionHint,
    InterruptHint,
    Layer,
    OutputLayout,
    Package,
    Position,
)
from edgetpu_driver.darwinn.package_reader import parse_package
from edgetpu_driver.darwinn.package_writer import write_package
from edgetpu_driver.errors import ModelFormatError, ModelUnsupportedError
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.model_reader import parse_model
from testdata import GOLDEN, ModelFolder
from testdata.devices.wire_recording import RECORDED_MODELS, digest, recording

UNDESCRIBED = "keras_lstm_mnist_ptq"  # the only one without a description of its transfers

INPUT, OUTPUT = Description.INPUT, Description.OUTPUT
PARAMETER, SCRATCH = Description.PARAMETER, Description.SCRATCH
INFEED, OUTFEED = Direction.INFEED, Direction.OUTFEED


def packed(golden: ModelFolder, model: str) -> bytes:
    data = golden.model(f"{model}_edgetpu.tflite").read_bytes()
    operators = parse_model(data).subgraphs[0].operators
    options = next(o.custom_options for o in operators if o.custom_code == "edgetpu-custom-op")
    package: bytes = flexbuffer.decode(options)["4"]
    return package


def sample() -> Package:
    """A package that uses every feature of the format."""
    layout = OutputLayout((0, 1), (0, 0), (0, 8), (0, 4), (0, 0), (8, 8))
    bits = InstructionBitstream(
        bytes(range(64)),
        (
            FieldOffset(PARAMETER, "", Position.LOWER_32BIT, 70),
            FieldOffset(OUTPUT, "map", Position.UPPER_32BIT, 198, batch=1),
        ),
    )
    execution = Executable(
        type=ExecutableType.EXECUTION_ONLY,
        name="model",
        parameter_caching_token=0xFEDC_BA98_7654_3210,
        bitstreams=(bits, InstructionBitstream(bytes(16))),
        parameters=b"streamed",
        hints=(
            InstructionHint(0),
            DmaHint(INPUT, INFEED, "image", 0, 24, batch=1),
            DmaHint(INPUT, INFEED, "state", 0, 40),
            FenceHint(),
            DmaHint(PARAMETER, INFEED, "", 2, 6),
            InstructionHint(1),
            DmaHint(SCRATCH, OUTFEED, "", 0, 96),
            DmaHint(SCRATCH, INFEED, "", 32, 64),
            DmaHint(OUTPUT, OUTFEED, "map", 0, 32),
            InterruptHint(3),
        ),
        fully_deterministic=True,
        inputs=(
            Layer("image", 24, (2, 4, 3), DataType.FIXED_POINT8, 128, 0.5),
            Layer("state", 40, (1, 1, 20), DataType.SIGNED_FIXED_POINT16, 32768, 0.25),
        ),
        outputs=(Layer("map", 16, (2, 2, 3), DataType.SIGNED_FIXED_POINT8, 127, 0.125, layout, 2),),
        batch_size=2,
        scratch_size_bytes=96,
        chip="beagle",
        version=1,
        estimated_cycles=1 << 40,
        narrow_memory_bytes_per_tile=832,
        uses_dram_for_parameters=True,
    )
    caching = Executable(
        type=ExecutableType.PARAMETER_CACHING,
        name="Unknown",
        parameter_caching_token=0xFEDC_BA98_7654_3210,
        bitstreams=(InstructionBitstream(bytes(32)),),
        parameters=bytes(range(256)) * 20,
        hints=(InstructionHint(0), DmaHint(PARAMETER, INFEED, "", 0, 5120), InterruptHint(0)),
        fully_deterministic=True,
        inputs=(),
        outputs=(),
    )
    return Package((execution, caching), 14, "cl/1", "identifier", 3, 5, b"signature")


def altered(**changes: Any) -> Package:
    """The sample with other values in its first executable."""
    package = sample()
    return replace(package, executables=(replace(package.executables[0], **changes), package.executables[1]))


@pytest.mark.parametrize("model", RECORDED_MODELS)
def test_real_package_says_what_goes_over_the_wire(golden: ModelFolder, model: str) -> None:
    data = golden.model(f"{model}_edgetpu.tflite").read_bytes()
    described = recording(f"{model}_edgetpu.tflite", data)
    assert digest(described) == GOLDEN.sha256(f"wire/{model}_edgetpu.json")


@pytest.mark.parametrize(
    ("model", "token"),
    [
        ("dense_256", 0xFCE222D70D502FB8),
        ("looming_64x64_3x3", 0xF8334AD491FD50DC),
        ("gabor_64x64_7k_4o_2s", 0x9BF31747AA038302),
        ("gabor_64x64_p4", 0xFB47CAC5B08990D8),
        ("bright_64x64", 0x22A34040C8BF7169),
    ],
)
def test_caching_token_is_the_same_in_both_executables(golden: ModelFolder, model: str, token: int) -> None:
    executables = parse_package(packed(golden, model)).executables
    assert [executable.parameter_caching_token for executable in executables] == [token, token]


def test_real_package_has_its_header_and_names(golden: ModelFolder) -> None:
    package = parse_package(packed(golden, "dense_256"))
    execution, caching = package.executables
    assert (package.min_runtime_version, package.compiler_version, package.signature) == (14, "cl/", b"")
    assert (execution.name, caching.name) == ("model", "Unknown")
    assert (execution.chip, execution.batch_size, execution.narrow_memory_bytes_per_tile) == (
        "beagle",
        1,
        832,
    )


def test_address_fields_of_a_real_program(golden: ModelFolder) -> None:
    execution = parse_package(packed(golden, "gabor_64x64_p4")).executables[0]
    lower, upper = Position.LOWER_32BIT, Position.UPPER_32BIT
    assert execution.bitstreams[0].field_offsets == (
        FieldOffset(PARAMETER, "", lower, 582),
        FieldOffset(PARAMETER, "", upper, 710),
        FieldOffset(SCRATCH, "", lower, 838),
        FieldOffset(SCRATCH, "", upper, 966),
        FieldOffset(INPUT, "input", upper, 8902),
        FieldOffset(INPUT, "input", lower, 9030),
        FieldOffset(OUTPUT, "output", upper, 38726),
        FieldOffset(OUTPUT, "output", lower, 38854),
    )


def test_16_bit_layers_and_hints_that_are_not_deterministic(golden: ModelFolder) -> None:
    execution = parse_package(packed(golden, UNDESCRIBED)).executables[0]
    assert not execution.fully_deterministic
    assert execution.scratch_size_bytes == 672
    assert [(i.data_type, i.zero_point, i.size_bytes) for i in execution.inputs] == [
        (DataType.FIXED_POINT8, 0, 784),
        (DataType.SIGNED_FIXED_POINT8, 127, 24),
        (DataType.SIGNED_FIXED_POINT16, 32768, 40),
    ]


@pytest.mark.parametrize("model", [*RECORDED_MODELS, UNDESCRIBED])
def test_real_package_survives_writing(golden: ModelFolder, model: str) -> None:
    package = parse_package(packed(golden, model))
    assert parse_package(write_package(package)) == package


def test_package_with_everything_survives_writing() -> None:
    assert parse_package(write_package(sample())) == sample()


def test_written_package_is_a_whole_number_of_pages() -> None:
    data = write_package(sample())
    assert len(data) % 4096 == 0
    assert data[4:8] == b"DWN1"


def test_writing_is_reproducible() -> None:
    assert write_package(sample()) == write_package(sample())


def test_parameters_are_page_aligned_in_the_file() -> None:
    data = write_package(sample())
    assert data.index(bytes(range(256)) * 20) % 4096 == 0


HINTS = sample().executables[0].hints
LAYOUT = OutputLayout((0, 1), (0, 0), (0, 8), (0, 4), (0, 0), (8, 8))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hints": (InstructionHint(2),)}, r"executables\[0\].dma_hints\[0\] sends bitstream 2 of 2"),
        ({"hints": (InstructionHint(-1),)}, "sends bitstream -1 of 2"),
        ({"hints": (*HINTS, InterruptHint(4))}, r"dma_hints\[10\] waits for interrupt 4 of 4"),
        ({"hints": (DmaHint(INPUT, INFEED, "picture", 0, 8),)}, "names the layer 'picture'"),
        ({"hints": (DmaHint(OUTPUT, OUTFEED, "map", 0, 33),)}, "moves bytes 0 to 33 of 'map'; it has 32"),
        ({"hints": (DmaHint(OUTPUT, OUTFEED, "map", -8, 8),)}, "moves bytes -8 to 0"),
        ({"hints": (DmaHint(PARAMETER, INFEED, "", 0, 9),)}, "moves bytes 0 to 9"),
        ({"hints": (DmaHint(SCRATCH, OUTFEED, "", 0, 97),)}, "moves bytes 0 to 97"),
        ({"hints": (DmaHint(OUTPUT, OUTFEED, "map", 0, 0),)}, "moves bytes 0 to 0"),
        ({"hints": (DmaHint(INPUT, OUTFEED, "image", 0, 24),)}, "moves INPUT in direction OUTFEED"),
        ({"hints": (DmaHint(INPUT, INFEED, "image", 0, 24, batch=2),)}, "item 2 of a batch of 2"),
        ({"batch_size": 0}, "batch size 0"),
        ({"scratch_size_bytes": -1}, "scratch size -1"),
        ({"scratch_size_bytes": 1 << 30}, "scratch size 1073741824; expected .* at most 33554432"),
        (
            {"scratch_size_bytes": 1 << 25, "hints": 17 * (DmaHint(SCRATCH, OUTFEED, "", 0, 1 << 25),)},
            "dma_hints move 570425344 bytes; expected at most 536870912",
        ),
        (
            {"bitstreams": (InstructionBitstream(bytes(1 << 20)),), "hints": 513 * (InstructionHint(0),)},
            "dma_hints move 537919488 bytes; expected at most 536870912",
        ),
        ({"bitstreams": (InstructionBitstream(bytes(24)),)}, "16-byte instructions: 24"),
        ({"bitstreams": (InstructionBitstream(b""),)}, "16-byte instructions: 0"),
        (
            {"bitstreams": (InstructionBitstream(bytes(16), (FieldOffset(INPUT, "", Position(0), 97),)),)},
            "128 bits; an address field is declared at 97",
        ),
        ({"inputs": sample().executables[0].inputs[:1] * 2}, "input layers share a name"),
    ],
)
def test_inconsistent_executable_is_refused_with_the_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        parse_package(write_package(altered(**changes)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (2, 0, 3)}, r"output layer 'map' has shape \(2, 0, 3\)"),
        ({"size_bytes": 11}, "declares a size of 11 bytes; expected 12 to"),
        ({"size_bytes": 1 << 27}, "declares a size of 134217728 bytes"),
        ({"execution_count": 0}, "0 times per inference"),
        ({"layout": None}, "has no layout"),
        ({"layout": replace(LAYOUT, y_to_tile=(0,))}, r"maps \[1, 2\] rows and \[2\] columns"),
        ({"layout": replace(LAYOUT, x_to_local_row_size=())}, r"maps \[2\] rows and \[0, 2\] columns"),
        ({"layout": replace(LAYOUT, y_to_tile=(0, 2))}, "names tiles 0 to 2 of 2"),
        ({"layout": replace(LAYOUT, y_to_tile=(-1, 0))}, "names tiles -1 to 0 of 2"),
        ({"layout": replace(LAYOUT, tile_offset=(0, 14))}, "reaches elements 0 to 21 of 16"),
        ({"layout": replace(LAYOUT, x_to_local_offset=(-4, 0))}, "reaches elements -4 to"),
    ],
)
def test_inconsistent_layer_is_refused_with_the_place(changes: dict[str, Any], message: str) -> None:
    layer = replace(sample().executables[0].outputs[0], **changes)
    with pytest.raises(ModelFormatError, match=message):
        parse_package(write_package(altered(outputs=(layer,))))


@pytest.mark.parametrize("count", [0, 4])
def test_packages_hold_one_to_three_executables(count: int) -> None:
    package = replace(sample(), executables=sample().executables[:1] * count)
    with pytest.raises(ModelFormatError, match=f"expected 1 to 3 executables, got {count}"):
        parse_package(write_package(package))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": 7}, r"executables\[0\].type: expected a value of ExecutableType, got 7"),
        (
            {"hints": (DmaHint(4, INFEED, "", 0, 8),)},
            r"hints\[0\].any_hint.meta.desc: expected a value of Description, got 4",
        ),  # type: ignore[arg-type]
        (
            {"hints": (DmaHint(INPUT, 2, "image", 0, 8),)},
            r"hints\[0\].direction: expected a value of Direction, got 2",
        ),  # type: ignore[arg-type]
        (
            {"outputs": (Layer("map", 8, (1, 1, 8), 6, 0, 1.0),)},
            "data_type: expected a value of DataType, got 6",
        ),  # type: ignore[arg-type]
    ],
)
def test_unknown_values_are_refused_with_the_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        parse_package(write_package(altered(**changes)))


@pytest.mark.parametrize("data", [b"", b"DWN1", b"\x08\0\0\0TFL3" + bytes(64), bytes(4096)])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ModelFormatError, match="expected the file identifier DWN1"):
        parse_package(data)


def refusal(data: bytes) -> str | None:
    """The message with which a package is refused, None if it is accepted; other exceptions fail the test."""
    try:
        parse_package(data)
    except (ModelFormatError, ModelUnsupportedError) as error:
        return str(error)
    return None


def test_a_truncated_package_is_refused_wherever_it_is_cut() -> None:
    data = write_package(sample())
    assert [size for size in range(0, len(data), 61) if refusal(data[:size]) is None] == []


def test_damaged_packages_are_refused_or_read_and_nothing_else() -> None:
    """`make fuzz` damages thousands."""
    data = np.frombuffer(write_package(sample()), np.uint8)
    generator = random.Random(1)
    meaningful = np.flatnonzero(data)
    outcomes = []
    for _ in range(300):
        damaged = data.copy()
        for position in generator.choices(meaningful, k=generator.randint(1, 3)):
            damaged[position] = generator.choice((0, 1, 0x7F, 0x80, 0xFF, damaged[position] ^ 1))
        outcomes.append(refusal(damaged.tobytes()) is None)
    assert {True, False} == set(outcomes)
