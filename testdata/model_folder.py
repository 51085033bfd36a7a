"""The golden models in one folder under their own names, as drivers and sidecar files expect them."""

from __future__ import annotations

from pathlib import Path

from testdata.known_files import KnownFiles

_MODELS = "models/"


class ModelFolder:
    """A folder with those golden models of the table that are present, and nothing else."""

    def __init__(self, golden: KnownFiles, folder: Path) -> None:
        """Fill the empty `folder`."""
        self.path = golden.gather(_MODELS, folder) / _MODELS
        self._golden = golden

    def model(self, name: str) -> Path:
        """Return the path of a model, graph or sidecar by file name; raises MissingFileError."""
        self._golden.path(_MODELS + name)
        return self.path / name

    def models(self, end: str = ".tflite") -> tuple[Path, ...]:
        """Return the paths of all models whose names end so; raises MissingFileError if one is missing."""
        return tuple(self.model(name.removeprefix(_MODELS)) for name in self._golden.names(_MODELS, end))
