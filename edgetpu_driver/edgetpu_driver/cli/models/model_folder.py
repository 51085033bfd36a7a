"""Models in a folder: groups their files, determines their kind and backends, protects the compiler's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgetpu_driver.backends.compiled_pairs import check_pair
from edgetpu_driver.backends.factory import BACKENDS
from edgetpu_driver.backends.usable_backends import usable_backends
from edgetpu_driver.cli.device_and_model import compiled_parts
from edgetpu_driver.compiled_model import OWN_COMPILERS, CompiledModel
from edgetpu_driver.engines.whole_model.model_plan import EdgeTpuStep, ModelPlan
from edgetpu_driver.engines.whole_model.pipeline_segments import plan_model
from edgetpu_driver.errors import ModelNameError, ModelNotFoundError, ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import COMPILED_SUFFIX, is_file, plain_stem
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.toolchain.edgetpu_compiler import PROGRAM
from edgetpu_driver.toolchain.graph_catalogue import catalogue
from edgetpu_driver.toolchain.graph_family import build_graph, head_names
from edgetpu_driver.toolchain.model_recognition import OTHER, Kind, parse_sidecar, recognise
from edgetpu_driver.toolchain.retargeting.compiled_sources import retargeting_remark


@dataclass(frozen=True)
class FilesOfModel:
    """The files of one model, each optional."""

    name: str
    compiled: Path | None
    graph: Path | None
    sidecar: Path | None

    @classmethod
    def of(cls, name: str, directory: Path) -> FilesOfModel:
        """The files of that name in a directory."""
        suffixes = (f"{COMPILED_SUFFIX}.tflite", ".tflite", f"{COMPILED_SUFFIX}.json")
        paths = [directory / f"{name}{suffix}" for suffix in suffixes]
        return cls(name, *(path if is_file(path) else None for path in paths))

    @property
    def present(self) -> tuple[Path, ...]:
        """The files that exist."""
        return tuple(path for path in (self.compiled, self.graph, self.sidecar) if path is not None)

    def read(self) -> dict[str, bytes]:
        """Read the files; return the content of each by its name.

        Raises ModelNotFoundError if there are none, or if one cannot be read, and ModelFormatError for one
        that is too large.
        """
        if not self.present:
            raise ModelNotFoundError("expected a file; there is a directory, a pipe or a broken link")
        return {path.name: read_model_file(path) for path in self.present}


@dataclass(frozen=True)
class Examination:
    """Kind, use and backends of a model."""

    kind: str
    use: str
    backends: tuple[str, ...]
    """The backends that can run it."""
    cpu_operators: tuple[str, ...]
    """Names of the operators that do not run on the Edge TPU, in order."""


def keep_others(path: Path, *, retargeted_too: bool) -> None:
    """Refuse to replace a compiled file that exists, unless it was generated or packed here.

    retargeted_too: keep a retargeted one, too, which a real stick can run. Raises ModelUnsupportedError, and
    what `read_model_file` and `compiled_parts` raise.
    """
    if not is_file(path):
        return
    data = read_model_file(path)
    if compiled_parts(path, data)[0].compiler in OWN_COMPILERS:
        return
    retargeted = bool(retargeting_remark(path, data))
    if not retargeted or retargeted_too:
        maker = "`edgetpu models retarget`" if retargeted else PROGRAM
        raise ModelUnsupportedError(
            f"{path} was made by {maker} and is not overwritten; give --output to write elsewhere"
        )


def models_in(directory: Path) -> list[FilesOfModel]:
    """The models of a folder, by name."""
    names = sorted({plain_stem(path) for path in directory.glob("*.tflite")})
    return [FilesOfModel.of(name, directory) for name in names]


def examine(files: FilesOfModel, contents: Mapping[str, bytes]) -> Examination:
    """Determine what a model is, from its files' contents by name; EdgeTpuError if it cannot be used."""
    graph = contents[files.graph.name] if files.graph else None
    source = plan_model(graph, files.name) if graph is not None else None
    specs = (source.inputs, source.outputs) if source is not None else ((), ())
    plan = None
    if files.compiled is not None:
        data = contents[files.compiled.name]
        CompiledModel.parse_parts(data, files.name)  # raises if there are none
        plan = plan_model(data, files.name, files.compiled)
        if plan.unsupported_reason:
            raise ModelUnsupportedError(plan.unsupported_reason)
        if source is not None:
            check_pair(plan, source)
        specs = plan.inputs, plan.outputs
    compiled = plan.edge_tpu_steps[0].model if plan is not None and len(plan.steps) == 1 else None
    sidecar = parse_sidecar(contents[files.sidecar.name]) if files.sidecar else None
    kind = recognise(*specs, compiled=compiled, graph=graph, sidecar=sidecar)
    if kind is OTHER and graph is not None:
        kind = _own_kind(files.name, graph) or OTHER
    left = _cpu_operators(plan) if plan is not None else ()
    return Examination(kind.name, kind.use, _backends(files, contents), left)


def _own_kind(name: str, graph: bytes) -> Kind | None:
    """The graph that `edgetpu models build` makes for that name; None for any other name."""
    families = catalogue().families
    try:
        if build_graph(name, families) != graph:
            return None
    except ModelNameError:
        return None
    uses = [each.purpose for head in head_names(name) for each in families if each.pattern.fullmatch(head)]
    return Kind("own", "; ".join(dict.fromkeys(uses)))


def _cpu_operators(plan: ModelPlan) -> tuple[str, ...]:
    """Names of the operators that do not run on the Edge TPU, in order."""
    return tuple(name for step in plan.steps if not isinstance(step, EdgeTpuStep) for name in step.operators)


def _backends(files: FilesOfModel, contents: Mapping[str, bytes]) -> tuple[str, ...]:
    """Backends that can run a model: usb and virtual its compiled file, virtual and cpu its graph."""
    usable = set()
    for path in (files.compiled, files.graph):
        if path is not None:
            found = usable_backends([(path, contents[path.name])])
            usable |= {name for name, each in found.items() if not each.obstacle}
    return tuple(name for name in BACKENDS if name in usable)
