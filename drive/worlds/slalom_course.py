"""A two-wheeled robot that drives among poles on a floor of unknown friction, in MuJoCo."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from drive.worlds.mujoco_library import mujoco

PERIOD = 0.1
"""Time between two commands, s."""
FASTEST, FASTEST_TURN = 0.8, 2.0
"""Largest velocities that can be commanded, m/s and rad/s."""
POLES = ((1.5, 0.0), (3.0, 0.0), (4.5, 0.0))
"""Positions of the poles, m; they are passed on the left and on the right in turn."""
GOAL_X = 6.0
"""Position along x at which the course ends, m."""
CLEARANCE = 0.3
"""Distance from a pole to the robot's centre below which they touch, m: radii of 0.15 m each."""
DRAGS = (2.0, 12.0)
"""Range of a floor's drag against driving, N s/m; the drag against turning is a tenth of it, N m s. The robot
reaches 93 to 68 % of a command and does not know how much."""
_MASS, _SPEED_GAIN, _TURN_INERTIA, _TURN_GAIN = 10.0, 25.0, 0.1, 1.0
_GRIP = 60.0
"""Drag against sliding sideways, N s/m."""
_PHYSICS_STEP = 0.01

_XML = f"""
<mujoco>
  <option timestep="{_PHYSICS_STEP}" gravity="0 0 0"/>
  <worldbody>
    <body name="robot">
      <joint type="slide" axis="1 0 0"/>
      <joint type="slide" axis="0 1 0"/>
      <joint type="hinge" axis="0 0 1"/>
      <inertial pos="0 0 0" mass="{_MASS}" diaginertia="0.1 0.1 {_TURN_INERTIA}"/>
      <geom type="cylinder" size="0.15 0.1" mass="0" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
</mujoco>
"""


class SlalomCourse:
    """The robot; state, float64[5]: x and y, m, yaw, rad, forward speed, m/s, and angular velocity, rad/s."""

    def __init__(self, drag: float) -> None:
        """drag: drag of this floor, N s/m."""
        self._model = mujoco.MjModel.from_xml_string(_XML)
        self._data = mujoco.MjData(self._model)
        self.drag = drag
        """Drag of the floor, N s/m; may be changed."""

    @property
    def state(self) -> NDArray[np.float64]:
        """The present state."""
        x, y, yaw = self._data.qpos
        vx, vy, turning = self._data.qvel
        return np.array([x, y, yaw, vx * math.cos(yaw) + vy * math.sin(yaw), turning])

    def put(self, state: NDArray[np.float64]) -> None:
        """Set the state, without sideways speed."""
        yaw, speed = state[2], state[3]
        self._data.qpos[:] = state[:3]
        self._data.qvel[:] = speed * math.cos(yaw), speed * math.sin(yaw), state[4]
        mujoco.mj_forward(self._model, self._data)

    def act(self, action: NDArray[np.float64]) -> NDArray[np.float64]:
        """Command velocities, float64[2], m/s and rad/s, for a period; return the next state."""
        data, (linear, angular) = self._data, action
        for _ in range(round(PERIOD / _PHYSICS_STEP)):
            yaw, (vx, vy, turning) = data.qpos[2], data.qvel
            ahead, aside = vx * math.cos(yaw) + vy * math.sin(yaw), vy * math.cos(yaw) - vx * math.sin(yaw)
            force = _SPEED_GAIN * (linear - ahead) - self.drag * ahead
            grip = -_GRIP * aside
            data.qfrc_applied[0] = force * math.cos(yaw) - grip * math.sin(yaw)
            data.qfrc_applied[1] = force * math.sin(yaw) + grip * math.cos(yaw)
            data.qfrc_applied[2] = _TURN_GAIN * (angular - turning) - 0.1 * self.drag * turning
            mujoco.mj_step(self._model, data)
        return self.state


def transitions(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """States with commands, float64[count, 7], and those a period later, [count, 5], on many floors."""
    random = np.random.default_rng(seed)
    low = np.array([0.0, -1.0, -math.pi, -0.1, -FASTEST_TURN, 0.0, -FASTEST_TURN])
    high = np.array([GOAL_X, 1.0, math.pi, FASTEST, FASTEST_TURN, FASTEST, FASTEST_TURN])
    questions = random.uniform(low, high, (count, 7))
    answers = np.empty((count, 5))
    course = SlalomCourse(0.0)
    for question, answer in zip(questions, answers, strict=True):
        course.drag = random.uniform(*DRAGS)
        course.put(question[:5])
        answer[:] = course.act(question[5:])
    return questions, answers
