"""The parameters of every matrix node."""

from __future__ import annotations

from edgetpu_driver.node_kit.clients.driver_choice import DRIVER_SETTING
from edgetpu_driver.node_kit.dense_graph_files import MODEL_DIR
from edgetpu_driver.node_kit.parameters import QOS_RELIABILITY, Setting, merge_settings

INPUT_TYPE = Setting("input_type", "std_msgs/msg/Float32MultiArray", "Type of the messages to subscribe to.")

INPUT_FIELDS = Setting(
    "input_fields",
    "data",
    "Fields of the message to read, separated by commas: paths such as angular_velocity.x, optionally "
    "with an index or a slice at the end, such as data[0::2].",
)

_SETTINGS = (
    DRIVER_SETTING,
    Setting(
        "model",
        "dense_256",
        "Dense model that takes the matrix, in tiles if it is smaller: file stem, file name or path, as the "
        "driver's load_model takes it. dense_<size> is written to model_dir unless such a file is there.",
    ),
    MODEL_DIR,
    Setting(
        "rescale_rows",
        False,
        "Rewrite the model's multipliers with the weights, so that its whole output range is used. Not yet "
        "tried on silicon.",
    ),
    Setting("passes", 1, "Repetitions of every product; their mean has less rounding error.", 1, 64),
    INPUT_TYPE,
    INPUT_FIELDS,
    QOS_RELIABILITY,
    Setting("qos_depth", 100, "Queue depth of the subscription, messages.", 1, 10000),
)


def matrix_settings(*own: Setting) -> tuple[Setting, ...]:
    """The parameters of every matrix node, and those of one, which replace common ones of the same name."""
    return merge_settings(_SETTINGS, own)
