"""Files that a browser sends."""

from __future__ import annotations

import asyncio

import pytest

from edgetpu_dashboard.web.uploads import uploaded
from edgetpu_driver.errors import InputError


class File:
    name = "x.npy"

    def __init__(self, content: bytes) -> None:
        self._content = content

    def size(self) -> int:
        return len(self._content)

    async def read(self) -> bytes:
        return self._content


def test_a_file_of_the_largest_size_is_read() -> None:
    assert asyncio.run(uploaded(File(b"1234"), 4)) == b"1234"


def test_a_larger_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected a file of at most 4 bytes; x\.npy has 5"):
        asyncio.run(uploaded(File(b"12345"), 4))
