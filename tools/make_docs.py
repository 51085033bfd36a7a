"""Write pages of the public names of packages, from their docstrings: make_docs.py FOLDER PACKAGE..."""

import importlib
import sys
from pathlib import Path

import pdoc


def resolve(package: str) -> None:
    """Load the names that a package imports only on first use, since pdoc looks for them in the module."""
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", ()):
        setattr(module, name, getattr(module, name))


folder, *packages = sys.argv[1:]
for package in packages:
    resolve(package)
pdoc.pdoc(*packages, output_directory=Path(folder))
