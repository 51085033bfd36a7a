"""Place recognition on engines of this process: a database and a search in one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_matrix.engine_matrix import EngineMatrix
from edgetpu_matrix.place_recognition.place_database import PlaceDatabase
from edgetpu_matrix.place_recognition.place_search import HEADROOM, Place, PlaceSearch


class PlaceRecognition:
    """Finds the places most similar to an embedding.

        places = PlaceRecognition([CpuEngine("dense_256.tflite")])
        places.database.add("kitchen", embedding)
        best = places.find(embedding, 3)

    engines: see EngineMatrix. Changes of the database reach the engines with the next search.
    """

    def __init__(self, engines: Sequence[SwappableEngine], database: PlaceDatabase | None = None) -> None:
        self.database = PlaceDatabase() if database is None else database
        self._search = PlaceSearch(self.database)
        self._matrix = EngineMatrix(engines, headroom=HEADROOM)

    def find(self, embedding: ArrayLike, count: int = 1) -> tuple[Place, ...]:
        """At most `count` places, best first; none if none is known.

        embedding: float [dimension], not all zeros. Raises InputError for any other, DeviceError.
        """
        query = self.database.unit_vector(embedding)
        if not len(self.database):
            return ()
        if not self._search.is_current:
            self._matrix.set(*self._search.rows())
        product = self._matrix.multiply(query.astype(np.float64))
        return self._search.find(query, product, self._matrix.effective, count)
