"""A graph like BodyPix: convolutions give maps, and PosenetDecoderOp makes poses and masks of them."""

from __future__ import annotations

import numpy as np

from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.tensor import TensorSpec

HEIGHT, WIDTH, STRIDE = 305, 481, 16
DECODED = {"heatmaps": 17, "short_offsets": 34, "mid_offsets": 64, "long_offsets": 34}
"""Number of channels of each map that the decoder reads."""
OUTPUTS = 5
"""Number of outputs of the decoder."""
MOST = 3


def body_pix_file() -> bytes:
    """A graph that takes bright pixels for people, and finds no keypoints."""
    graph = GraphBuilder("body_pix")
    image = graph.input("image", (1, HEIGHT, WIDTH, 3), np.uint8, scale=1.0, zero_point=0)
    grey = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    heads = {}
    for name, channels in (*DECODED.items(), ("segments", 1), ("parts", 24)):
        weights = np.zeros((channels, 1, 1, 3), np.int8)
        bias = np.zeros(channels, np.int32)
        if name == "segments":
            weights[:], bias[:] = 1, -3 * 128
        if name == "parts":
            bias[6] = 100
        heads[name] = graph.conv_2d(
            grey, weights, 1.0, scale=4.0, zero_point=0, bias=bias, stride=STRIDE, name=name
        )
    options = {"max_detections": MOST, "score_threshold": 0.2, "stride": STRIDE, "nms_radius": 10.0}
    outputs = [TensorSpec(f"poses:{index}", (), np.dtype(np.float32), 0.0, 0) for index in range(OUTPUTS)]
    results = graph.custom(
        "PosenetDecoderOp", [heads[name] for name in DECODED], outputs, flexbuffer.encode(options)
    )
    for result in (*results, heads["segments"], heads["parts"]):
        graph.output(result)
    return graph.build()
