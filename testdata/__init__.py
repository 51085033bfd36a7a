"""Models, recordings and pictures that are not in the repository, found by their SHA-256.

golden.csv and data.csv list the files, with the repository, path and commit where each was published. These
columns are empty for files made for this project; README.md says from what they were made. Tests, accuracy,
bench and fuzz find all such files here.
"""

from pathlib import Path

from testdata.known_files import KnownFiles, MissingFileError
from testdata.model_folder import ModelFolder

_HERE = Path(__file__).resolve().parent
_SHARED = _HERE.parents[1] / "shared"

GOLDEN = KnownFiles(_HERE / "golden.csv", "EDGETPU_GOLDEN", _SHARED / "golden", "golden models")
"""Models that Google's compiler wrote, their graphs and sidecars, and recordings of their transfers."""

DATA = KnownFiles(_HERE / "data.csv", "EDGETPU_DATA", _SHARED / "data", "pictures")
"""Photographs, clips and bags of real cameras."""

COMPILED_MODELS = (
    "bright_64x64",
    "deeplabv3_mnv2_pascal_quant",
    "dense_256",
    "gabor_64x64_7k_4o_2s",
    "gabor_64x64_p4",
    "keras_lstm_mnist_ptq",
    "looming_64x64_3x3",
    "mobilenet_v1_0.25_128_quant",
    "movenet_single_pose_lightning_ptq",
    "posenet_mobilenet_v1_075_353_481_16_quant_decoder",
    "ssd_mobilenet_v1_coco_quant_postprocess_segment_1_of_2",
)
"""Stems of compiled models, one of each arrangement of layers and outputs."""

__all__ = ["COMPILED_MODELS", "DATA", "GOLDEN", "KnownFiles", "MissingFileError", "ModelFolder"]
