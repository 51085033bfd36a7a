"""A joint model on a host: several hosted models that take the same input, as heads of one graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.toolchain.graph_family import head_prefix
from edgetpu_driver.toolchain.joint_graphs import HeadOutputs, weight_tensor_name
from edgetpu_driver.weights.weight_request import WeightRequest

_VERSIONS_KEPT = 16
"""Versions of its weights that are remembered; a result lags behind by one swap at most."""


class JointModel:
    """A model with a head for each of several hosted models. Not thread-safe."""

    def __init__(self, model: HostedModel, heads: Sequence[HostedModel]) -> None:
        """model: the joint graph. Raises ModelUnsupportedError unless it has these heads."""
        self.model = model
        self.heads = tuple(heads)
        if model.inputs != heads[0].inputs:
            raise ModelUnsupportedError(f"expected the input {heads[0].inputs[0]}; got {model.inputs}")
        self._outputs = {
            head: HeadOutputs.of(number, head.outputs, model.outputs) for number, head in enumerate(heads)
        }
        self._held = dict.fromkeys(self.heads, 0)
        """The version of each head's weights that it holds."""
        self._sent = dict(self._held)
        """The version of each head's weights that it holds or is being given."""
        self._at = {0: dict(self._held)}
        """The versions of the heads' weights that it held, by the version of its own weights."""
        self._noted: dict[int, tuple[HostedModel, int]] = {}
        """Swaps noted before an earlier one: head and its version, by the version of its own weights."""

    def can_run(self, head: HostedModel) -> bool:
        """Whether it is on a device and has the weights of a head that are in effect."""
        return self._held.get(head) == head.weights_version and any(
            replica.engine is not None and replica.version == self.model.weights_version
            for replica in tuple(self.model.replicas.values())
        )

    def reason_against(self, models: Iterable[HostedModel]) -> str:
        """Why the heads should be run one by one; empty if nothing speaks against the joint graph.

        models: the loaded ones. A model that was compiled together with a head stays in memory next to it,
        but has to be uploaded again after each run of a joint graph that was not compiled with both.
        """
        tokens = {head.caching_token for head in self.heads} - {0, self.model.caching_token}
        files = {head.sha256 for head in self.heads}
        for model in models:
            for part in model.device_parts:
                if part.caching_token in tokens and part.sha256 not in files:
                    return f"'{model.name}' was compiled together with them, and the joint graph was not"
        return ""

    def result_of(self, head: HostedModel, result: InferenceResult) -> InferenceResult | None:
        """The result of one head from the joint result; None if the version of its weights is unknown."""
        held = self._at.get(result.weights_version)
        if held is None:
            return None
        return InferenceResult(
            self._outputs[head].read(result.outputs),
            engine_duration=result.engine_duration,
            device_duration=result.device_duration,
            weights_version=held[head],
            model_sha256=head.sha256,
        )

    def missing(self, head: HostedModel) -> list[tuple[int, WeightRequest]]:
        """The weights of a head that it has not been given yet, with their versions; each is returned once.

        Raises InputError and ModelUnsupportedError if their tensor cannot be determined.
        """
        if self._sent[head] == head.weights_version:
            return []
        prefix = head_prefix(self.heads.index(head))
        missing = [
            (version, replace(request, tensor=prefix + weight_tensor_name(head.head_name, request.tensor)))
            for version, request in head.weights.since(self._sent[head])
        ]
        self._sent[head] = missing[-1][0]
        return missing

    def hold(self, head: HostedModel, version: int, own_version: int) -> None:
        """Note the version of its own weights from which the weights of a head are in effect.

        With several sticks, swaps may be noted in a different order from that in which they were made.
        """
        self._noted[own_version] = head, version
        while (following := max(self._at) + 1) in self._noted:
            head, version = self._noted.pop(following)
            self._held[head] = version
            self._at[following] = dict(self._held)
        for old in sorted(self._at)[:-_VERSIONS_KEPT]:
            del self._at[old]

    def send_again(self, head: HostedModel) -> None:
        """Note that weights of a head could not be set: they are missing again."""
        self._sent[head] = self._held[head]
