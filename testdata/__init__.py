"""Models, recordings and pictures that are not in the repository, found by their SHA-256.

golden.csv and data.csv say what the files are, where each was published and at which commit; a file that we
made ourselves has no origin there. Tests, accuracy, bench and fuzz find them here and nowhere else.
"""

from pathlib import Path

from testdata.known_files import KnownFiles, MissingFileError
from testdata.model_folder import ModelFolder

_HERE = Path(__file__).resolve().parent
_SHARED = _HERE.parents[1] / "shared"

GOLDEN = KnownFiles(_HERE / "golden.csv", "EDGETPU_GOLDEN", _SHARED / "golden", "golden models")
"""Models that Google's compiler wrote, their graphs and sidecars, and what they put on the wire."""

DATA = KnownFiles(_HERE / "data.csv", "EDGETPU_DATA", _SHARED / "data", "pictures")
"""Photographs, clips and bags of real cameras."""

__all__ = ["DATA", "GOLDEN", "KnownFiles", "MissingFileError", "ModelFolder"]
