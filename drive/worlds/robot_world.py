"""A room with a robot in MuJoCo: walls, moving objects, a camera, and their ground truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive.worlds.camera import Camera, InImage, Points
from drive.worlds.mujoco_library import cannot_render, mujoco, problem
from drive.worlds.textures import SIZE, as_png, noise_texture

WIDTH, HEIGHT = 320, 240
"""Width and height of the camera's images, px."""
FOCAL_LENGTH = 266.0
"""Focal length, px: a field of view of 62 degrees, that of a common webcam."""
PERIOD = 1 / 30
"""Simulated time between two images of the camera, s."""
CAMERA_X, CAMERA_Z = 0.0, 0.35
"""Position of the camera, m: forward from the robot's vertical axis (0, as a compass needs it), and above the
floor."""
HULL_RADIUS = 0.15
"""Radius of the robot, a cylinder, m."""
MASS, SPEED_GAIN, STRONGEST = 10.0, 100.0, 25.0
"""Mass, kg, gain, N s/m, and largest force, N: lag 0.1 s, at most 2.5 m/s^2, like small indoor robots."""
TURN_INERTIA, TURN_GAIN, STRONGEST_TURN = 0.1, 1.0, 1.0
"""Inertia, kg m^2, gain, N m s, and largest torque, N m: the same lag, at most 10 rad/s^2."""
PHYSICS_STEP = 1 / 300
"""Time step of the physics, s."""
ROOM = 12.0
"""Width and length of the room, m."""
_WALLS = 4
"""Number of walls, which come before the boxes in the room."""
_NOISE_VALUES = 4 * WIDTH * HEIGHT * 3
"""Number of noise values, of which each image takes a part: drawing new noise took a third of an image's
time."""


@dataclass(frozen=True)
class Box:
    """A box with a texture that stands on the floor."""

    x: float
    y: float
    yaw: float
    """Direction of its x axis, rad."""
    half_depth: float
    half_width: float
    height: float = 2.5
    moves: bool = False
    color: tuple[float, float, float] | None = None
    """Red, green and blue, 0 to 1, drawn without texture and shading; None: a texture."""
    bottom: float = 0.0
    """Height of its lower side above the floor, m."""
    ball: bool = False
    """Whether it is a ball with the radius half_width instead of a box."""


class World:
    """A room made from a seed, with boxes in it; its middle is the origin, and the robot starts facing +x."""

    def __init__(
        self,
        seed: int,
        boxes: Sequence[Box],
        start: tuple[float, float] = (0.0, 0.0),
        brightness: float = 1.0,
        texture_size: int = SIZE,
    ) -> None:
        """start: position of the robot, m. texture_size: width and height of each texture, px.

        brightness: factor on the brightness of all textures; 1: as in a lit room.
        """
        random = np.random.default_rng(seed)
        half = ROOM / 2
        walls = [
            Box(x, y, yaw, 0.1, half)
            for x, y, yaw in ((half, 0, 0), (-half, 0, 0), (0, half, math.pi / 2), (0, -half, math.pi / 2))
        ]
        self._boxes = [*walls, *boxes]
        assets = {
            f"t{n}.png": as_png(noise_texture(random, brightness, texture_size))
            for n in range(len(self._boxes) + 1)
        }
        self._model = mujoco.MjModel.from_xml_string(self._xml(start), assets)
        self._data = mujoco.MjData(self._model)
        self._renderer = mujoco.Renderer(self._model, HEIGHT, WIDTH)
        flags = self._renderer.scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._random = random
        self._light = random.uniform(0.0, 2 * math.pi)
        self._noise = random.standard_normal(_NOISE_VALUES, np.float32)
        self._movers = [n for n, box in enumerate(self._boxes) if box.moves]
        mujoco.mj_forward(self._model, self._data)
        self.lamps = np.ones(3)
        """Colour of the light, red, green and blue; 1: as in a lit room."""
        self.touched = False
        """Whether the robot has touched anything but the floor."""
        self.spot: int | None = None
        """Index of the box that spot_tracker should find; None: none."""
        self.pattern: Points | None = None
        """Middle and corners of pattern_tracker's template in the world, [5, 3], m; None: no template."""

    def close(self) -> None:
        """Free the renderer."""
        self._renderer.close()

    @property
    def time(self) -> float:
        """Seconds since the start."""
        return float(self._data.time)

    @property
    def pose(self) -> tuple[float, float, float]:
        """The robot's x, y, m, and yaw, rad, unwrapped."""
        x, y, yaw = self._data.qpos[:3]
        return float(x), float(y), float(yaw)

    @property
    def velocity(self) -> tuple[float, float]:
        """The robot's forward speed, m/s, and angular velocity, rad/s."""
        yaw = self._data.qpos[2]
        vx, vy, turn = self._data.qvel[:3]
        return float(vx * math.cos(yaw) + vy * math.sin(yaw)), float(turn)

    def step(self, seconds: float, linear: float, angular: float) -> None:
        """Let the robot drive for `seconds` with these velocities, m/s and rad/s, as well as it can."""
        data = self._data
        for _ in range(round(seconds / PHYSICS_STEP)):
            yaw = data.qpos[2]
            data.ctrl[:] = linear * math.cos(yaw), linear * math.sin(yaw), angular
            mujoco.mj_step(self._model, data)
            self.touched = self.touched or bool(data.ncon)

    def push(self, angular: float) -> None:
        """Push the robot: change its angular velocity abruptly, rad/s, left positive."""
        self._data.qvel[2] += angular

    def put(self, x: float, y: float, yaw: float) -> None:
        """Put the robot at rest at a position, m, with a heading, rad, relative to its start."""
        self._data.qpos[:3] = x, y, yaw
        self._data.qvel[:3] = 0.0
        mujoco.mj_forward(self._model, self._data)

    def move(self, mover: int, x: float, y: float) -> None:
        """Move the movable box number `mover` to a position, m."""
        address = self._model.body(f"b{self._movers[mover]}").mocapid[0]
        self._data.mocap_pos[address][:2] = x, y

    def gap(self, box: int) -> float:
        """Distance from the robot's hull to the box number `box`, m."""
        hull = self._model.geom("hull").id
        other = self._model.geom(f"g{box + _WALLS}").id
        return float(mujoco.mj_geomDistance(self._model, self._data, hull, other, 20.0, None))

    def image(self, noise: float = 2.0) -> NDArray[np.uint8]:
        """Return the camera's image, uint8[HEIGHT, WIDTH, 3] RGB, in light that changes slowly.

        noise: standard deviation of each px, grey levels.
        """
        self._renderer.update_scene(self._data, camera="front")
        light = self.lamps * (1.0 + 0.1 * math.sin(0.5 * self.time + self._light))
        image = self._renderer.render() * light.astype(np.float32)
        begin = self._random.integers(_NOISE_VALUES - image.size)
        image += noise * self._noise[begin : begin + image.size].reshape(image.shape)
        pixels: NDArray[np.uint8] = np.clip(image, 0, 255).astype(np.uint8)
        return pixels

    def from_above(self) -> NDArray[np.uint8]:
        """Return the room from above, uint8[HEIGHT, WIDTH, 3] RGB, x up; a yellow mark is the robot."""
        camera = mujoco.MjvCamera()
        camera.lookat, camera.distance = (0.0, 0.0, 0.0), ROOM / 2 / math.tan(math.radians(45 / 2))
        camera.azimuth, camera.elevation = 0.0, -90.0
        everything = mujoco.MjvOption()
        everything.geomgroup[:] = 1
        self._renderer.update_scene(self._data, camera=camera, scene_option=everything)
        pixels: NDArray[np.uint8] = self._renderer.render().copy()
        return pixels

    @property
    def camera(self) -> Camera:
        """The camera at its present position."""
        right, up, back = self._data.cam_xmat[0].reshape(3, 3).T  # a camera of MuJoCo looks along its -z
        axes = np.array([right, -up, -back])
        return Camera(WIDTH, HEIGHT, FOCAL_LENGTH, self._data.cam_xpos[0].copy(), axes)

    @property
    def camera_yaw(self) -> float:
        """Yaw of the camera in `image`, rad, unwrapped.

        The yaw in `pose` is one physics step ahead: MuJoCo places bodies and cameras before it moves them.
        """
        ahead_x, ahead_y, _ = self.camera.axes[2]
        yaw = self.pose[2]
        return yaw + math.remainder(math.atan2(ahead_y, ahead_x) - yaw, 2 * math.pi)

    def surfaces(self, rays: Points) -> Points:
        """Return the points, [n, 3], m, at which rays from the camera meet static objects.

        rays: unit vectors, [n, 3]. NaN where a ray meets nothing or a movable object.
        """
        count, robot = len(rays), self._model.body("robot").id
        met, away = np.zeros(count, np.int32), np.zeros(count)
        origin = self._data.cam_xpos[0]
        flat = np.ascontiguousarray(rays).ravel()
        mujoco.mj_multiRay(
            self._model, self._data, origin, flat, None, 1, robot, met, away, None, count, math.inf
        )
        moves = self._model.body_mocapid[self._model.geom_bodyid[met]] >= 0
        away[(met < 0) | moves] = math.nan
        points: Points = origin + away[:, np.newaxis] * rays
        return points

    def spot_in_image(self) -> InImage | None:
        """Return where `spot`, taken for a ball, appears in the image; None without a spot."""
        if self.spot is None:
            return None
        number = self.spot + _WALLS
        return self.camera.ball(self._data.body(f"b{number}").xpos, self._boxes[number].half_width)

    def pattern_in_image(self) -> InImage | None:
        """Return where `pattern` appears in the image; None without a pattern."""
        return None if self.pattern is None else self.camera.patch(self.pattern[0], self.pattern[1:])

    def distance_ahead(self) -> float:
        """Return the distance along the camera's axis to the first surface, m; inf if there is none."""
        camera, robot = self.camera, self._model.body("robot").id
        found = mujoco.mj_ray(
            self._model, self._data, camera.position, camera.axes[2], None, 1, robot, np.zeros(1, np.int32)
        )
        return float(found) if found >= 0 else math.inf

    def _xml(self, start: tuple[float, float]) -> str:
        fov = math.degrees(2 * math.atan(HEIGHT / 2 / FOCAL_LENGTH))
        parts = [self._box_xml(number, box) for number, box in enumerate(self._boxes)]
        floor = len(self._boxes)
        textures = "".join(
            f'<texture name="t{n}" type="{"2d" if n == floor else "cube"}" file="t{n}.png"/>'
            f'<material name="m{n}" texture="t{n}" specular="0" shininess="0" '
            f'texuniform="{str(n == floor).lower()}" texrepeat="0.4 0.4"/>'
            for n in range(floor + 1)
        )
        return f"""
<mujoco>
  <option timestep="{PHYSICS_STEP}" gravity="0 0 0"/>
  <visual>
    <quality shadowsize="0" offsamples="0"/>
    <map znear="0.01"/>
    <headlight ambient="0.7 0.7 0.7" diffuse="0.3 0.3 0.3" specular="0 0 0"/>
  </visual>
  <asset>{textures}</asset>
  <worldbody>
    <geom type="plane" size="{ROOM} {ROOM} 0.1" material="m{floor}" contype="0" conaffinity="0"/>
    {"".join(parts)}
    <body name="robot" pos="{start[0]} {start[1]} 0">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <joint name="yaw" type="hinge" axis="0 0 1"/>
      <inertial pos="0 0 0.1" mass="{MASS}" diaginertia="{TURN_INERTIA} {TURN_INERTIA} {TURN_INERTIA}"/>
      <geom name="hull" type="cylinder" pos="0 0 0.15" size="{HULL_RADIUS} 0.12" group="3"/>
      <geom name="mark" type="box" pos="0.1 0 1" size="0.3 0.2 0.01" group="4" rgba="1 1 0 1"
        contype="0" conaffinity="0"/>
      <camera name="front" pos="{CAMERA_X} 0 {CAMERA_Z}" xyaxes="0 -1 0 0 0 1" fovy="{fov}"/>
    </body>
  </worldbody>
  <actuator>
    <velocity joint="x" kv="{SPEED_GAIN}" forcerange="-{STRONGEST} {STRONGEST}"/>
    <velocity joint="y" kv="{SPEED_GAIN}" forcerange="-{STRONGEST} {STRONGEST}"/>
    <velocity joint="yaw" kv="{TURN_GAIN}" forcerange="-{STRONGEST_TURN} {STRONGEST_TURN}"/>
  </actuator>
</mujoco>"""

    @staticmethod
    def _box_xml(number: int, box: Box) -> str:
        size = f"{box.half_depth} {box.half_width} {box.height / 2}"
        position = f"{box.x} {box.y} {box.bottom + box.height / 2}"
        look = f'material="m{number}"'
        if box.color is not None:
            look = 'rgba="{} {} {} 1"'.format(*box.color)
        collides = "" if box.bottom == 0 and not box.moves else ' contype="0" conaffinity="0"'
        shape, size = ("sphere", f"{box.half_width}") if box.ball else ("box", size)
        geom = f'<geom name="g{number}" type="{shape}" size="{size}" {look}{collides}/>'
        mocap = ' mocap="true"' if box.moves else ""
        turned = f'euler="0 0 {math.degrees(box.yaw)}"'
        return f'<body name="b{number}" pos="{position}" {turned}{mocap}>{geom}</body>'


def renderer_problem() -> str:
    """Return the reason why rendering is not possible here, with the remedy; empty if it is possible."""
    if problem:
        return problem
    try:
        world = World(0, [])
        world.image()
        world.close()
    except Exception as error:  # MuJoCo raises different errors, depending on the missing library
        return cannot_render(error)
    return ""
