"""Model files with metadata according to the published metadata_schema.fbs, for tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers

_FLOAT32, _UINT8 = 0, 3
_NORMALISATION_OPTIONS = 1
_TENSOR_AXIS_LABELS = 2


class TableWriter:
    """Writes tables of a FlatBuffer, which are given as dicts from the index of a field to its value.

    Values are int (32 bits), (int, number of bytes) for another size, str, bytes, a dict for a table, or a
    list of int, float or dict.
    """

    def __init__(self) -> None:
        self._builder = flatbuffers.Builder(0)

    def finish(self, root: Mapping[int, Any], identifier: bytes) -> bytes:
        """Return the file with this root table."""
        self._builder.Finish(self._table(root), file_identifier=identifier)
        return bytes(self._builder.Output())

    def _table(self, fields: Mapping[int, Any]) -> int:
        builder = self._builder
        inline = {index for index, value in fields.items() if isinstance(value, int | tuple)}
        offsets = {index: self._offset(value) for index, value in fields.items() if index not in inline}
        builder.StartObject(max(fields, default=0) + 1)
        for index, value in fields.items():
            if index in offsets:
                builder.PrependUOffsetTRelativeSlot(index, offsets[index], 0)
            elif isinstance(value, tuple):
                builder.PrependInt8Slot(index, value[0], 0)
            else:
                builder.PrependInt32Slot(index, value, 0)
        return int(builder.EndObject())

    def _offset(self, value: Any) -> int:
        builder = self._builder
        if isinstance(value, str):
            return int(builder.CreateString(value))
        if isinstance(value, bytes):
            builder.StartVector(1, len(value), 16)
            builder.head -= len(value)
            builder.Bytes[builder.head : builder.head + len(value)] = value
            return int(builder.EndVector())
        if isinstance(value, Mapping):
            return self._table(value)
        items = [self._offset(each) if isinstance(each, Mapping | str) else each for each in value]
        builder.StartVector(4, len(items), 4)
        for original, item in reversed(list(zip(value, items, strict=True))):
            if isinstance(original, Mapping | str):
                builder.PrependUOffsetTRelative(item)
            elif isinstance(item, float):
                builder.PrependFloat32(item)
            else:
                builder.PrependInt32(item)
        return int(builder.EndVector())


def model_with_metadata(
    *,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    output_names: Sequence[str] = (),
    labels: Mapping[str, bytes] | None = None,
    image_type: int = _UINT8,
) -> bytes:
    """A model without operators: input "image" [1, 8, 8, 3] and outputs "out0", "out1" ..

    labels: contents of label files of the first output, by file name.
    """
    names = list(output_names) or ["value"]
    normalisation = {0: (_NORMALISATION_OPTIONS, b""), 1: {0: list(mean), 1: list(std)}}
    files = [{0: name, 2: (_TENSOR_AXIS_LABELS, b"")} for name in labels or {}]
    metadata = {
        0: "a model",
        3: [
            {
                2: [{0: "image", 4: [normalisation] if mean else []}],
                3: [{0: name, 6: files if index == 0 else []} for index, name in enumerate(names)],
            }
        ],
    }
    tensors = [{0: [1, 8, 8, 3], 1: (image_type, b""), 3: "image"}]
    tensors += [{0: [1, 4], 1: (_FLOAT32, b""), 3: f"out{index}"} for index in range(len(names))]
    outputs = list(range(1, len(tensors)))
    model = {
        0: 3,
        1: [],
        2: [{0: tensors, 1: [0], 2: outputs, 3: []}],
        3: "",
        4: [{}, {0: TableWriter().finish(metadata, b"M001")}],
        6: [{0: "TFLITE_METADATA", 1: 1}],
    }
    return with_files(TableWriter().finish(model, b"TFL3"), labels or {})


def with_files(model: bytes, files: Mapping[str, bytes]) -> bytes:
    """A model with files in a zip archive at its end."""
    if not files:
        return model
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        for name, content in files.items():
            target.writestr(zipfile.ZipInfo(name), content)
    return model + archive.getvalue()
