"""Detects answers of a model that the client has not loaded, or with weights that it has not set."""

from __future__ import annotations

from edgetpu_driver.errors import InputError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.node_kit.clients.load_result import LoadResult


class ForeignResults:
    """Recognises answers of another model, or of other weights, under the name of a client's model."""

    def __init__(self) -> None:
        self.weights_version: int | None = None
        """Version of the weights that the client has set; None if none since the model was loaded."""
        self._refused = ""
        """Digest of the model that was loaded when inputs of its form were refused, until the next result."""

    def reason(self, result: InferenceResult, loaded: LoadResult) -> str:
        """Why an answer is not of the model `loaded` with these weights; empty if it is, as far as is known.

        A model of another form refuses the inputs. The right model may refuse them too, for another reason,
        so only the first refusal is taken as a sign of another model.
        """
        name, version = loaded.name, self.weights_version
        if isinstance(result.error, InputError) and self._refused != loaded.sha256:
            self._refused = loaded.sha256
            return f"the driver has another model as '{name}': {result.error}"
        if result.error is not None:
            return ""
        if result.model_sha256 != loaded.sha256:
            return f"the driver has another model as '{name}'"
        self._refused = ""
        several = result.part and len(loaded.parts) > 1  # the result then has the version of the part
        if version is not None and not several and result.weights_version != version:
            return (
                f"expected version {version} of the weights of '{name}', which were set here; "
                f"got {result.weights_version}"
            )
        return ""
