"""The messages that describe a loaded model."""

from __future__ import annotations

from array import array

from edgetpu_driver.backends.backend import Placement
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.node_kit.messages.tensor_messages import spec_to_message
from edgetpu_driver.node_kit.printable_text import one_line
from edgetpu_driver.tflite.model_reader import EDGETPU_CUSTOM_OP
from edgetpu_msgs.msg import ModelInfo, ModelPart


def loaded_model_info(model: HostedModel) -> ModelInfo:
    """Describe a model to the client that loads it, with its files without weights."""
    info = model_info(model)
    info.files_without_weights = array("B", model.files_without_weights)
    return info


def model_info(model: HostedModel) -> ModelInfo:
    """Describe a model that is loaded, or being loaded."""
    known = model.tensors_of_file if model.parsed is None else (model.inputs, model.outputs)
    inputs, outputs = ([spec_to_message(spec) for spec in specs] for specs in known)
    return ModelInfo(
        name=model.name,
        path=str(model.path),
        sha256=model.sha256,
        placement=int(model.placement),
        parameter_bytes=model.parameter_bytes,
        caching_token=model.caching_token,
        weights_version=model.weights_version,
        resident=model.resident,
        inputs=inputs,
        outputs=outputs,
        state=int(model.state),
        message=one_line(model.message),
        owner=model.owner,
        shared=model.shared,
        sticks=list(model.sticks),
        paths=[str(path) for path in model.paths],
        uploads=model.uploads,
        parts=_model_parts(model),
    )


def _model_parts(model: HostedModel) -> list[ModelPart]:
    """The parts of a model; empty until it is loaded, as only then is it known what runs it."""
    if model.parsed is None:
        return []
    return [_model_part(part) for part in model.parts or (model,)]


def _model_part(part: HostedModel) -> ModelPart:
    on_edge_tpu = part.on_device and part.placement is not Placement.HOST
    return ModelPart(
        device=ModelPart.EDGE_TPU if on_edge_tpu else ModelPart.CPU,
        operators=list(part.operators) or ([EDGETPU_CUSTOM_OP] if on_edge_tpu else []),
        inputs=[spec_to_message(spec) for spec in part.inputs],
        outputs=[spec_to_message(spec) for spec in part.outputs],
        parameter_bytes=part.parameter_bytes,
        resident=part.resident,
        sticks=list(part.sticks) if on_edge_tpu else [],
        uploads=part.uploads,
    )
