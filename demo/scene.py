"""A short scene rendered from known geometry: a camera pans and tilts past a beacon far away.

The world is a sphere of directions with a dim texture and one bright beacon, straight ahead of the camera at
rest. The camera only turns, so where the beacon is in every frame is known exactly.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from .bag import CAMERA_INFO, IMAGE
from .truth import TRUTH_FILE

Array = npt.NDArray[np.float64]

TOPIC = "/camera/image_raw"
INFO_TOPIC = "/camera/camera_info"
FRAME_ID = "camera_optical_frame"


@dataclass(frozen=True)
class Scene:
    """The camera, its motion and the beacon; the defaults are the scene of the demo."""

    width: int = 320
    height: int = 240
    field_of_view: float = math.radians(60.0)  # horizontal, rad
    rate: float = 30.0  # frames per second
    frames: int = 90
    start_ns: int = 1_700_000_000_000_000_000  # stamp of the first frame
    beacon_radius: float = math.radians(0.9)  # one standard deviation of its light, rad
    dark: tuple[float, float] = (2.1, 2.4)  # s; the beacon is off in between
    noise: float = 2.0  # standard deviation of the sensor, grey levels
    seed: int = 7

    @property
    def focal_length(self) -> float:
        """In px, the same for x and y."""
        return (self.width / 2) / math.tan(self.field_of_view / 2)

    @property
    def centre(self) -> tuple[float, float]:
        """The principal point in px; the centre of the top left pixel is (0, 0)."""
        return (self.width - 1) / 2, (self.height - 1) / 2

    def time(self, frame: int) -> float:
        """Seconds since the first frame."""
        return frame / self.rate

    def stamp_ns(self, frame: int) -> int:
        """The stamp of a frame in ns."""
        return self.start_ns + round(frame * 1e9 / self.rate)

    def orientation(self, time: float) -> tuple[float, float]:
        """Pan (left positive) and tilt (up positive) of the camera in rad."""
        pan = math.radians(22.0) * math.sin(2 * math.pi * time / 3.0)
        tilt = math.radians(14.0) * math.sin(2 * math.pi * time / 1.5 + 0.5)
        return pan, tilt


def camera_from_world(pan: float, tilt: float) -> Array:
    """The 3x3 rotation into the optical frame (x right, y down, z forward) of a panned and tilted camera.

    At rest both frames are the same; the camera pans about the vertical, then tilts about its own x axis.
    """
    cp, sp, ct, st = math.cos(pan), math.sin(pan), math.cos(tilt), math.sin(tilt)
    turn = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    nod = np.array([[1.0, 0.0, 0.0], [0.0, ct, st], [0.0, -st, ct]])
    return np.asarray(nod @ turn, dtype=np.float64)


def truth(scene: Scene) -> dict[str, list[float | bool | int | None]]:
    """What a spot tracker should say of every frame, named as in edgetpu_msgs/ServoError; None: nothing."""
    columns: dict[str, list[float | bool | int | None]] = {
        name: [] for name in ("stamp_ns", "valid", "x", "y", "bearing_x", "bearing_y")
    }
    for frame in range(scene.frames):
        time = scene.time(frame)
        right, down, ahead = camera_from_world(*scene.orientation(time)) @ np.array([0.0, 0.0, 1.0])
        lit = not scene.dark[0] <= time < scene.dark[1]
        numbers = (
            scene.focal_length * right / ahead / scene.centre[0],
            scene.focal_length * down / ahead / scene.centre[1],
            math.atan2(right, ahead),
            math.atan2(down, ahead),
        )
        row = (scene.stamp_ns(frame), lit, *(float(number) if lit else None for number in numbers))
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return columns


def render(scene: Scene) -> Iterator[npt.NDArray[np.uint8]]:
    """The frames, HxWx3 uint8 RGB."""
    columns, rows = np.meshgrid(np.arange(scene.width), np.arange(scene.height))
    cx, cy = scene.centre
    rays = np.stack([(columns - cx) / scene.focal_length, (rows - cy) / scene.focal_length], axis=-1)
    rays = np.concatenate([rays, np.ones_like(rays[..., :1])], axis=-1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    random = np.random.default_rng(scene.seed)
    waves = random.normal(size=(3, 12)) * random.uniform(5.0, 25.0, size=12)  # rad/rad
    phases = random.uniform(0.0, 2 * math.pi, size=12)
    tint = random.normal(scale=2.0, size=(12, 1)) + random.normal(scale=1.0, size=(12, 3))
    for frame in range(scene.frames):
        time = scene.time(frame)
        directions = rays @ camera_from_world(*scene.orientation(time))  # row vectors: back into the world
        picture = np.array([50.0, 54.0, 60.0]) + np.cos(directions @ waves + phases) @ tint
        if not scene.dark[0] <= time < scene.dark[1]:
            angle_squared = 2.0 * (1.0 - directions[..., 2])
            light = np.exp(-angle_squared / (2.0 * scene.beacon_radius**2))[..., None]
            picture = picture * (1.0 - light) + np.array([255.0, 250.0, 240.0]) * light
        picture += random.normal(scale=scene.noise, size=picture.shape)
        yield np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def write_scene(directory: Path, scene: Scene | None = None) -> Path:
    """Render the scene into a bag of images and camera_info, the truth beside it; replaces what is there."""
    scene = scene or Scene()
    if directory.exists():
        shutil.rmtree(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    store = get_typestore(Stores.ROS2_JAZZY)
    header_type, time_type = store.types["std_msgs/msg/Header"], store.types["builtin_interfaces/msg/Time"]
    with Writer(directory, version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        infos = bag.add_connection(INFO_TOPIC, CAMERA_INFO, typestore=store)
        images = bag.add_connection(TOPIC, IMAGE, typestore=store)
        for frame, picture in enumerate(render(scene)):
            stamp_ns = scene.stamp_ns(frame)
            header = header_type(time_type(*divmod(stamp_ns, 1_000_000_000)), FRAME_ID)
            info = _camera_info(scene, store, header)
            bag.write(infos, stamp_ns, store.serialize_cdr(info, CAMERA_INFO))
            image = _image(scene, store, header, picture)
            bag.write(images, stamp_ns, store.serialize_cdr(image, IMAGE))
    (directory / TRUTH_FILE).write_text(json.dumps({"spot_tracker": truth(scene)}, indent=1))
    return directory


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
    f, (cx, cy) = scene.focal_length, scene.centre
    return store.types[CAMERA_INFO](
        header=header,
        height=scene.height,
        width=scene.width,
        distortion_model="plumb_bob",
        d=np.zeros(5),
        k=np.array([f, 0.0, cx, 0.0, f, cy, 0.0, 0.0, 1.0]),
        r=np.eye(3).reshape(-1),
        p=np.array([f, 0.0, cx, 0.0, 0.0, f, cy, 0.0, 0.0, 0.0, 1.0, 0.0]),
        binning_x=0,
        binning_y=0,
        roi=store.types["sensor_msgs/msg/RegionOfInterest"](0, 0, 0, 0, False),
    )
