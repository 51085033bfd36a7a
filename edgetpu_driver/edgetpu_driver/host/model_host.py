"""Models by name on one or several accelerators, which may be absent, disappear and return; without ROS."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from numpy.typing import NDArray

from edgetpu_driver.backends.backend import Backend, RegisterValue
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.host_status import HostStatus, State
from edgetpu_driver.host.model_table import ModelTable, Named
from edgetpu_driver.host.models.hosted_model import HostedModel, ModelState
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.admission import Admission
from edgetpu_driver.host.requests.answers import waited
from edgetpu_driver.host.requests.request_terms import BULK_TERMS, NORMAL_TERMS, RequestTerms
from edgetpu_driver.host.shared_inference.shared_inference import SharedInference
from edgetpu_driver.host.sticks.device_upkeep import Upkeep
from edgetpu_driver.host.sticks.first_device_timeout import FirstDeviceTimeout
from edgetpu_driver.host.sticks.hot_plugged_devices import DeviceFinder, FindMore
from edgetpu_driver.host.sticks.model_spreading import Spreading
from edgetpu_driver.host.sticks.scheduler import Scheduler
from edgetpu_driver.host.sticks.stick_pool import StickPool, all_registers
from edgetpu_driver.host.sticks.stick_worker import StickWorker
from edgetpu_driver.host.submission import Submission
from edgetpu_driver.host.whole_models.cpu_worker import CpuWorker
from edgetpu_driver.host.whole_models.whole_models import WholeModels, device_part, only_device_part
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.matrix.matmul import Product
from edgetpu_driver.tflite.tensor import checked_inputs
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

_Answer = TypeVar("_Answer")
Done: TypeAlias = Callable[["_Answer | EdgeTpuError"], None]
"""Called once, by a thread of the host, with the answer to a request or with the error."""

DEFAULT_LIMITS = ClientLimits()


class ModelHost:
    """Models loaded by name, on devices that may be absent, get lost and return.

    Each device is owned by a thread; methods such as `submit_invoke`, `models` and `status` never wait for
    it. Models are loaded from files whether or not a device is present, stay loaded when it is lost and run
    again once it is back; without any device, requests are refused at once. All methods may be called from
    any thread, but those that wait not from a callback. on_change: called whenever the state of a device has
    changed, by the thread that owns the device.

        host = ModelHost(make_backend("usb"), ["models"])
        host.connect()
        host.load("spot_bright_64x64")
        result = host.invoke("spot_bright_64x64", {"image": image})
    """

    def __init__(
        self,
        backends: Backend | Sequence[Backend],
        model_dirs: Sequence[str | Path],
        on_change: Callable[[], None] | None = None,
        limits: ClientLimits = DEFAULT_LIMITS,
        *,
        spreading: Spreading = Spreading.REPLICATED,
        self_check_period: float = 0.0,
        find_more: FindMore | None = None,
        process_limits: ProcessLimits | None = None,
        share_inferences: bool = True,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """spreading: how models are assigned to sticks.

        self_check_period: seconds between two inferences with a known result on each device of a host that
        was started; 0: none. A device with another result is FAILED until `reset`. find_more: makes backends
        for devices that are plugged in later, which then join the host. process_limits: of the processes in
        which LiteRT runs parts of models. share_inferences: whether requests of several clients for the same
        image are answered by one inference, see SharedInference. report: gets lines for the log.
        """
        each: Sequence[Backend] = backends if isinstance(backends, Sequence) else (backends,)
        self.files = ModelDirectories(model_dirs, compiled=each[0].compiled, uncompiled=each[0].uncompiled)
        self._on_change = on_change or _nothing
        self._self_check_period = self_check_period
        self._admission = Admission(limits)
        # Not a method of this host, which is closed as soon as nothing refers to it.
        self._scheduler = Scheduler(self._admission, lambda: pool.first.connection.status_message)
        pool = self._pool = StickPool(each, self._scheduler, self._admission, spreading, self._on_change)
        self._whole = WholeModels(self._scheduler, pool, self._admission)
        self._table = ModelTable(
            self.files, each, self._admission, self._scheduler, pool, self._whole, process_limits
        )
        submission = self._submission = Submission(self._scheduler, self._whole)
        invoke, swap, table = submission.invoke, submission.swap, self._table
        load, unload = table.load_joint, table.unload_joint
        self._shared = SharedInference(invoke, swap, load, unload, table.models, report or _nothing)
        self._share_inferences = share_inferences
        self._lock = threading.Lock()
        """Held while devices are marked as to be kept open, so that none stays open after `close`."""
        self._wait: FirstDeviceTimeout | None = None
        self._keep_open: Callable[[StickWorker], None] | None = None
        """The call that `start` makes on each worker; None unless the host is started."""
        self._find_more = find_more
        self._finder: DeviceFinder | None = None
        self._end_threads = weakref.finalize(self, _stop, pool, self._whole.cpu)
        self._end_threads.atexit = False

    # Devices.

    @property
    def state(self) -> State:
        """The state of the device that is closest to being ready."""
        return self._pool.first.connection.state

    @property
    def status_message(self) -> str:
        """One line that explains that state."""
        return self._pool.first.connection.status_message

    @property
    def gave_up(self) -> bool:
        """Whether `wait_timeout` has passed without a device; see `start`."""
        return self._wait is not None and self._wait.gave_up

    def start(
        self, *, wait_timeout: float = -1.0, refresh_period: float = 1.0, retry_period: float = 1.0
    ) -> None:
        """Open the devices, read them periodically, and reopen those that are lost. Returns at once.

        wait_timeout: seconds to wait for the first device before giving up, which sets `gave_up` and calls
        `on_change`; negative: for ever. A device that is lost later is always waited for. refresh_period:
        seconds between two readings of a ready device. retry_period: seconds between two attempts to open
        a device.
        """
        workers = self._pool.workers
        wait = self._wait = FirstDeviceTimeout(len(workers), wait_timeout, self._on_change)

        def keep_open(worker: StickWorker) -> None:
            attempted = partial(wait.attempted, worker.slot.number)
            worker.keep_open(Upkeep(refresh_period, retry_period, self._self_check_period, attempted))

        def add(backend: Backend) -> None:
            self._table.add_backend(backend, self._keep_open_if_started)

        self._whole.cpu.reopen()
        with self._lock:
            self._keep_open = keep_open
        for worker in self._pool.workers:
            self._keep_open_if_started(worker)
        if self._find_more is not None:
            self._finder = DeviceFinder(self._find_more, self._pool.bus_paths, add, 2 * retry_period)

    def _keep_open_if_started(self, worker: StickWorker) -> None:
        with self._lock:
            if self._keep_open is not None:
                self._keep_open(worker)

    def connect(self) -> None:
        """Reopen all devices and wait, which takes seconds; `state` shows whether it succeeded."""
        self._whole.cpu.reopen()
        self._pool.ask_all(StickWorker.open)

    def reset(self) -> None:
        """Have all devices closed and brought up from scratch. Returns at once.

        Models stay loaded. Unless the host was started, `connect` has to open the devices again.
        """
        for worker in self._pool.workers:
            worker.request_reset()

    def close(self, timeout: float | None = None) -> None:
        """Close all devices after their present work; waiting requests are answered UnavailableError.

        timeout: seconds to wait in all; None: no limit. Models stay loaded for the next `connect` or `start`.
        """
        with self._lock:
            self._keep_open = None
        if self._finder is not None:
            self._finder.stop()
        if self._wait is not None:
            self._wait.cancel()
        self._pool.stop(timeout, then=self._whole.cpu.close)

    def end(self, timeout: float | None = None) -> None:
        """Unload all models, load no further ones, and close all devices as `close` does."""
        self._table.end()
        self.close(timeout)

    def refresh(self) -> None:
        """Read state and counters of all devices, and wait for them; this also notices lost devices."""
        self._pool.ask_all(StickWorker.refresh)

    def registers(self) -> tuple[RegisterValue, ...]:
        """Read error and status registers of all devices, and wait; without those of absent devices."""
        return all_registers(self._pool.ask_all(StickWorker.registers))

    def check(self) -> None:
        """Have every device repeat an inference with a known result, and wait; see `self_check_period`."""
        self._pool.ask_all(StickWorker.check)

    def submit_registers(self, done: Done[tuple[RegisterValue, ...]]) -> None:
        """Read state and registers of all devices, without waiting."""
        self._pool.submit_registers(done)

    def answer_overdue(self) -> None:
        """Answer the requests that have waited too long, even while every stick hangs."""
        self._scheduler.expire()
        self._whole.cpu.scheduler.expire()

    def end_period(self) -> None:
        """End the period over which latencies, utilisation and throughput are taken."""
        with self._scheduler.lock:
            for worker in self._pool.workers:
                worker.slot.statistics.end_period()
            self._whole.end_period()

    def status(self) -> HostStatus:
        """The present state, the figures of the last period, and the counters."""
        status = self._whole.status(self._pool.status())
        return replace(
            status,
            expired=status.expired + self._shared.expired,
            refused=status.refused + self._shared.refused,
            uploads={model.name: count for model in self.models() if (count := model.uploads)},
        )

    # Models.

    def submit_load(
        self,
        model: str | Sequence[str],
        name: str = "",
        done: Done[HostedModel] | None = None,
        *,
        client: str = "",
        shared: bool = False,
    ) -> HostedModel:
        """Begin to load a model, and return it at once, perhaps in the state QUEUED; see `load`.

        Requests for a model that is queued wait. Raises what can be refused at once: InputError for an
        invalid name, what ModelDirectories.find raises, OwnershipError, BusyError beyond the limits.
        """
        return self._table.load(model, name, done or _nothing, client, shared)

    def load(
        self, model: str | Sequence[str], name: str = "", *, client: str = "", shared: bool = False
    ) -> HostedModel:
        """Load a model from the model directories; do nothing if the same file is already loaded as `name`.

        model: file stem, file name or path (see ModelDirectories.find); of a pipeline, those of its segments
        in their order. name: what `invoke` calls it, by default the stem without "_edgetpu"; a different file
        under a name in use replaces the previous one. A model that can be read but not run here is loaded
        too, with an `unsupported_reason`. client: its owner, who alone may set its weights, replace and
        unload it, unless it is `shared`. Raises what ModelDirectories.find raises, ModelFormatError and
        ModelUnsupportedError for a file that cannot be read, InputError for an invalid name, OwnershipError
        for the name of another client's model, BusyError beyond the limits.
        """
        loaded: HostedModel = waited(
            lambda done: self.submit_load(model, name, done, client=client, shared=shared)
        )
        self._pool.reach_all()
        self._whole.cpu.reach()
        return loaded

    def unload(self, name: str, client: str = "") -> None:
        """Unload a model; waiting requests are still answered. OwnershipError for another client's."""
        self._table.unload(name, client)

    def model(self, name: str) -> HostedModel:
        """The model of that name; ModelNotFoundError, with the names of the loaded ones, if there is none."""
        return self._table.model(name)

    def models(self) -> tuple[HostedModel, ...]:
        """The models, loaded or being loaded, in their order."""
        return self._table.models()

    # Requests.

    def submit_invoke(
        self,
        name: Named,
        inputs: Mapping[str, NDArray[Any]],
        done: Done[InferenceResult],
        terms: RequestTerms = NORMAL_TERMS,
        *,
        part: int = 0,
        reset: bool = False,
    ) -> None:
        """Run a loaded model once, without waiting.

        inputs: by name; "" stands for the only one. part: 0 for the whole model, with the graph's own inputs
        and outputs; n for its n-th part for the Edge TPU alone. reset: whether to zero the state that
        operators keep first; all callers share it. The caller itself feeds back state that is an output.

        done: called once with the result, or with ExpiredError, UnavailableError when the device is lost
        meanwhile and no other has the model, or the DeviceError that the device did not recover from.
        Refusals at once are raised: ModelNotFoundError, InputError, ModelUnsupportedError for a model
        that cannot run here, UnavailableError without a device, BusyError.
        """
        model = self._table.model(name)
        loaded = model.state is ModelState.LOADED
        run = device_part(model, part) if part and loaded else model
        refused = bool(run.unsupported_reason)  # by the scheduler, whatever the inputs
        if loaded and not (run.parts or refused):
            inputs = checked_inputs(run.inputs, inputs)
        # A model that is loaded only now has inputs that were not checked.
        alone = not loaded or part or reset or refused or not self._share_inferences
        if not alone and self._shared.can_share(model, terms):
            self._shared.ask(model, inputs, done, terms)
        else:
            self._submission.invoke(model, inputs, done, terms, part, reset)

    def submit_multiply(
        self, name: Named, request: ProductRequest, done: Done[Product], terms: RequestTerms = BULK_TERMS
    ) -> None:
        """Multiply by the weights of a loaded Dense model, without waiting.

        For results and errors see MatMul.multiply and `submit_invoke`.
        """
        self._admission.limits.check_product(request.batch, request.passes)
        model = only_device_part(self._table.model(name))
        self._submission.multiply(model, request, done, terms)

    def submit_set_weights(
        self,
        name: Named,
        request: WeightRequest,
        done: Done[WeightResult],
        terms: RequestTerms = BULK_TERMS,
        *,
        part: int = 0,
    ) -> None:
        """Replace the values of one weight tensor of a loaded model, without waiting.

        part: n for the weights of its n-th part for the Edge TPU; 0 for its only one, or for the one that
        has the tensor that the request names.
        The array of the request must not change before the answer. Every result is computed either with all
        old or with all new weights; work that begins after the answer uses the new ones. The weights stay in
        effect when a device is lost and comes back. A matrix larger than a Dense model is cut into tiles for
        `multiply`; `invoke` then raises InputError until a smaller one is set. Errors are those of
        SwappableEngine.set_weights and `submit_invoke`, and OwnershipError; after an error the previous
        weights stay in effect.
        """
        model = self._table.model(name)
        self._table.check_owner(model, terms.client)

        def changed(outcome: WeightResult | EdgeTpuError) -> None:
            try:
                self._shared.weights_changed(model)
            finally:
                done(outcome)

        self._submission.swap(model, request, changed, terms, part)

    def invoke(
        self,
        name: str,
        inputs: Mapping[str, NDArray[Any]],
        terms: RequestTerms = NORMAL_TERMS,
        *,
        part: int = 0,
        reset: bool = False,
    ) -> InferenceResult:
        """Run a loaded model once, and wait for the result; see `submit_invoke`."""
        result: InferenceResult = waited(
            lambda done: self.submit_invoke(name, inputs, done, terms, part=part, reset=reset)
        )
        return result

    def multiply(self, name: str, request: ProductRequest, terms: RequestTerms = BULK_TERMS) -> Product:
        """Multiply by the weights of a loaded Dense model, and wait; see `submit_multiply`."""
        product: Product = waited(lambda done: self.submit_multiply(name, request, done, terms))
        return product

    def set_weights(
        self, name: str, request: WeightRequest, terms: RequestTerms = BULK_TERMS, *, part: int = 0
    ) -> WeightResult:
        """Replace weights of a loaded model, and wait; see `submit_set_weights`."""
        result: WeightResult = waited(
            lambda done: self.submit_set_weights(name, request, done, terms, part=part)
        )
        return result


def _stop(pool: StickPool, cpu: CpuWorker) -> None:
    for worker in pool.workers:
        worker.stop(timeout=0.0)
    cpu.close(timeout=0.0)


def _nothing(*_arguments: object) -> None:
    """Do nothing."""
