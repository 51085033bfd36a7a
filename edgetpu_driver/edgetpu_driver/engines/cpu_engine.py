"""The engine that runs a plain .tflite graph on the CPU, with LiteRT."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.graph_runner import GraphInThisProcess, GraphOperands, GraphRunner
from edgetpu_driver.engines.litert_interpreter import LARGEST_SCALE, refuse_fatal_scales
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.litert_process_restart import IsolatedGraph
from edgetpu_driver.engines.wide_convolutions import with_wide_convolutions
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.checks.graph_checks import check_graph
from edgetpu_driver.tflite.constant_patch import replace_scales, replace_tensors
from edgetpu_driver.tflite.model_reader import ABSENT, Model, Operator, Tensor
from edgetpu_driver.tflite.tensor import TensorSpec, check_inputs
from edgetpu_driver.toolchain.catalogue_recognition import is_of_catalogue
from edgetpu_driver.weights.quantisation import WeightQuantiser, rescaled_rows
from edgetpu_driver.weights.replaceable_weights import WeightTensor, select_tensor, weight_tensors
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

_SATURATING_MULTIPLIER = 255.0  # of 8-bit outputs; XNNPACK takes less than 256


class CpuEngine:
    """A plain graph (x.tflite, not x_edgetpu.tflite) on one CPU thread.

    `run` may be called from any thread. Calls are serialised; LiteRT releases the GIL meanwhile. Results are
    reproducible on one machine.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        isolated: bool | None = False,
        limits: ProcessLimits | None = None,
        name: str = "",
    ) -> None:
        """Load a graph.

        model: a file, or the bytes of one. isolated: True runs LiteRT in a separate process with limited
        memory and time; None does so for graphs outside the suite's catalogue, regardless of their weights,
        as the driver does. With False, the default, a graph that crashes LiteRT ends this process. name: of
        the model, for messages.

        Raises ModelNotFoundError, ModelFormatError, ModelUnsupportedError for a graph that LiteRT cannot run,
        GraphProcessError if it ends its own process, and DependencyMissingError if ai-edge-litert is not
        installed.
        """
        title, data = _load(model)
        name = f"'{name}'" if name else title
        parsed = check_graph(data)
        _refuse_compiled(name, parsed)
        graph = parsed.subgraphs[0]
        refuse_fatal_scales(name, graph)
        self.inputs: tuple[TensorSpec, ...] = graph.input_specs
        self.outputs: tuple[TensorSpec, ...] = graph.output_specs
        operands = GraphOperands.of(graph)
        of_catalogue = is_of_catalogue(data)
        if isolated is None:
            isolated = not of_catalogue
        self._runner: GraphRunner = (
            IsolatedGraph(name, operands, limits or ProcessLimits())
            if isolated
            else GraphInThisProcess(name, operands)
        )
        self._is_widened = of_catalogue and not isolated
        """Whether convolutions are rewritten; the results are known to be equal for the suite's graphs."""
        self._runner.load(self._run_form(data))
        self._name, self._data, self._graph = name, data, parsed
        self._tensors = weight_tensors(parsed)
        self._swap_lock = threading.Lock()
        self._version = 0
        self._quantisers: dict[str, WeightQuantiser] = {}

    @property
    def resident(self) -> bool:
        """Always true: the graph is in memory."""
        return True

    @property
    def uploads(self) -> int:
        """Always 0: there is no device."""
        return 0

    @property
    def device_duration(self) -> float:
        """Always NaN: there is no device."""
        return float("nan")

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model once.

        inputs: every input by name, in its shape and dtype. Returns every output by name, in its shape and
        dtype; the arrays belong to the caller. Raises InputError for other inputs, and GraphProcessError if
        the process of an isolated graph ends or takes too long.
        """
        check_inputs(self.inputs, inputs)
        return self._runner.run(inputs)

    def reset(self) -> None:
        """Set the variables of the graph, which operators keep from run to run, to zero."""
        if any(tensor.is_variable for tensor in self._graph.subgraphs[0].tensors):
            with self._swap_lock:  # else it might undo a swap of another thread
                self._replacing(self._data)()  # a new interpreter, whose variables are zero

    def replace_graph(self, data: bytes) -> None:
        """Switch to another file of the same graph with other constants; it is not checked again.

        Raises the same errors as the constructor; the previous graph then stays in effect.
        """
        self._replacing(data)()

    def close(self) -> None:
        """End the process of an isolated graph; harmless when called again."""
        self._runner.close()

    def weight_tensor(self, tensor: str = "") -> WeightTensor:
        """The tensor whose values `set_weights` replaces; by default the graph's only one.

        Raises InputError for an unknown or ambiguous name, ModelUnsupportedError if the graph has no weights
        that can be replaced.
        """
        return select_tensor(self._tensors, tensor)

    def set_weights(self, request: WeightRequest | NDArray[np.floating]) -> WeightResult:
        """Replace weights in the graph; see SwappableEngine. Inferences use the old ones until it is done.

        request: an array stands for a request with these weights and nothing else.
        """
        if not isinstance(request, WeightRequest):
            request = WeightRequest(request)
        with self._swap_lock:
            return self.prepare_weights(request)()

    def prepare_weights(self, request: WeightRequest) -> Callable[[], WeightResult]:
        """Quantise weights and build the graph with them; the returned function activates it.

        See AttachedEngine.
        """
        tensor = self.weight_tensor(request.tensor)
        user = self._rescalable_user(tensor) if request.rescale_rows else None
        quantiser = self._quantiser(tensor)
        result = quantiser.quantise(request)
        keep_bias = partial(quantiser.keep_bias, quantiser.real_bias)
        values = {tensor.name: quantiser.values}
        if quantiser.bias is not None:
            values[tensor.bias] = quantiser.bias
        data = replace_tensors(self._data, values)
        if tensor.has_row_scales:  # also without rescaling: an earlier request may have rescaled
            data = self._with_row_scales(data, tensor, request, result, user)
        replacing = self._replacing(data)

        def commit() -> WeightResult:
            replacing()
            keep_bias()
            self._version += 1
            return replace(result, version=self._version)

        return commit

    def _replacing(self, data: bytes) -> Callable[[], None]:
        """Prepare another file of the same graph; the returned function activates it."""
        use = self._runner.prepare(self._run_form(data))

        def replace_it() -> None:
            use()
            self._data = data

        return replace_it

    def _run_form(self, data: bytes) -> bytes:
        """The form of a file that LiteRT runs."""
        return with_wide_convolutions(data) if self._is_widened else data

    def _quantiser(self, tensor: WeightTensor) -> WeightQuantiser:
        if tensor.name not in self._quantisers:
            bias = None
            if tensor.has_row_scales and tensor.bias:
                bias = np.frombuffer(self._tensor(tensor.bias).data, np.int32)
            self._quantisers[tensor.name] = WeightQuantiser(tensor, bias)
        return self._quantisers[tensor.name]

    def _with_row_scales(
        self,
        data: bytes,
        tensor: WeightTensor,
        request: WeightRequest,
        result: WeightResult,
        user: Operator | None,
    ) -> bytes:
        """The file with the scales of rows and bias after a request; user: of the tensor, to rescale them."""
        scales = tensor.scales
        if user is not None:
            scales = rescaled_rows(tensor, result, request.row_gains)
            scales = np.minimum(scales, self._saturating_scale(user))
        data = replace_scales(data, tensor.name, scales)
        if tensor.bias_scales is not None:
            data = self._with_bias_scales(data, tensor, None if user is None else result)
        refuse_fatal_scales(self._name, check_graph(data).subgraphs[0])
        return data

    def _with_bias_scales(self, data: bytes, tensor: WeightTensor, rescaled: WeightResult | None) -> bytes:
        """The file with the scales of the bias adapted to the scales of the rows."""
        own = self._tensor(tensor.bias).quantization.scales
        if own.size != tensor.scales.size:
            return data
        scales = own.astype(np.float64)
        if rescaled is not None:
            rows = rescaled.row_scales.size
            scales[:rows] *= rescaled.row_scales / tensor.scales[:rows].astype(np.float64)
        return replace_scales(data, tensor.bias, scales)

    def _tensor(self, name: str) -> Tensor:
        return next(each for each in self._graph.subgraphs[0].tensors if each.name == name)

    def _rescalable_user(self, tensor: WeightTensor) -> Operator:
        """The operator of a layer with a scale for every row and either no bias or one that can be set."""
        graph = self._graph.subgraphs[0]
        operator = next(
            each
            for each in graph.operators
            if each.name == tensor.operator and graph.tensors[each.inputs[1]].name == tensor.name
        )
        if not tensor.has_row_scales:
            one = " row" if tensor.scales.size == 1 else " scale for all rows"
            raise ModelUnsupportedError(
                f"expected a layer of several rows with a scale for every row to rescale; '{tensor.name}' of "
                f"{self._name} has one{one}"
            )
        biased = any(index != ABSENT and any(graph.tensors[index].data) for index in operator.inputs[2:])
        if biased and not tensor.bias:
            raise ModelUnsupportedError(
                f"expected a layer with a bias of its own to rescale; '{tensor.name}' of {self._name} "
                "has one that others share, or of other steps"
            )
        return operator

    def _saturating_scale(self, operator: Operator) -> np.float32:
        """The weight scale above which any sum but 0 saturates; LiteRT rejects somewhat larger ones."""
        tensors = self._graph.subgraphs[0].tensors
        source, result = tensors[operator.inputs[0]].spec, tensors[operator.outputs[0]].spec
        if not source.scale:  # float inputs do not saturate
            return np.float32(LARGEST_SCALE)
        return np.float32(min(LARGEST_SCALE, _SATURATING_MULTIPLIER * result.scale / source.scale))


def _load(model: str | os.PathLike[str] | bytes) -> tuple[str, bytes]:
    """A name for messages, and the file's content."""
    if isinstance(model, bytes):
        return "the model", model
    path = Path(model)
    return f"'{path.name}'", read_model_file(path)


def _refuse_compiled(name: str, model: Model) -> None:
    if model.subgraphs[0].edgetpu_operators:
        raise ModelUnsupportedError(
            f"{name} is compiled for the Edge TPU: run it on the backend 'usb' or 'virtual', or run its "
            "source graph on the CPU (the file without '_edgetpu' in its name)"
        )
