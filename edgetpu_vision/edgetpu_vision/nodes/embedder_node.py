"""The embedder as a node: subscribes image, publishes ~/embedding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from std_msgs.msg import Header

from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.result_topics import ResultTopic
from edgetpu_msgs.msg import Embedding as EmbeddingMessage
from edgetpu_vision.debug_images import embedding_picture
from edgetpu_vision.embedding.embedder import Embedder
from edgetpu_vision.embedding.embedding import Embedding
from edgetpu_vision.nodes.vision_node import VisionNode
from edgetpu_vision.nodes.vision_parameters import OUTPUT, vision_settings


class EmbedderNode(VisionNode):
    """Publishes the embedding of each image, for example for place_recognition."""

    settings = vision_settings("mobilenet_v1_1.0_224_quant_embedding_extractor", 0.0, OUTPUT)
    results = ResultTopic("embedding", EmbeddingMessage, ())
    rebuilt_by = (*VisionNode.rebuilt_by, "output")
    has_labels = False

    def __init__(self, **options: Any) -> None:
        super().__init__("embedder", **options)
        with self.destroyed_on_error():
            self._embedding = self.create_publisher(EmbeddingMessage, "~/embedding", QOS_RESULTS)
        self.start_vision()

    def make_algorithms(self, values: Mapping[str, Any], **common: Any) -> tuple[Embedder]:
        """Make the embedder for these values of the parameters."""
        return (Embedder(output=values["output"], **common),)

    def publish(self, header: Header, result: Embedding) -> None:
        """Publish the result on ~/embedding."""
        self._embedding.publish(
            EmbeddingMessage(
                header=header,
                valid=bool(result.valid),
                confidence=float(result.confidence),
                vector=result.vector,
            )
        )

    def draw(self, image: Pixels, result: Embedding) -> Pixels:
        """Draw the vector as a strip of colours."""
        return embedding_picture(image, result)
