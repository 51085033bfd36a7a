"""EngineMatrix: a real matrix on engines of this process; the matrix nodes have theirs in a driver.

It differs from `edgetpu_driver.matrix.matmul.MatMul` in the part of the product that the host may take over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.errors import InputError
from edgetpu_driver.matrix import product_passes
from edgetpu_driver.matrix.dense_model import DenseModel
from edgetpu_driver.matrix.engine_tiles import EngineTiles
from edgetpu_driver.matrix.product_passes import RealProduct
from edgetpu_driver.matrix.scaling import OUTPUT_HEADROOM
from edgetpu_driver.matrix.tile_plan import MatrixPlan, PlanOptions, make_plan
from edgetpu_matrix.reservoir.host_subspace import HostSubspace


class EngineMatrix:
    """A matrix, float [rows, columns], of any size on one or more engines that run the same Dense model.

        matrix = EngineMatrix([CpuEngine("dense_256.tflite")])
        matrix.set(weights)
        outputs = matrix.multiply(vector).outputs

    It owns the engines: nothing else may set their weights. With as many engines as tiles each keeps its
    weights; with fewer they are replaced for every product.

    headroom: output range over the RMS of outputs, see `matrix.scaling`. rescale_rows: rewrite the model's
    multipliers with the weights. host_directions: number of principal directions of the vectors that are
    multiplied on the host, see `HostSubspace`; 0: none. Raises InputError without any engine, and
    ModelUnsupportedError for a model that does anything but multiply by one matrix.
    """

    def __init__(
        self,
        engines: Sequence[SwappableEngine],
        *,
        headroom: float = OUTPUT_HEADROOM,
        rescale_rows: bool = False,
        host_directions: int = 0,
    ) -> None:
        if not engines:
            raise InputError("expected at least one engine; got none")
        self._tiles = EngineTiles(engines)
        self._dense = DenseModel.of_engine(engines[0])
        self._options = PlanOptions(rescale_rows, headroom=headroom)
        self._directions = host_directions
        self._plan: MatrixPlan | None = None
        self._host_subspace: HostSubspace | None = None

    @property
    def effective(self) -> NDArray[np.float64]:
        """The matrix after rounding, [rows, columns]. InputError before `set`."""
        return self._planned().effective

    def set(self, matrix: ArrayLike, changed: Collection[int] | None = None) -> None:
        """Set the matrix to multiply by.

        changed: the rows that differ from the previous matrix; None for all. Raises InputError for anything
        but a matrix of finite numbers, DeviceError.
        """
        plan = make_plan(matrix, self._dense, self._options, self._plan, changed)
        self._tiles.hold(plan)
        self._plan = plan
        self._host_subspace = HostSubspace(plan.effective, self._directions) if self._directions else None

    def multiply(self, vector: ArrayLike, passes: int = 1) -> RealProduct:
        """Multiply the matrix by a vector, float [columns].

        passes: repetitions that average out the rounding of inputs and outputs, at most 64. Raises InputError
        for another shape or number of passes and for values that are not finite as float32, DeviceError.
        """
        plan = self._planned()
        whole = plan.checked_vector(vector)
        if self._host_subspace is None:
            return self._multiply(plan, whole, passes)
        split = self._host_subspace.split(whole)
        product = self._multiply(plan, split.residual, passes)
        return replace(
            product,
            outputs=product.outputs + split.product,
            inputs=product.inputs + (whole - split.residual),
        )

    def _planned(self) -> MatrixPlan:
        if self._plan is None:
            raise InputError("expected a matrix; none has been set yet")
        return self._plan

    def _multiply(self, plan: MatrixPlan, vector: NDArray[np.float64], passes: int) -> RealProduct:
        return self._tiles.run(product_passes.multiply(plan, vector[np.newaxis], passes)).only
