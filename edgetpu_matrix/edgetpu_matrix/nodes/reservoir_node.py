"""The reservoir node: subscribes to a signal, publishes ~/prediction, and is trained on target messages."""

from __future__ import annotations

import functools
import json
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Header
from std_srvs.srv import Trigger

from edgetpu_driver.errors import ArchiveError, EdgeTpuError, InputError
from edgetpu_driver.files import npz_archive as archive
from edgetpu_driver.files.compiled_file_names import plain_stem
from edgetpu_driver.node_kit.base_node import fill_answer
from edgetpu_driver.node_kit.clients.matmul_in_progress import ProductResult
from edgetpu_driver.node_kit.executor.work_queue import WorkQueue
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.messages.error_codes import is_lasting
from edgetpu_driver.node_kit.messages.message_stamps import nanoseconds_of
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_matrix.errors import NotTrainedError
from edgetpu_matrix.nodes.matrix_node import MatrixNode
from edgetpu_matrix.nodes.reservoir_parameters import SETTINGS
from edgetpu_matrix.nodes.result_rows import prediction_row
from edgetpu_matrix.reservoir.broken_samples import SignalScale, SizeWatch
from edgetpu_matrix.reservoir.echo_state_network import EchoStateNetwork
from edgetpu_matrix.reservoir.host_subspace import HostSubspace, Split
from edgetpu_matrix.reservoir.ridge_readout import LARGEST, RidgeReadout
from edgetpu_msgs.msg import Prediction
from edgetpu_msgs.srv import LoadFile, SaveFile, TrainReadout

KIND = "edgetpu_matrix readout 1"
NETWORK = ("size", "spectral_radius", "leak", "activation", "input_scaling", "bias", "seed")
"""Parameters that determine the states; a readout only fits the network that it was trained on."""
ROUNDING = ("model", "rescale_rows", "host_directions", "passes")
"""Parameters that determine how weights and states are rounded: with others, or with fewer passes, a
readout's errors are several times those that it was trained with, and that predictions claim as `sigma`."""


@dataclass
class _Step:
    """One input on its way through the network."""

    header: Header
    inputs: NDArray[np.float64]
    published_at: int = 0
    """See MatrixNode."""
    index: int = 0
    """Number of samples received before and with it, also those refused or dropped.

    Samples that the middleware lost are not known.
    """
    resets: int = 0
    """Number of resets before it was received."""
    number: int = 0
    features: NDArray[np.float64] | None = None
    target: NDArray[np.float64] | None = None


class ReservoirNode(MatrixNode):
    """Publishes the output of a trained readout for a signal."""

    settings = SETTINGS
    results = ResultTopic(
        "prediction",
        Prediction,
        (
            ResultValue("value", "first output", "", "sigma"),
            ResultValue("samples", "samples to train on", ""),
        ),
        row=prediction_row,
    )
    files = "readouts"

    def __init__(self, **options: Any) -> None:
        super().__init__("reservoir", **options)
        with self.destroyed_on_error():
            self._set_up()

    def _set_up(self) -> None:
        values = self.values
        try:
            self._network = self._make_network()
        except InputError as error:
            raise FatalError(str(error)) from None
        self._signal_size, self._target_size = SizeWatch(), SizeWatch()
        self._signal_scale, self._target_scale = SignalScale(), SignalScale()
        self._readout: RidgeReadout | None = None
        self._confidence = float("nan")
        self._steps = self._last_stamp = 0
        self._resets = self._resets_of_state = 0
        self._recent: deque[_Step] = deque(maxlen=values["qos_depth"])
        self._past: deque[_Step] = deque()
        self._early: OrderedDict[int, NDArray[np.float64]] = OrderedDict()
        self._queue = WorkQueue[_Step](self._start, values["qos_depth"])
        if values["readout"]:
            try:
                self._load(self.file(values["readout"]))
            except EdgeTpuError as error:
                raise FatalError(f"parameter 'readout': {error}") from None
        self._predictions = self.create_publisher(Prediction, "~/prediction", QOS_RESULTS)
        self.create_service(TrainReadout, "~/train_readout", self._on_train)
        self.create_service(SaveFile, "~/save_readout", self._on_save)
        self.create_service(LoadFile, "~/load_readout", self._on_load)
        self.create_service(Trigger, "~/reset", self._on_reset)
        self._host_subspace: HostSubspace | None = None
        self.client = self.make_client()
        self.client.set_matrix(self._network.matrix)
        self.subscribe("signal", self._on_input)
        if not values["horizon"]:
            self._targets = self.subscribe("target", self._on_target, "target")
        self.start_diagnostics()

    def _make_network(self) -> EchoStateNetwork:
        values = self.values
        return EchoStateNetwork(values["size"], **{name: values[name] for name in NETWORK if name != "size"})

    def on_ready(self) -> None:
        """Take over the weights as they were rounded, and process the inputs that waited."""
        assert self.client is not None
        self._network.bind(self.client.effective)
        directions = self.values["host_directions"]
        self._host_subspace = HostSubspace(self.client.effective, directions) if directions else None
        self._queue.resume()

    @property
    def _is_trained(self) -> bool:
        return self._readout is not None and self._readout.weights is not None

    def problems(self) -> list[str]:
        """Return why this node has no results, including a readout that is not trained yet."""
        missing = "no readout; ~/train_readout trains one on the targets received so far"
        return super().problems() + ([] if self._is_trained else [missing])

    def _on_input(self, header: Header, inputs: NDArray[np.float64]) -> None:
        self._watch_size(len(inputs))
        self._signal_scale.check(self._network.check(inputs))
        stamp = nanoseconds_of(header.stamp)
        if stamp < self._last_stamp:
            self.get_logger().info("time jumped back; at every such jump the reservoir is reset", once=True)
            self._resets += 1
        self._last_stamp = stamp
        target = self._early.pop(stamp, None)
        index = self.counters.received
        step = _Step(header, inputs, self.published_at, index, self._resets, target=target)
        self._recent.append(step)
        self._queue.offer(step)
        self.counters.dropped = self._queue.dropped

    def _watch_size(self, size: int) -> None:
        """Restart with the signal's size if the first sample had another and the readout is not trained."""
        changed = self._signal_size.has_changed(size, self._network.inputs)
        if self._is_trained or not size or not changed:
            return
        self.get_logger().warning(
            f"samples have {size} values now, not {self._network.inputs}; the reservoir is reset"
        )
        self._network = self._make_network()
        self._network.inputs_are(size)
        if self.client is not None and self.client.effective.size:
            self._network.bind(self.client.effective)
        self._readout, self._signal_scale = None, SignalScale()
        self._recent.clear()
        self._resets += 1

    def _on_target(self, header: Header, target: NDArray[np.float64]) -> None:
        if not (np.abs(target) <= LARGEST).all():
            raise InputError(f"expected a target of values that float32 can represent; got {target[:4]}")
        self._check_target_size(len(target))
        self._target_scale.check(target)
        if self._targets.has_header:
            stamp = nanoseconds_of(header.stamp)
            recent = (each for each in reversed(self._recent) if nanoseconds_of(each.header.stamp) == stamp)
            step = next(recent, None)
            if step is None:
                # The middleware keeps no order between two topics.
                self._early[stamp] = target
                while len(self._early) > self.values["qos_depth"]:
                    self._early.popitem(last=False)
                return
        else:
            # Samples published after the target may have been received before it: the middleware keeps no
            # order between topics, and delivers late to a subscription that is still being discovered.
            before = (each for each in reversed(self._recent) if each.published_at <= self.published_at)
            step = next(before, None)
        if step is not None:
            step.target = target
            self._train(step)

    def _check_target_size(self, size: int) -> None:
        """Raise InputError for targets of another size; many of them in a row begin a new readout.

        A trained readout stays if it has samples for further training.
        """
        if not size:
            raise InputError("expected a target of one value or more; got none")
        used = self._readout.outputs if self._readout is not None else 0
        changed = self._target_size.has_changed(size, used)
        if self._readout is None or size == used:
            return
        if not changed or (self._is_trained and self._readout.samples):
            raise InputError(f"expected a target of {used} values; got {size}")
        self.get_logger().warning(f"targets have {size} values now, not {used}: a new readout begins")
        self._readout = None

    def _start(self, step: _Step) -> bool:
        assert self.client is not None
        if step.resets != self._resets_of_state:
            self._network.reset()
            self._past.clear()
            self._steps, self._resets_of_state = 0, step.resets
        state = self._network.state
        subspace = self._host_subspace
        split = subspace.split(state) if subspace else Split(state, np.zeros(len(state)))
        return self.client.multiply(split.residual, functools.partial(self._on_product, state, split))

    def _on_product(self, state: NDArray[np.float64], split: Split, result: ProductResult) -> None:
        assert self.client is not None
        step = self._queue.present
        assert step is not None
        if result.product is not None and state is self._network.state:
            try:
                self._advance(step, result.product.outputs + split.product)
            except Exception as error:  # which must not hold up the inputs that follow
                self.on_callback_failure("step", error)
        elif result.error is None or not self.client.ready:
            # The network was replaced, or the driver is gone: this input is still to be processed.
            self._queue.put_back()
            if self.client.ready:
                self._queue.resume()
            return
        else:
            self.on_failure(result.error)
            if not is_lasting(result.error) and self._queue.repeat():
                return  # without it the state would lack an input
        self._queue.finished()

    def _advance(self, step: _Step, recurrent: NDArray[np.float64]) -> None:
        try:
            self._network.advance(recurrent, step.inputs)
        except InputError as error:
            self.on_malformed("signal", str(error))
            return
        self._steps += 1
        step.number, step.features = self._steps, self._network.features(step.inputs)
        self._publish(step)
        self._train(step)
        if horizon := self.values["horizon"]:
            self._past.append(step)
            while (past := self._past[0]).index < step.index - horizon:
                self._past.popleft()  # the sample that is its target was refused or dropped
            if past.index == step.index - horizon:
                past.target = step.inputs
                self._train(self._past.popleft())

    def _train(self, step: _Step) -> None:
        """Add a state and its target to the training samples, once both are known."""
        if step.features is None or step.target is None or step.number <= self.values["washout"]:
            return
        if self._readout is None or (len(step.target) != self._readout.outputs and not self._is_trained):
            self._readout = RidgeReadout(len(step.features), len(step.target))
        try:
            self._readout.add(step.features, step.target)
        except InputError as error:
            self.on_malformed("target", str(error))
        step.target = None

    def _publish(self, step: _Step) -> None:
        readout = self._readout
        values = sigma = np.full(readout.outputs if readout else 0, np.nan)
        valid, confidence = False, np.nan
        if readout is not None and readout.weights is not None:
            sigma, confidence = readout.residual_rms, self._confidence
            valid = step.features is not None and step.number > self.values["washout"]
            if step.features is not None and valid:
                values = readout.predict(step.features)
        self._predictions.publish(
            Prediction(
                header=step.header,
                valid=valid,
                confidence=float(confidence),
                values=values.astype(np.float32),
                sigma=sigma.astype(np.float32),
                step=step.number,
                samples=readout.samples if readout else 0,
            )
        )
        self.counters.results += 1

    def _on_reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._resets += 1  # the state is reset before the next sample that is received from now on
        return fill_answer(response)

    def _on_train(
        self, request: TrainReadout.Request, response: TrainReadout.Response
    ) -> TrainReadout.Response:
        try:
            if self._readout is None:
                raise NotTrainedError("expected targets to train on; none came after the washout")
            training = self._readout.solve(request.regularization or self.values["regularization"])
        except EdgeTpuError as error:
            if request.forget and self._readout is not None:
                self._readout.clear()  # the caller's way out of samples that nothing can be trained on
            return fill_answer(response, error)
        self._confidence = training.explained
        if request.forget:
            self._readout.clear()
        response.samples = training.samples
        response.residual_rms = training.residual_rms.tolist()
        response.target_sigma = training.target_sigma.tolist()
        return fill_answer(response, None)

    def _on_save(self, request: SaveFile.Request, response: SaveFile.Response) -> SaveFile.Response:
        try:
            if self._readout is None:
                raise NotTrainedError("expected a trained readout; there is none yet")
            path = self.file(request.name)
            arrays = {"network": np.array(self._description()), "confidence": np.array(self._confidence)}
            archive.save(path, KIND, self._readout.to_arrays() | arrays)
        except EdgeTpuError as error:
            return fill_answer(response, error)
        response.path = str(path)
        return fill_answer(response, None)

    def _on_load(self, request: LoadFile.Request, response: LoadFile.Response) -> LoadFile.Response:
        try:
            path = self.file(request.name)
            self._load(path)
        except EdgeTpuError as error:
            return fill_answer(response, error)
        response.path = str(path)
        return fill_answer(response, None)

    def _load(self, path: Path) -> None:
        names = (*RidgeReadout.ARRAYS, "network", "confidence")
        arrays = archive.load(path, KIND, names, RidgeReadout.OPTIONAL_ARRAYS)
        found = str(arrays["network"])
        fitting = [self._description(passes=passes) for passes in range(1, self.values["passes"] + 1)]
        if found not in (*fitting, self._description(NETWORK)):  # the latter: of earlier versions
            raise ArchiveError(
                f"{path.name}: expected a readout for the reservoir {self._description()}; got one for "
                f"{found}"
            )
        readout = RidgeReadout.from_arrays(arrays)
        inputs = readout.features - 1 - self._network.size
        if inputs < 1 or self._network.inputs not in (0, inputs):
            raise ArchiveError(
                f"{path.name}: expected a readout of {self._network.inputs} inputs; got one of {inputs}"
            )
        if self.values["horizon"] and readout.outputs != inputs:
            reason = f"expected {inputs} outputs, as it forecasts the input; got {readout.outputs}"
            raise ArchiveError(f"{path.name}: {reason}")
        confidence = arrays["confidence"]
        if confidence.shape or confidence.dtype.kind != "f":
            raise ArchiveError(f"{path.name}: expected confidence as one number; got {confidence.dtype}")
        self._network.inputs_are(inputs)
        self._readout, self._confidence = readout, float(confidence)

    def _description(self, names: Sequence[str] = NETWORK + ROUNDING, **others: Any) -> str:
        """The parameters of a readout. others: values in place of those of this node."""
        values = {**self.values, "model": plain_stem(Path(self.values["model"])), **others}
        return json.dumps({name: values[name] for name in names})
