"""Counts the values of each field in bitstreams."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from edgetpu_driver.darwinn.instructions.instruction_word import field_arrays
from edgetpu_driver.darwinn.instructions.instruction_word_fields import FIELDS


def field_statistics(bitstreams: Iterable[bytes]) -> dict[str, dict[int, int]]:
    """Count values over all words of all bitstreams: field name to value to count, in ascending order.

    Continuation words of vector instructions are counted too, because instruction boundaries are not known
    here. ModelFormatError unless each bitstream is a whole number of words.
    """
    tables = [field_arrays(data) for data in bitstreams]
    if not tables:
        return {field.name: {} for field in FIELDS}
    statistics = {}
    for field in FIELDS:
        values, counts = np.unique(
            np.concatenate([table[field.name] for table in tables]), return_counts=True
        )
        statistics[field.name] = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return statistics
