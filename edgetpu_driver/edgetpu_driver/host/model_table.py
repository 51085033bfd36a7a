"""The models of a host by name: loading, ownership, limits."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from edgetpu_driver.backends.backend import Backend, ParsedModel
from edgetpu_driver.errors import EdgeTpuError, InputError, ModelNotFoundError, OwnershipError
from edgetpu_driver.host.admission import Admission
from edgetpu_driver.host.background_thread import BackgroundThread
from edgetpu_driver.host.hosted_model import HostedModel, ModelState
from edgetpu_driver.host.scheduler import Scheduler
from edgetpu_driver.host.stick_pool import StickPool
from edgetpu_driver.host.stick_worker import StickWorker
from edgetpu_driver.tflite.file_checks import read_model_file
from edgetpu_driver.toolchain.model_files import ModelFiles, plain_stem

_log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~/-]*")

OnLoaded = Callable[["HostedModel | EdgeTpuError"], None]
"""Called with the model, or with the error that prevented it from being loaded."""


class ModelTable:
    """Models by name. All methods may be called from any thread; files are read in a thread of its own."""

    def __init__(
        self,
        files: ModelFiles,
        backends: Sequence[Backend],
        admission: Admission,
        scheduler: Scheduler,
        pool: StickPool,
    ) -> None:
        self._files = files
        self._backends = tuple(backends)
        self._admission = admission
        self._scheduler = scheduler
        self._pool = pool
        self._lock = scheduler.lock
        self._models: dict[str, HostedModel] = {}
        self._loader = BackgroundThread("edgetpu loader")

    def load(self, model: str, name: str, done: OnLoaded, client: str, shared: bool) -> HostedModel:
        """Begin to load a model; see ModelHost.submit_load."""
        if name and not _NAME.fullmatch(name):
            raise InputError(
                "expected a name of letters, digits and the characters _ . ~ / - that begins with a letter or"
                f" digit; got {name[:100]!r}"
            )
        path = self._files.find(model)
        name = name or plain_stem(path)
        fresh = HostedModel(name, path, client, shared)
        with self._lock:
            present = self._models.get(name)
            if present is not None and present.state is ModelState.FAILED:
                present = None
            if present is None:
                self._check_limits(path, name)
                self._models[name] = fresh
            elif present.path != path:
                self._check_owner(present, client)
        self._loader.submit(lambda: self._load(fresh, done))
        return fresh if present is None else present

    def add_backend(self, backend: Backend, added: Callable[[StickWorker], None]) -> None:
        """Have a further device run the models, after what is being loaded; `added` gets its worker."""
        self._loader.submit(partial(self._add_backend, backend, added))

    def unload(self, name: str, client: str) -> None:
        """Forget a model; see ModelHost.unload."""
        model = self.model(name)
        with self._lock:
            self._check_owner(model, client)
            if self._models.get(name) is model:
                del self._models[name]
                self._scheduler.unload(model)

    def model(self, name: str) -> HostedModel:
        """The model of that name; ModelNotFoundError, with the names of the loaded ones, if there is none."""
        model = self._models.get(name)
        if model is None:
            with self._lock:
                names = ", ".join(self._models) or "none"
            raise ModelNotFoundError(f"no model '{name}' is loaded; loaded: {names}")
        return model

    def models(self) -> tuple[HostedModel, ...]:
        """The models, in the order in which they were loaded."""
        with self._lock:
            return tuple(self._models.values())

    def check_owner(self, model: HostedModel, client: str) -> None:
        """Raise OwnershipError unless a client may change a model."""
        self._check_owner(model, client)

    def _check_owner(self, model: HostedModel, client: str) -> None:
        if not model.is_free_to(client):
            owner = f"'{model.owner}'" if model.owner else "an anonymous client"
            raise OwnershipError(
                f"model '{model.name}' belongs to {owner}, which did not load it as shared; load the file "
                "under a name of your own"
            )

    def _check_limits(self, path: Path, name: str) -> None:
        others = [each for each in self._models.values() if each.name != name]
        try:
            size = path.stat().st_size
        except OSError:
            size = 0  # reading the file tells what is wrong
        self._admission.check_loaded(len(others), sum(each.file_bytes for each in others), size)

    # In the loader's thread.

    def _load(self, fresh: HostedModel, done: OnLoaded) -> None:
        outcome: HostedModel | EdgeTpuError
        try:
            outcome = self._loaded(fresh)
        except Exception as error:
            outcome = error if isinstance(error, EdgeTpuError) else _unexpected(error, fresh)
            with self._lock:
                fresh.set_failed(outcome)
            self._scheduler.refuse()
        try:
            done(outcome)
        except Exception:
            _log.exception("unexpected error in the callback of loading '%s'", fresh.name)

    def _loaded(self, fresh: HostedModel) -> HostedModel:
        """The model of that name and file, read or already present."""
        data = read_model_file(fresh.path)
        digest = hashlib.sha256(data).hexdigest()
        with self._lock:
            present = self._models.get(fresh.name)
        if present is not None and present is not fresh and present.state is ModelState.LOADED:
            same = (present.path, present.sha256) == (fresh.path, digest)
            # A model that could not run is parsed again: a file it lacked may be there by now.
            if same and not present.unsupported_reason:
                return present
            if not same:
                self._check_owner(present, fresh.owner)
                fresh.owner, fresh.shared = present.owner, present.shared
        parsed = self._parse(fresh.path, data)
        with self._lock:
            present = self._models.get(fresh.name)
            if present is not fresh and present is not None:
                self._scheduler.unload(present)
            elif present is None and fresh.unloaded:
                raise fresh.gone()
            fresh.set_parsed(digest, len(data), parsed)
            self._models[fresh.name] = fresh
            self._pool.add(fresh)
        self._scheduler.refuse()
        return fresh

    def _add_backend(self, backend: Backend, added: Callable[[StickWorker], None]) -> None:
        for model in self.models():
            if model.parsed is not None and not model.parsed.unsupported_reason:
                backend.adopt(model.parsed)
        self._backends = (*self._backends, backend)
        added(self._pool.add_stick(backend))

    def _parse(self, path: Path, data: bytes) -> ParsedModel:
        first, *others = self._backends
        parsed = first.parse(path, data)
        if not parsed.unsupported_reason:
            for backend in others:
                backend.adopt(parsed)
        return parsed


def _unexpected(error: Exception, model: HostedModel) -> EdgeTpuError:
    _log.error("unexpected error while loading '%s'", model.name, exc_info=error)
    return EdgeTpuError(f"cannot load {model.path}: unexpected {type(error).__name__}: {error}")
