"""Exceptions of this package; all are EdgeTpuErrors with a message for users."""

from __future__ import annotations

from edgetpu_driver.errors import EdgeTpuError, InputError


class LabelsError(EdgeTpuError, ValueError):
    """A file of labels is malformed, or its labels are not those of the model."""


class OutputsError(EdgeTpuError, ValueError):
    """The outputs of a model have other shapes or values than the decoder expects."""


class UnknownClassError(InputError):
    """No class was taught under this label."""
