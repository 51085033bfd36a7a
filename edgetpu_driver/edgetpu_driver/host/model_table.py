"""The models of a host by name: loading, ownership, limits."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.errors import (
    BusyError,
    EdgeTpuError,
    InputError,
    ModelNotFoundError,
    ModelUnsupportedError,
    OwnershipError,
    UnavailableError,
    unexpected,
)
from edgetpu_driver.files.compiled_file_names import common_name, is_compiled, plain_stem
from edgetpu_driver.host.background_thread import BackgroundThread
from edgetpu_driver.host.client_limits import MOST_SEGMENTS
from edgetpu_driver.host.load_queue import LoadQueue, Work
from edgetpu_driver.host.models.hosted_model import HostedModel, ModelState
from edgetpu_driver.host.models.model_parts import ReadModel, read_model
from edgetpu_driver.host.requests.admission import LOADING, Admission
from edgetpu_driver.host.requests.request import Request
from edgetpu_driver.host.sticks.scheduler import Scheduler
from edgetpu_driver.host.sticks.stick_pool import StickPool
from edgetpu_driver.host.sticks.stick_worker import StickWorker
from edgetpu_driver.host.whole_models.whole_models import WholeModels
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.model_reader import operand_specs
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.tflite.weightless_files import without_weights
from edgetpu_driver.toolchain.graph_catalogue import read_graph
from edgetpu_driver.toolchain.joint_graphs import build_joint_graph, head_name
from edgetpu_driver.toolchain.model_directories import ModelDirectories

_log = logging.getLogger(__name__)
_QUICKLY_READ = 1 << 20
_QUICKLY_LISTED = 64
"""Size of the largest file, bytes, whose inputs and outputs are read while a caller waits, and how many of
each are read at most: some milliseconds of work."""
LONGEST_NAME = 1000
"""Longest name of a model, characters. Chosen for the full name of a node, up to 255, a slash and a file
name, with room to spare; limited because every list of models and every status repeats it."""
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.~/-]{{0,{LONGEST_NAME - 1}}}")

OnLoaded = Callable[["HostedModel | EdgeTpuError"], None]
"""Called with the model, or with the error that prevented it from being loaded."""

Named: TypeAlias = str | HostedModel
"""The name of a model, or a model that has been looked up; unloaded models take no more requests."""


class ModelTable:
    """Models by name. All methods may be called from any thread; files are read in a separate thread."""

    def __init__(
        self,
        files: ModelDirectories,
        backends: Sequence[Backend],
        admission: Admission,
        scheduler: Scheduler,
        pool: StickPool,
        whole: WholeModels,
        limits: ProcessLimits | None,
    ) -> None:
        """limits: of the processes that run parts of models with LiteRT."""
        self._files = files
        self._backends = tuple(backends)
        self._admission = admission
        self._scheduler = scheduler
        self._pool = pool
        self._whole = whole
        self._limits = limits
        self._lock = scheduler.lock
        self._models: dict[str, HostedModel] = {}
        self._ended = False
        self._loader = BackgroundThread("edgetpu loader")
        self._queue = LoadQueue()

    def load(
        self, model: str | Sequence[str], name: str, done: OnLoaded, client: str, shared: bool
    ) -> HostedModel:
        """Begin to load a model; see ModelHost.submit_load."""
        if name and not _NAME.fullmatch(name):
            raise InputError(
                f"expected a name of at most {LONGEST_NAME} letters, digits and characters _ . ~ / - that "
                f"begins with a letter, a digit or _; got {name[:100]!r}"
            )
        wanted = [model] if isinstance(model, str) else model
        if not wanted:
            raise InputError("expected a model, or the segments of one; got none")
        if len(wanted) > MOST_SEGMENTS:  # other requests wait while files are searched for
            raise InputError(f"expected a pipeline of at most {MOST_SEGMENTS} segments; got {len(wanted)}")
        paths = tuple(self._files.find(each) for each in wanted)
        name = name or common_name([plain_stem(path) for path in paths])
        with self._lock:
            self._admission.check_loading(self._queue.pending_of(client), self._queue.pending)
        fresh = HostedModel(name, paths, client, shared)
        fresh.file_bytes = _size_of(paths)
        with self._lock:
            self._check_limits(fresh)  # before the file is read
        fresh.tensors_of_file = _tensors_of(paths)
        with self._lock:
            self._check_limits(fresh)
            present = self._usable(name)
            if present is None:
                self._models[name] = fresh
                self._forget_failed()
            elif present.paths != paths:
                self.check_owner(present, client)
            work = partial(self._load, fresh, done)
            self._queue.add(client, work)
        try:
            self._loader.submit(self._load_next)
        except RuntimeError:  # no thread can be started
            self._withdraw(fresh, client, work)
        return fresh if present is None or present.paths != paths else present

    def _usable(self, name: str) -> HostedModel | None:
        """The model of that name; None if there is none or it could not be loaded."""
        present = self._models.get(name)
        return None if present is not None and present.state is ModelState.FAILED else present

    def add_backend(self, backend: Backend, added: Callable[[StickWorker], None]) -> None:
        """Have a further device run the models, after what is being loaded; `added` gets its worker."""
        self._loader.submit(partial(self._add_backend, backend, added))

    def load_joint(self, name: str, done: OnLoaded) -> None:
        """Begin to load the joint graph of that name, which no request can name; `done` is called later."""
        self._loader.submit(partial(self._load_joint, name, done))

    def unload_joint(self, model: HostedModel) -> None:
        """Take no more requests for a joint graph."""
        with self._lock:
            self._scheduler.unload(model)

    def unload(self, name: str, client: str) -> None:
        """Unload a model; see ModelHost.unload."""
        model = self.model(name)
        with self._lock:
            self.check_owner(model, client)
            if self._models.get(name) is model:
                del self._models[name]
                self._retire(model)

    def end(self) -> None:
        """Unload all models and load no more; requests to load are answered with UnavailableError."""
        with self._lock:
            self._ended = True
            models, self._models = self._models, {}
            for model in models.values():
                self._retire(model)

    def model(self, name: Named) -> HostedModel:
        """The model of that name; ModelNotFoundError, with the names of the loaded ones, if there is none."""
        if isinstance(name, HostedModel):
            return name
        model = self._models.get(name)
        if model is None:
            loaded = (each.name for each in self.models() if each.state is not ModelState.FAILED)
            names = ", ".join(loaded) or "none"
            raise ModelNotFoundError(f"no model '{name}' is loaded; loaded: {names}")
        return model

    def models(self) -> tuple[HostedModel, ...]:
        """The models, in the order in which they were loaded."""
        with self._lock:
            return tuple(self._models.values())

    def check_owner(self, model: HostedModel, client: str) -> None:
        """Raise OwnershipError unless a client may change a model."""
        if not model.is_free_to(client):
            owner = f"'{model.owner}'" if model.owner else "an anonymous client"
            raise OwnershipError(
                f"model '{model.name}' belongs to {owner}, which did not load it as shared; load the file "
                "under another name"
            )

    def _retire(self, model: HostedModel) -> None:
        """Take no more requests for a model. Must be called with the lock held."""
        (self._whole if model.parts else self._scheduler).unload(model)

    def _withdraw(self, fresh: HostedModel, client: str, work: Work) -> None:
        """Withdraw a model that no thread can load, and raise BusyError.

        If the thread of a later request has already taken it, this turn serves that request instead.
        """
        error = BusyError(f"no thread can be started to load a model; try again in {LOADING:g} s", LOADING)
        with self._lock:
            withdrawn = self._queue.remove(client, work)
            if withdrawn:
                fresh.set_failed(error)
                if self._models.get(fresh.name) is fresh:
                    del self._models[fresh.name]
        if withdrawn:
            self._scheduler.refuse()
            raise error
        self._loader.submit_or_do(self._load_next)

    def _forget_failed(self) -> None:
        """Forget the oldest models that could not be loaded while there are more names than permitted."""
        failed = [name for name, each in self._models.items() if each.state is ModelState.FAILED]
        for name in failed[: max(len(self._models) - self._admission.limits.models, 0)]:
            del self._models[name]

    def _check_limits(self, fresh: HostedModel) -> None:
        """Raise BusyError if a model cannot be loaded next to those of other names, loaded or queued."""
        present = (each for each in self._models.values() if each.state is not ModelState.FAILED)
        others = [each.file_bytes for each in present if each.name != fresh.name]
        self._admission.check_loaded(len(others), sum(others), fresh.file_bytes)

    # In the loader's thread.

    def _load_next(self) -> None:
        with self._lock:
            client, work = self._queue.take()
        try:
            work()
        finally:
            with self._lock:
                self._queue.ended(client)

    def _load(self, fresh: HostedModel, done: OnLoaded) -> None:
        outcome: HostedModel | EdgeTpuError
        try:
            outcome = self._loaded(fresh)
        except Exception as error:
            outcome = error if isinstance(error, EdgeTpuError) else _unexpected(error, fresh)
            outcome = outcome.with_traceback(None)  # its frames refer to the future, and to the files
            with self._lock:
                fresh.set_failed(outcome)
            self._scheduler.refuse()
        try:
            done(outcome)
        except Exception:
            _log.exception("unexpected error in the callback of loading '%s'", fresh.name)

    def _loaded(self, fresh: HostedModel) -> HostedModel:
        """The model of that name and file, read or already present."""
        self._check_wanted(fresh)
        with self._lock:
            present = self._models.get(fresh.name)
        if present is not None and present.paths == fresh.paths and present.state is ModelState.QUEUED:
            fresh = present  # its owner keeps it, even if the turn of another client comes first
        if fresh.state is ModelState.LOADED:
            return fresh
        files = [(path, read_graph(path)) for path in fresh.paths]
        digest = hashlib.sha256(b"".join(data for _, data in files)).hexdigest()
        fresh.file_bytes = sum(len(data) for _, data in files)
        with self._lock:
            self._check_limits(fresh)  # a file may have grown, and other names may have larger files now
            present = self._models.get(fresh.name)
        earlier = None
        if present is not None and present is not fresh and present.state is ModelState.LOADED:
            same = (present.paths, present.sha256) == (fresh.paths, digest)
            # A model that cannot run is parsed again: a file that was missing may be there now.
            if same and not present.message:
                return present
            if not same:
                self.check_owner(present, fresh.owner)
            earlier = present if same else None
            fresh.owner, fresh.shared = present.owner, present.shared
        self._install(fresh, self._read(files), files, digest, earlier)
        return fresh

    def _install(
        self,
        fresh: HostedModel,
        read: ReadModel,
        files: Sequence[tuple[Path, bytes]],
        digest: str,
        earlier: HostedModel | None,
    ) -> None:
        """Replace the model of that name by one that was read, and begin with the requests for it.

        earlier: the same model as loaded before, whose weights stay in effect; None if there is none.
        """
        name = "" if read.parts else head_name(*files[0], read.whole.inputs, read.whole.outputs)
        description = _without_weights(files)
        waiting: list[Request] = []
        if read.parts:
            self._whole.cpu.prepare()
        with self._lock:
            present = self._models.get(fresh.name)
            self._check_wanted(fresh)
            if present is not fresh and present is not None:
                self._retire(present)
            fresh.set_read(digest, fresh.file_bytes, read, description)
            fresh.head_name = name
            if earlier is not None:
                fresh.keep_weights_of(earlier)
            self._models[fresh.name] = fresh
            if fresh.parts:
                waiting = self._scheduler.withdraw(fresh)
                self._whole.add(fresh, read)
            else:
                self._pool.add(fresh)
        self._scheduler.refuse()
        for request in waiting:
            self._whole.take_over(request)

    def _check_wanted(self, model: HostedModel) -> None:
        """Raise the error of a model that was unloaded meanwhile, or whose host has ended."""
        if self._ended:
            self._whole.cpu.close(timeout=0.0)  # which may just have been prepared
            raise UnavailableError("the driver is being shut down")
        if model.unloaded:
            raise model.gone()

    def _load_joint(self, name: str, done: OnLoaded) -> None:
        outcome: HostedModel | EdgeTpuError
        try:
            path, data = self._joint_file(name)
            model = HostedModel(name, [path])
            read = self._read([(path, data)])
            if read.parts or read.whole.unsupported_reason:
                reason = read.whole.unsupported_reason or "it is not compiled for the Edge TPU as a whole"
                raise ModelUnsupportedError(f"{path.name}: {reason}")
            with self._lock:
                self._check_wanted(model)
                model.set_read(hashlib.sha256(data).hexdigest(), len(data), read)
                self._pool.add(model)
            outcome = model
        except EdgeTpuError as error:
            outcome = error
        done(outcome)

    def _joint_file(self, name: str) -> tuple[Path, bytes]:
        """A compiled joint graph or, if the backends run plain graphs, the graph itself, built here."""
        try:
            path = self._files.find(name)
            if is_compiled(path):
                return path, read_graph(path)
        except EdgeTpuError:
            if not self._backends[0].uncompiled:
                raise
        return Path(f"{name}.tflite"), build_joint_graph(name)

    def _add_backend(self, backend: Backend, added: Callable[[StickWorker], None]) -> None:
        for model in self.models():
            for part in model.device_parts:
                if part.parsed is not None and not model.unsupported_reason:
                    backend.adopt(part.parsed)
        self._backends = (*self._backends, backend)
        added(self._pool.add_stick(backend))

    def _read(self, files: Sequence[tuple[Path, bytes]]) -> ReadModel:
        first, *others = self._backends
        read = read_model(first, files, self._limits)
        for backend in others:
            read.adopt(backend)
        return read


def _size_of(paths: Sequence[Path]) -> int:
    """Size of the files, bytes; 0 if it is unknown, because reading them then raises a better error."""
    try:
        return sum(path.stat().st_size for path in paths)
    except OSError:
        return 0


def _tensors_of(paths: Sequence[Path]) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Inputs and outputs of one small file, which takes a millisecond to read; otherwise empty."""
    try:
        if len(paths) != 1 or paths[0].stat().st_size > _QUICKLY_READ:
            return (), ()
        return operand_specs(read_model_file(paths[0]), _QUICKLY_LISTED)
    except (EdgeTpuError, OSError):
        return (), ()  # loading the file reports the error


def _without_weights(files: Sequence[tuple[Path, bytes]]) -> bytes:
    """See `without_weights`; empty for files of a format that only the backend can read."""
    try:
        return without_weights(data for _, data in files)
    except EdgeTpuError:
        return b""


def _unexpected(error: Exception, model: HostedModel) -> EdgeTpuError:
    _log.error("unexpected error while loading '%s'", model.name, exc_info=error)
    return EdgeTpuError(f"cannot load {model.path}: {unexpected(error)}")
