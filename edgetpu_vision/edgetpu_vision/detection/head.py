"""The base class of detector heads."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from edgetpu_vision.algorithm import Outputs
from edgetpu_vision.detection.instance_masks import Prototypes
from edgetpu_vision.detection.non_maximum_suppression import Candidates


class Head(ABC):
    """Decodes the outputs of one kind of detector."""

    classes: int | None = None
    """Number of classes; None if unknown."""
    suppressed: bool = False
    """Whether the model itself has suppressed overlapping boxes."""
    per_class: bool = True
    """Whether only boxes of the same class compete."""
    iou_threshold: float = 0.5
    """Overlap, intersection over union, above which the box with the lower score is dropped."""
    wanted: NDArray[np.intp] | None = None
    """Numbers of the classes to find; `candidates` may leave out others. None for all."""
    prototypes: Prototypes | None = None
    """The output for masks of instance segmentation; with it, candidates have mask weights."""
    most: int | None = None
    """Largest number of boxes that the model's own post-processing gives; None: unlimited."""

    @abstractmethod
    def candidates(self, outputs: Outputs, min_score: float) -> Candidates:
        """The boxes with at least this score; OutputsError for outputs of other names or shapes."""
