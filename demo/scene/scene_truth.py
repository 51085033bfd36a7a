"""True values for each perception node in every frame of the rendered scene, from its geometry."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from edgetpu_dashboard.scene.room import HIGH
from edgetpu_dashboard.scene.scene import RAMP, Scene

Value = float | bool | None
Columns = dict[str, list[Value]]

SETTLING = 0.5
"""Time after the drive has reached its speed in which looming may still be gathering evidence, s."""


def truth_of(scene: Scene) -> dict[str, Columns]:
    """Return the true values of each frame by node and field; None where nothing is known or visible."""
    tables: dict[str, Callable[[Scene, int], Mapping[str, Value]]] = {
        "spot_tracker": _lamp,
        "looming": _approach,
        "optical_flow": _flow,
        "visual_compass": _heading,
        "pattern_tracker": _poster,
    }
    return {node: _table(scene, row) for node, row in tables.items()}


def _table(scene: Scene, row: Callable[[Scene, int], Mapping[str, Value]]) -> Columns:
    rows = [{"stamp_ns": scene.stamp_ns(frame), **row(scene, frame)} for frame in range(scene.frames)]
    return {name: [each[name] for each in rows] for name in rows[0]}


def _lamp(scene: Scene, frame: int) -> Mapping[str, Value]:
    """Offset and bearing of the lamp; not valid while it is off or out of view."""
    time = scene.time(frame)
    pose = scene.pose(time)
    found, radius = scene.project(pose, scene.lamp_point()), scene.lamp_radius(pose)
    visible = _visible(scene, found, radius, radius) if scene.lit(time) else False
    columns: dict[str, Value] = {"valid": visible, "x": None, "y": None, "bearing_x": None, "bearing_y": None}
    if visible and found:
        x, y = (found[i] - scene.centre[i] for i in (0, 1))
        columns["x"], columns["y"] = x / scene.centre[0], y / scene.centre[1]
        columns["bearing_x"], columns["bearing_y"] = (math.atan(each / scene.focal_length) for each in (x, y))
    return columns


def _poster(scene: Scene, frame: int) -> Mapping[str, Value]:
    """Centre of the poster, until the drive makes it look larger; not valid while it is out of view."""
    time = scene.time(frame)
    if time >= scene.drive:
        return {"valid": None, "x": None, "y": None}
    found = scene.project(scene.pose(time), scene.pattern_point())
    _, _, width, height = scene.pattern_box()
    visible = _visible(scene, found, width / 2, height / 2)
    x, y = found if visible and found else (None, None)
    return {"valid": visible, "x": x, "y": y}


def _heading(scene: Scene, frame: int) -> Mapping[str, Value]:
    """Yaw since the first frame; unknown during the drive, for which a visual compass is not made."""
    time, step = scene.time(frame), 1e-4
    drives = time >= scene.drive
    yaw = None if drives else scene.pose(time).yaw
    rate = (scene.pose(time + step).yaw - scene.pose(time).yaw) / step
    return {"valid": None if drives or not frame else True, "yaw": yaw, "yaw_rate": None if drives else rate}


def _flow(scene: Scene, frame: int) -> Mapping[str, Value]:
    """Median motion of the content that two frames share; in the drive, it moves equally to all sides."""
    if frame == 0:
        return {"valid": False, "dx": None, "dy": None}
    if scene.time(frame) >= scene.drive:
        return {"valid": None, "dx": 0.0, "dy": 0.0}
    dx, dy = median_displacement(scene, frame - 1, frame)
    return {"valid": True, "dx": dx, "dy": dy}


def median_displacement(scene: Scene, before: int, now: int) -> tuple[float, float]:
    """Median displacement, px, of the content that two frames share, if the camera only turned in between.

    The node measures the motion of most of the image, and a turn moves the edges further than the rest.
    """
    from_world = [scene.pose(scene.time(each)).camera_from_world for each in (before, now)]
    columns, rows = np.meshgrid(np.arange(0.0, scene.width, 8), np.arange(0.0, scene.height, 8))
    cx, cy = scene.centre
    rays = np.stack([columns - cx, rows - cy, np.full_like(rows, scene.focal_length)])
    right, down, ahead = np.tensordot(from_world[1] @ from_world[0].T, rays, axes=1)
    x, y = cx + scene.focal_length * right / ahead, cy + scene.focal_length * down / ahead
    shared = (x >= 0) & (x < scene.width) & (y >= 0) & (y < scene.height)
    return float(np.median((x - columns)[shared])), float(np.median((y - rows)[shared]))


def _approach(scene: Scene, frame: int) -> Mapping[str, Value]:
    """Time to contact with the wall ahead, after the drive has reached its speed."""
    time = scene.time(frame)
    if time < scene.drive + RAMP + SETTLING:
        return {"valid": None, "expansion_rate": None, "ttc": None}
    ttc = (float(HIGH[2]) - float(scene.pose(time).position[2])) / scene.speed
    return {"valid": True, "expansion_rate": 1 / ttc, "ttc": ttc}


def _visible(scene: Scene, found: tuple[float, float] | None, across: float, down: float) -> bool | None:
    """Whether an object with these half sizes, px, is in the picture; None if only a part of it is."""
    if found is None:
        return False
    inside = across <= found[0] <= scene.width - 1 - across and down <= found[1] <= scene.height - 1 - down
    outside = (
        not -across <= found[0] <= scene.width - 1 + across
        or not -down <= found[1] <= scene.height - 1 + down
    )
    return True if inside else False if outside else None
