"""Model inputs from files and outputs to files: NumPy, images, raw bytes."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.cli.output_file import write_output
from edgetpu_driver.errors import DependencyMissingError, InputError
from edgetpu_driver.files.file_access import read_file
from edgetpu_driver.files.npz_archive import write_arrays
from edgetpu_driver.images.input_layout import ImageLayout
from edgetpu_driver.tflite.tensor import TensorSpec

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp", ".tif", ".tiff")
_INT8_OFFSET = 128
"""Offset from uint8 grey levels to int8."""
_ROUNDING_ERROR = np.float32(2e-5)
"""Tolerance for interpolation in float32, with steps of 1.5e-5 grey levels: a uniform image stays uniform."""


def read_inputs(
    specs: Sequence[TensorSpec],
    arguments: Sequence[str],
    states: Collection[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, NDArray[Any]]:
    """Read inputs of a model from arguments FILE or NAME=FILE; InputError if they do not fit.

    states: optional inputs. A file without a name is for the only other input. ranges: real values of the
    grey levels 0 and 255 of an image in float32 inputs, by name; 0..1 by default.
    """
    own = [spec for spec in specs if spec.name not in states]
    only = own[0].name if len(own) == 1 else None
    by_name = {spec.name: spec for spec in specs}
    inputs: dict[str, NDArray[Any]] = {}
    for argument in arguments:
        name, equals, rest = argument.partition("=")
        named = bool(equals) and not os.path.exists(argument)  # False for a name too long for a file
        path = Path(rest if named else argument)
        if _suffix(path) == ".npz" and not named:
            found = {key: fitted(_spec(by_name, key), array) for key, array in _load(path).items()}
        else:
            spec = _spec(by_name, name if named else only)
            found = {spec.name: _read(spec, path, (ranges or {}).get(spec.name, (0.0, 1.0)))}
        if twice := sorted(inputs.keys() & found.keys()):
            raise InputError(f"expected each input once; got {', '.join(twice)} again from {path}")
        inputs |= found
    if missing := [str(spec) for spec in own if spec.name not in inputs]:
        raise InputError(f"expected --input NAME=FILE for each of {', '.join(missing)} too")
    return inputs


def _suffix(path: Path) -> str:
    """The suffix of a file in lower case: .npy for x.NPY."""
    return path.suffix.lower()


def _spec(by_name: Mapping[str, TensorSpec], name: str | None) -> TensorSpec:
    if name is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    if name is None or name not in by_name:
        expected = ", ".join(str(spec) for spec in by_name.values())
        raise InputError(f"expected --input NAME=FILE for each of {expected}; got {name or 'no name'}")
    return by_name[name]


def _read(spec: TensorSpec, path: Path, levels: tuple[float, float]) -> NDArray[Any]:
    if _suffix(path) == ".npy":
        return fitted(spec, _load(path))
    if _suffix(path) in _IMAGES:
        return _image(spec, path, levels)
    data = _bytes(path)
    expected = int(np.prod(spec.shape)) * spec.dtype.itemsize
    if len(data) != expected:
        raise InputError(f"expected {expected} bytes for {spec}; {path} has {len(data)}")
    return np.frombuffer(data, spec.dtype).reshape(spec.shape)


def fitted(spec: TensorSpec, array: NDArray[Any]) -> NDArray[Any]:
    """The array in the shape and dtype of `spec`: adds or drops dimensions of 1, quantises reals.

    InputError for another shape, and for integers of another dtype.
    """
    squeezed = tuple(extent for extent in array.shape if extent != 1)
    if squeezed != tuple(extent for extent in spec.shape if extent != 1):
        raise InputError(f"expected {spec}; got {array.dtype.name}{list(array.shape)}")
    array = array.reshape(spec.shape)
    if array.dtype.kind == "f" and spec.dtype.kind in "iu" and spec.scale > 0:
        if not np.isfinite(array).all():
            raise InputError(f"expected finite numbers for {spec}; got NaN or infinity")
        return spec.quantise(array)
    if array.dtype.kind == spec.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return array.astype(spec.dtype)
    if array.dtype.newbyteorder("=") != spec.dtype:  # int8 would wrap around in uint8
        reals = ", or real numbers" if spec.dtype.kind == "f" or spec.scale > 0 else ""
        raise InputError(f"expected {spec}{reals}; got {array.dtype.name}{list(array.shape)}")
    return array.astype(spec.dtype)


def _image(spec: TensorSpec, path: Path, limits: tuple[float, float]) -> NDArray[Any]:
    """An image stretched to the input; for int8 inputs 128 is subtracted.

    limits: values of the grey levels 0 and 255 in a float32 input.

    Interpolated grey levels are rounded down, as for the vendor's reference poses; rounding to nearest
    changes the scores of uncertain keypoints by up to 0.05.
    """
    try:
        import cv2

        from edgetpu_driver.images.compressed_images import decode_file
    except ImportError:
        raise DependencyMissingError(
            "reading images needs OpenCV: apt install python3-opencv, or pip install opencv-python-headless"
        ) from None
    layout = ImageLayout.of(spec.shape)
    if layout is None or spec.dtype.name not in ("uint8", "int8", "int32", "float32"):
        raise InputError(f"{spec} is not an image; give it a .npy file")
    flags = cv2.IMREAD_GRAYSCALE if layout.channels == 1 else cv2.IMREAD_COLOR
    decoded = decode_file(_bytes(path), str(path), flags)
    size = layout.width, layout.height
    levels = cv2.resize(decoded.astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
    pixels = np.floor(levels + _ROUNDING_ERROR).astype(np.uint8)
    if layout.channels == 3:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    pixels = layout.arranged(np.asarray(pixels).reshape(layout.by_rows))
    if spec.dtype.name == "int8":
        pixels = (pixels.astype(np.int16) - _INT8_OFFSET).astype(np.int8)
    if spec.dtype.name == "float32":
        real = limits[0] + pixels.astype(np.float32) * np.float32((limits[1] - limits[0]) / 255)
        return np.asarray(real, np.float32)
    return pixels.astype(spec.dtype, copy=False)


def _load(path: Path) -> Any:
    """The array in a .npy file, or the arrays by name in a .npz file."""
    data = _bytes(path)
    try:
        content = np.load(io.BytesIO(data), allow_pickle=False)
        loaded = content if isinstance(content, np.ndarray) else dict(content)
    except Exception:  # NumPy and zipfile raise many kinds
        loaded = None
    if not isinstance(loaded, dict if _suffix(path) == ".npz" else np.ndarray):
        raise InputError(f"{path} is not a {_suffix(path)} file of numbers")
    return loaded


def _bytes(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def write_outputs(path: Path, outputs: Mapping[str, NDArray[Any]]) -> None:
    """Write .npz with all outputs, .npy with the only one, or the concatenated raw bytes of all.

    InputError for .npy with several outputs or none, and for a file that cannot be written.
    """
    if _suffix(path) == ".npy" and len(outputs) != 1:
        names = f" ({', '.join(outputs)})" if outputs else ""
        raise InputError(f"the model has {len(outputs)} outputs{names}: give --output FILE.npz")
    content = io.BytesIO()
    if _suffix(path) == ".npz":
        write_arrays(content, outputs)
    elif _suffix(path) == ".npy":
        np.save(content, next(iter(outputs.values())))
    else:
        content.write(b"".join(array.tobytes() for array in outputs.values()))
    write_output(path, content.getvalue())
