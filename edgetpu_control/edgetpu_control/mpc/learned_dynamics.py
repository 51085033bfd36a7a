"""A learned model of a system: how its state changes in one period, by a network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_control.learned.network import Network
from edgetpu_control.learned.training import TrainingPlan, train
from edgetpu_driver.errors import InputError

Array = NDArray[np.float64]


class LearnedDynamics:
    """Predicts the next states: the states plus the changes that a network gives.

    angles: indices of the states that the network takes as sine and cosine, so that it sees no jump at a
    full turn. Their values stay unwrapped.
    """

    def __init__(self, states: int, angles: tuple[int, ...] = ()) -> None:
        """InputError for an angle that is not the index of a state."""
        if any(not 0 <= each < states for each in angles):
            raise InputError(f"expected angles of 0 to {states - 1}; got {list(angles)}")
        self.states, self.angles = states, angles
        self._plain = [each for each in range(states) if each not in angles]

    def inputs(self, questions: Array) -> Array:
        """Return the network's inputs, float64[count, k], for states and actions, float64[count, n + m]."""
        angles = questions[:, list(self.angles)]
        actions = questions[:, self.states :]
        return np.concatenate([questions[:, self._plain], np.sin(angles), np.cos(angles), actions], axis=1)

    def learn(self, questions: ArrayLike, answers: ArrayLike, plan: TrainingPlan | None = None) -> Network:
        """Train with states and actions, [count, n + m], and the states that followed, [count, n]."""
        asked, followed = np.asarray(questions, np.float64), np.asarray(answers, np.float64)
        changes = followed - asked[:, : self.states]
        turned = changes[:, list(self.angles)]
        # Measured angles end at -pi and pi; the shorter way is meant.
        changes[:, list(self.angles)] = np.arctan2(np.sin(turned), np.cos(turned))
        return train(self.inputs(asked), changes, plan)

    def predict(self, network: Callable[[Array], Array], questions: Array) -> Array:
        """Return the states that follow, float64[count, n]; network: computes changes from `inputs`."""
        return self.after(questions, network(self.inputs(questions)))

    def after(self, questions: Array, changes: Array) -> Array:
        """Return the states that follow, float64[count, n], from the changes that the network gave."""
        found: Array = questions[:, : self.states] + changes
        return found
