"""The metadata that a .tflite file may carry: normalisation of the image, names of outputs, labels.

Two kinds are read: TFLite metadata, which is a FlatBuffer named TFLITE_METADATA in the model, according to
the published metadata_schema.fbs, with associated files in a zip archive that is appended to the model; and
the description by exporters of YOLO models, a text file in such an archive with a dict that has the key
"names".
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from edgetpu_driver.errors import EdgeTpuError, ModelFormatError
from edgetpu_driver.files.flatbuffer import Table, read_root, table_fields
from edgetpu_driver.files.npz_archive import count_members
from edgetpu_driver.tflite.file_tables import BUFFER, METADATA, read_model_table
from edgetpu_vision.labels.json_or_literal import json_or_literal
from edgetpu_vision.labels.label_text import parse_labels
from edgetpu_vision.labels.labels import Labels
from edgetpu_vision.preprocessing.pixel_scaling import Normalisation

_Value = TypeVar("_Value")

_NAME = "TFLITE_METADATA"
_IDENTIFIER = b"M001"

# Tables of metadata_schema.fbs: their fields in order. A union counts as two.
_ROOT = table_fields("name", "description", "version", "subgraphs")
_SUBGRAPH = table_fields("name", "description", "inputs", "outputs")
_TENSOR = table_fields(
    "name", "description", "dimension_names", "content", "process_units", "stats", "associated_files"
)
_PROCESS_UNIT = table_fields("options_type", "options")
_NORMALISATION = table_fields("mean", "std")
_FILE = table_fields("name", "description", "type")
_NORMALISATION_OPTIONS = 1
"""NormalizationOptions in the union ProcessUnitOptions."""
_LABEL_FILES = (2, 3)
"""TENSOR_AXIS_LABELS and TENSOR_VALUE_LABELS in the enum AssociatedFileType."""

_LARGEST_FILE = 2**22
"""Largest associated file that is read, bytes. Uncritical: the labels of ImageNet take 22 kB."""
_LARGEST_TOTAL = 2 * _LARGEST_FILE
"""Largest size of all associated files that are read, bytes: a few compressed kB can expand to any size."""
_MOST_FILES = 64
"""Largest number of associated files of a model. Uncritical: a model has one or two files of labels."""


@dataclass(frozen=True)
class TfliteMetadata:
    """The content of one file's metadata; everything may be absent."""

    normalisations: tuple[Normalisation | None, ...] = ()
    """Normalisation of each input of the graph."""
    output_names: tuple[str, ...] = ()
    """Name of each output of the graph, such as "location", "category", "score"; "" if unnamed."""
    labels: Labels | None = None
    exporter: Mapping[str, Any] = field(default_factory=dict)
    """The exporter's description of a YOLO model: "names", "task", "imgsz" ..; empty without one."""


def read_metadata(data: bytes) -> TfliteMetadata:
    """Read the metadata of a .tflite file; absent and damaged parts are left out."""
    files = _associated_files(data)
    exporter = _exporter_description(files)
    absent: tuple[list[Table], list[Table]] = [], []
    inputs, outputs = _readable(partial(_tensors, data), absent)
    return TfliteMetadata(
        tuple(_readable(partial(_normalisation, each), None) for each in inputs),
        tuple(_readable(partial(each.string, "name"), "") for each in outputs),
        _readable(partial(_labels, outputs, files), None) or _exporter_labels(exporter),
        exporter,
    )


def _readable(read: Callable[[], _Value], absent: _Value) -> _Value:
    """The result of a function that reads the file, or `absent` if the file is damaged there."""
    try:
        return read()
    except EdgeTpuError:
        return absent


def _tensors(data: bytes) -> tuple[list[Table], list[Table]]:
    """The descriptions of inputs and outputs."""
    root = _metadata_table(data)
    graphs = root.tables("subgraphs", _SUBGRAPH) if root is not None else []
    return (graphs[0].tables("inputs", _TENSOR), graphs[0].tables("outputs", _TENSOR)) if graphs else ([], [])


def _metadata_table(data: bytes) -> Table | None:
    model = read_model_table(data)
    entry = next((each for each in model.tables("metadata", METADATA) if each.string("name") == _NAME), None)
    if entry is None:
        return None
    index, buffers = entry.scalar("buffer", np.uint32), model.tables("buffers", BUFFER)
    if index >= len(buffers):
        raise ModelFormatError(f"{entry.path}.buffer: {index} of {len(buffers)}")
    return read_root(buffers[index].view("data"), _IDENTIFIER, "metadata", _ROOT)


def _normalisation(tensor: Table) -> Normalisation | None:
    for unit in tensor.tables("process_units", _PROCESS_UNIT):
        if unit.scalar("options_type", np.uint8) == _NORMALISATION_OPTIONS:
            options = unit.table("options", _NORMALISATION)
            if options is not None:
                mean, std = (options.array(each, np.float32).tolist() for each in ("mean", "std"))
                return Normalisation.of(mean, std)
    return None


def _labels(outputs: list[Table], files: Mapping[str, bytes]) -> Labels | None:
    """The labels in the first label file of the outputs; further ones, for other locales, are ignored."""
    for output in outputs:
        for each in output.tables("associated_files", _FILE):
            name = each.string("name")
            if each.scalar("type", np.int8) in _LABEL_FILES and name in files:
                return parse_labels(files[name], name)
    return None


def _associated_files(data: bytes) -> dict[str, bytes]:
    """The files in the archive at the end of the model, up to the first damaged one."""
    if count_members(data) > _MOST_FILES:
        return {}
    return dict(_readable_files(data))


def _readable_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    left = _LARGEST_TOTAL
    with suppress(Exception), zipfile.ZipFile(io.BytesIO(data)) as archive:  # zipfile raises many kinds
        for info in archive.infolist():
            if info.file_size > _LARGEST_FILE:
                continue
            with archive.open(info) as file:
                content = file.read(min(_LARGEST_FILE, left) + 1)
            left -= len(content)
            if left < 0:
                return
            if len(content) <= _LARGEST_FILE:
                yield info.filename, content


def _exporter_description(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The first file that is a dict with "names", as JSON or as Python writes it."""
    for content in files.values():
        if not content.lstrip().startswith(b"{"):
            continue
        try:
            value = json_or_literal(content.decode().strip())
        except ValueError:
            continue
        if isinstance(value, dict) and "names" in value:
            return value
    return {}


def _exporter_labels(exporter: Mapping[str, Any]) -> Labels | None:
    names = exporter.get("names")
    if isinstance(names, list):
        names = dict(enumerate(names))
    if not isinstance(names, dict):
        return None
    try:
        return Labels({int(number): str(name) for number, name in names.items()})
    except (TypeError, ValueError, OverflowError, EdgeTpuError):
        return None
