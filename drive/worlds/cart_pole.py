"""A cart with a pole that hangs from it, in MuJoCo."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from drive.worlds.mujoco_library import mujoco

STRONGEST = 10.0
"""Largest force on the cart, which weighs 1 kg, N."""
RAIL = 2.4
"""Distance from the middle of the rail to its ends, m; as in Barto, Sutton and Anderson (1983)."""
PERIOD = 0.04
"""Time between two actions, s."""
_PHYSICS_STEP = 0.004

_XML = f"""
<mujoco>
  <option timestep="{_PHYSICS_STEP}" integrator="RK4"/>
  <worldbody>
    <body name="cart">
      <joint name="rail" type="slide" axis="1 0 0" limited="true" range="-{RAIL} {RAIL}" damping="0.1"/>
      <geom type="box" size="0.2 0.1 0.05" mass="1" contype="0" conaffinity="0"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0" damping="0.002"/>
        <geom type="capsule" fromto="0 0 0 0 0 1" size="0.02" mass="0.1" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="rail" ctrlrange="-{STRONGEST} {STRONGEST}" ctrllimited="true"/></actuator>
</mujoco>
"""


class CartPole:
    """State, float64[4]: the cart's position, m, and speed; the pole's angle, rad (0: upright), and rate."""

    def __init__(self) -> None:
        self._model = mujoco.MjModel.from_xml_string(_XML)
        self._data = mujoco.MjData(self._model)
        self.put(np.array([0.0, 0.0, math.pi, 0.0]))

    @property
    def state(self) -> NDArray[np.float64]:
        """The present state."""
        (x, angle), (speed, turning) = self._data.qpos, self._data.qvel
        return np.array([x, speed, angle, turning])

    def put(self, state: NDArray[np.float64]) -> None:
        """Set the state."""
        self._data.qpos[:], self._data.qvel[:] = state[[0, 2]], state[[1, 3]]
        mujoco.mj_forward(self._model, self._data)

    def act(self, action: NDArray[np.float64]) -> NDArray[np.float64]:
        """Push the cart with a force, float64[1], N, for a period; return the next state."""
        self._data.ctrl[0] = action[0]
        mujoco.mj_step(self._model, self._data, round(PERIOD / _PHYSICS_STEP))
        return self.state


def transitions(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Random states with forces, float64[count, 5], and the states a period later, float64[count, 4]."""
    random = np.random.default_rng(seed)
    limits = np.array([RAIL - 0.2, 4.0, math.pi, 10.0, STRONGEST])
    questions = random.uniform(-limits, limits, (count, 5))
    system = CartPole()
    answers = np.empty((count, 4))
    for question, answer in zip(questions, answers, strict=True):
        system.put(question[:4])
        answer[:] = system.act(question[4:])
    return questions, answers
