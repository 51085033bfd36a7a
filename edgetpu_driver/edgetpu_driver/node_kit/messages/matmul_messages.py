"""Products of a matrix in the messages of ~/matmul."""

from __future__ import annotations

from array import array

import numpy as np

from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.matrix.matmul import Product
from edgetpu_msgs.srv import MatMul


def product_request(message: MatMul.Request) -> ProductRequest:
    """Read a request for a product; zeros stand for the defaults."""
    return ProductRequest(
        np.frombuffer(message.inputs, np.float32),
        message.batch or 1,
        message.input_scale or None,
        message.accept_clipping,
        message.passes or 1,
    )


def fill_product(response: MatMul.Response, product: Product) -> None:
    """Write a product into an answer."""
    response.outputs = array("f")
    response.outputs.frombytes(product.outputs.reshape(-1).view(np.uint8).data)
    response.rows = product.outputs.shape[-1]
    response.weights_version = product.weights_version
    response.clipped = product.clipped
    response.saturated = product.saturated
    response.input_scale = product.input_scale
    response.pass_rms = array("f", product.pass_rms.tobytes())
