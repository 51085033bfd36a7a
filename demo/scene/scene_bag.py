"""Writes the rendered scene to a bag, with its ground truth next to the images."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from demo.bag.image_bag import CAMERA_INFO, IMAGE
from demo.bag.recorded_truth import TRUTH_FILE
from demo.errors import BagError
from demo.scene.scene_truth import truth_of
from edgetpu_dashboard.camera.calibration import ideal_calibration
from edgetpu_dashboard.scene.scene import Scene, render

TOPIC = "/camera/image_raw"
INFO_TOPIC = "/camera/camera_info"
FRAME_ID = "camera_optical_frame"
PATTERN_FILE = "pattern.png"
"""File with the poster as it appears in the first frame, for the pattern tracker."""
PARAMETERS_FILE = "parameters.json"
"""File with parameters by node, which say what the nodes should look for in this scene."""


def write_scene(directory: Path, scene: Scene | None = None) -> Path:
    """Render the scene to a bag of images and camera_info, which replaces an earlier one; return its path.

    Raises BagError if the directory has other contents.
    """
    scene = scene or Scene()
    if directory.exists():
        ours = {TRUTH_FILE, PATTERN_FILE, PARAMETERS_FILE, "metadata.yaml", f"{directory.name}.mcap"}
        if {path.name for path in directory.iterdir()} - ours:
            raise BagError(f"{directory} contains other files; choose another OUTPUT")
        shutil.rmtree(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    store = get_typestore(Stores.ROS2_JAZZY)
    header_type, time_type = store.types["std_msgs/msg/Header"], store.types["builtin_interfaces/msg/Time"]
    with Writer(directory, version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        infos = bag.add_connection(INFO_TOPIC, CAMERA_INFO, typestore=store)
        images = bag.add_connection(TOPIC, IMAGE, typestore=store)
        for frame, picture in enumerate(render(scene)):
            if frame == 0:
                _write_pattern(scene, picture, directory / PATTERN_FILE)
            stamp_ns = scene.stamp_ns(frame)
            header = header_type(time_type(*divmod(stamp_ns, 1_000_000_000)), FRAME_ID)
            info = _camera_info(scene, store, header)
            bag.write(infos, stamp_ns, store.serialize_cdr(info, CAMERA_INFO))
            image = _image(scene, store, header, picture)
            bag.write(images, stamp_ns, store.serialize_cdr(image, IMAGE))
    (directory / TRUTH_FILE).write_text(json.dumps(truth_of(scene), indent=1))
    parameters = {
        "spot_tracker": {"color": "red"},
        "pattern_tracker": {"template": str((directory / PATTERN_FILE).resolve())},
    }
    (directory / PARAMETERS_FILE).write_text(json.dumps(parameters, indent=1))
    return directory


def _write_pattern(scene: Scene, picture: npt.NDArray[np.uint8], path: Path) -> None:
    left, top, width, height = scene.pattern_box()
    cv2.imwrite(str(path), picture[top : top + height, left : left + width, ::-1])


def _image(scene: Scene, store: Typestore, header: Any, picture: npt.NDArray[np.uint8]) -> object:
    return store.types[IMAGE](
        header=header,
        height=scene.height,
        width=scene.width,
        encoding="rgb8",
        is_bigendian=0,
        step=3 * scene.width,
        data=picture.reshape(-1),
    )


def _camera_info(scene: Scene, store: Typestore, header: Any) -> object:
    calibration = ideal_calibration(scene.width, scene.height, scene.field_of_view)
    return store.types[CAMERA_INFO](
        header=header,
        height=calibration.height,
        width=calibration.width,
        distortion_model=calibration.distortion_model,
        d=np.array(calibration.d),
        k=np.array(calibration.k),
        r=np.array(calibration.r),
        p=np.array(calibration.p),
        binning_x=0,
        binning_y=0,
        roi=store.types["sensor_msgs/msg/RegionOfInterest"](0, 0, 0, 0, False),
    )
