"""The model that the user names for a vision node, as parameters of that node and of the driver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from demo.errors import UsageError
from demo.nodes import DemoNode
from demo.processes import as_parameter
from edgetpu_driver.files.default_paths import default_model_dir

Parameters = tuple[tuple[str, str], ...]


def model_parameters(
    model: str | None, labels: str | None, nodes: Sequence[DemoNode]
) -> tuple[Parameters, Parameters]:
    """Parameters of the driver, and of the one node that needs the model.

    Raises UsageError if not exactly one node needs a model, or if a file does not exist.
    """
    if not model:
        if labels:
            raise UsageError("LABELS needs MODEL as well")
        return (), ()
    takers = [node.name for node in nodes if node.needs_model]
    if len(takers) != 1:
        raise UsageError(f"MODEL needs exactly one vision node in NODES; got {', '.join(takers) or 'none'}")
    files = [Path(part.strip()).expanduser().resolve() for part in model.split(",")]
    for file in files:
        if not file.is_file():
            raise UsageError(f"no model at {file}")
    folders = dict.fromkeys([str(file.parent) for file in files] + [str(default_model_dir())])
    of_node = [("model", as_parameter(",".join(str(file) for file in files)))]
    if labels:
        path = Path(labels).expanduser()
        of_node.append(("labels", as_parameter(str(path.resolve()) if path.is_file() else labels)))
    return (("model_dirs", as_parameter(list(folders))),), tuple(of_node)
