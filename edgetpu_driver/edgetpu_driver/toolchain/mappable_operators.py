"""The operators that edgetpu_compiler can map to the Edge TPU.

Source: coral.ai/docs/edgetpu/models-intro/#supported-operations, the table for compiler and runtime 14 and
earlier. Being listed is necessary but not sufficient: the table's remarks and size limits apply as well.
"""

from __future__ import annotations

SUPPORTED_OPERATORS = frozenset(
    (
        *("ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "EXPAND_DIMS"),
        *("FULLY_CONNECTED", "L2_NORMALIZATION", "LOGISTIC", "LSTM", "MAXIMUM", "MAX_POOL_2D", "MEAN"),
        *("MINIMUM", "MUL", "PACK", "PAD", "PRELU", "QUANTIZE", "REDUCE_MAX", "REDUCE_MIN", "RELU"),
        *("RELU6", "RELU_N1_TO_1", "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "RSQRT"),
        *("SLICE", "SOFTMAX", "SPACE_TO_DEPTH", "SPLIT", "SQUEEZE", "STRIDED_SLICE", "SUB", "SUM"),
        *("SQUARED_DIFFERENCE", "TANH", "TRANSPOSE", "TRANSPOSE_CONV"),
    )
)
"""Names as in the TFLite format's BuiltinOperator."""
