"""The command that installs LiteRT: it keeps NumPy 1, for which the OpenCV of Ubuntu was built."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from edgetpu_driver.engines import litert_package


@pytest.mark.parametrize(
    ("numpy", "command"),
    [
        ("1.21.5", "pip install ai-edge-litert 'numpy<2'"),
        ("1.26.4", "pip install ai-edge-litert 'numpy<2'"),
        ("2.4.6", "pip install ai-edge-litert"),
    ],
)
def test_the_command_keeps_numpy_1(monkeypatch: pytest.MonkeyPatch, numpy: str, command: str) -> None:
    monkeypatch.setattr(litert_package, "version", {"numpy": numpy}.__getitem__)
    assert litert_package.install_command() == command


def test_without_numpy_any_version_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(litert_package, "version", refuse)
    assert litert_package.install_command() == "pip install ai-edge-litert"
