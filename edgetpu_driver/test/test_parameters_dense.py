"""The Dense parameter layout: against the formula of the format, real compiler output, and its inverse."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout
from edgetpu_driver.darwinn.requantisation import multipliers
from edgetpu_driver.errors import InputError, ModelFormatError, ModelUnsupportedError
from testdata import ModelFolder


def random_weights(rows: int, columns: int) -> NDArray[np.int8]:
    return np.random.default_rng(rows + columns).integers(-128, 128, (rows, columns), np.int8)


def ramp(rows: int) -> NDArray[np.float32]:
    return np.linspace(1e-4, 2e-4, rows, dtype=np.float32)


def golden_blob(golden: ModelFolder) -> NDArray[np.uint8]:
    caching = CompiledModel.load(golden.model("dense_256_edgetpu.tflite")).caching
    assert caching is not None
    return np.frombuffer(caching.parameters, np.uint8)


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (256, 256), (1024, 1024), (128, 300)])
def test_each_weight_is_where_the_format_says(rows: int, columns: int) -> None:
    weights = random_weights(rows, columns)
    layout = DenseLayout(rows, columns)
    blob = layout.new_blob(ramp(rows))
    layout.encode(weights, out=blob)

    row, column = np.indices((rows, columns))
    group = row // 64 * (512 + 64 * columns)
    offsets = group + 512 + column // 4 * 256 + row % 64 * 4 + column % 4
    np.testing.assert_array_equal(blob[offsets], weights.view(np.uint8) ^ 0x80)


@pytest.mark.parametrize(("size", "expected"), [(256, 67_584), (512, 266_240), (1024, 1_056_768)])
def test_square_blobs_have_the_published_sizes(size: int, expected: int) -> None:
    assert DenseLayout(size).size == expected


def test_header_holds_multipliers_and_then_the_zero_point_128() -> None:
    blob = DenseLayout(128).new_blob(ramp(128))
    second_group = blob[512 + 64 * 128 :]
    np.testing.assert_array_equal(second_group[:256].view("<f4"), ramp(128)[64:])
    np.testing.assert_array_equal(second_group[256:512].view("<i4"), np.full(64, 128))


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (256, 256), (100, 7), (65, 1)])
def test_decoding_gives_back_what_was_encoded(rows: int, columns: int) -> None:
    weights = random_weights(rows, columns)
    layout = DenseLayout(rows, columns)
    blob = layout.new_blob(ramp(rows))
    layout.encode(weights, blob)
    np.testing.assert_array_equal(layout.decode(blob), weights)
    np.testing.assert_array_equal(layout.decode_multipliers(blob), ramp(rows))


def test_a_partial_last_group_is_padded_with_neutral_rows() -> None:
    layout = DenseLayout(96, 4)
    blob = layout.new_blob(ramp(96))
    blob[-256:] = 7
    layout.encode(random_weights(96, 4), blob)
    last = blob[layout.size // 2 :]
    np.testing.assert_array_equal(last[128:256].view("<f4"), np.ones(32))
    np.testing.assert_array_equal(last[256:512].view("<i4"), np.repeat([128, 0], 32))
    np.testing.assert_array_equal(last[512 + 128 :], np.zeros(128))


def test_missing_columns_of_the_last_cell_have_the_weight_zero() -> None:
    layout = DenseLayout(64, 3)
    blob = layout.new_blob(ramp(64))
    layout.encode(random_weights(64, 3), blob)
    np.testing.assert_array_equal(blob[512:].reshape(64, 4)[:, 3], np.full(64, 0x80))


def test_encoding_weights_leaves_the_headers_alone() -> None:
    layout = DenseLayout(64)
    blob = np.full(layout.size, 9, np.uint8)
    layout.encode(random_weights(64, 64), blob)
    np.testing.assert_array_equal(blob[:512], np.full(512, 9))


def test_rescaling_leaves_the_weights_alone() -> None:
    layout = DenseLayout(64)
    blob = layout.new_blob(ramp(64))
    layout.encode(random_weights(64, 64), blob)
    layout.encode_multipliers(ramp(64) * 2, blob)
    np.testing.assert_array_equal(layout.decode(blob), random_weights(64, 64))
    np.testing.assert_array_equal(layout.decode_multipliers(blob), ramp(64) * 2)


def test_weights_need_not_be_contiguous() -> None:
    weights = random_weights(64, 64)
    layout = DenseLayout(64)
    blob = layout.new_blob(ramp(64))
    layout.encode(np.asfortranarray(weights), blob)
    np.testing.assert_array_equal(layout.decode(blob), weights)


def test_real_blob_decodes_and_encodes_to_the_same_bytes(golden: ModelFolder) -> None:
    blob = golden_blob(golden)
    layout = DenseLayout(256)
    again = layout.new_blob(layout.decode_multipliers(blob))
    layout.encode(layout.decode(blob), again)
    assert again.tobytes() == blob.tobytes()


def test_multipliers_round_like_a_product_with_the_reciprocal() -> None:
    scales = np.array([0.001, 0.002], np.float32)
    expected = np.float32(0.5) * scales * (np.float32(1) / np.float32(0.3))
    np.testing.assert_array_equal(multipliers(0.5, scales, 0.3), expected)


@pytest.mark.parametrize("rows", [0, 4, 63])
def test_fewer_rows_than_a_group_are_refused(rows: int) -> None:
    with pytest.raises(ModelUnsupportedError, match=f"{rows} rows and 64 columns is not known"):
        DenseLayout(rows, 64)


def test_weights_of_another_dtype_or_shape_are_refused() -> None:
    layout = DenseLayout(64)
    blob = layout.new_blob(ramp(64))
    with pytest.raises(InputError, match=r"expected weights int8\[64, 64\]; got int8\[64, 63\]"):
        layout.encode(random_weights(64, 63), blob)
    with pytest.raises(InputError, match=r"got int16\[64, 64\]"):
        layout.encode(np.zeros((64, 64), np.int16), blob)
    with pytest.raises(InputError, match=r"contiguous, writable uint8\[4608\]"):
        layout.encode(random_weights(64, 64), blob[:-1])


@pytest.mark.parametrize("bad", [np.ones(63), np.full(64, np.nan), np.full(64, 1e300)])
def test_multipliers_must_be_finite_and_one_per_row(bad: NDArray[np.float64]) -> None:
    with pytest.raises(InputError, match="expected 64 finite multipliers"):
        DenseLayout(64).new_blob(bad)


def test_blob_of_another_size_is_malformed() -> None:
    with pytest.raises(ModelFormatError, match="expected 4608 contiguous parameter bytes"):
        DenseLayout(64).decode(np.zeros(4607, np.uint8))


@pytest.mark.parametrize(
    ("position", "what"), [(256, "zero points"), (512 + 3, "columns past"), (-1, "rows past")]
)
def test_other_filler_than_expected_is_malformed(position: int, what: str) -> None:
    layout = DenseLayout(96, 3)
    blob = layout.new_blob(ramp(96))
    layout.encode(random_weights(96, 3), blob)
    blob[position] ^= 1
    with pytest.raises(ModelFormatError, match=what):
        layout.decode(blob)
