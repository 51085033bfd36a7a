"""The place recognition node: subscribes to embeddings and publishes ~/match; services edit the places."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Header

from edgetpu_driver.errors import EdgeTpuError, InputError, UnavailableError
from edgetpu_driver.node_kit.base_node import fill_answer
from edgetpu_driver.node_kit.clients.matmul_in_progress import ProductResult
from edgetpu_driver.node_kit.clients.matrix_client import RETRY_PERIOD
from edgetpu_driver.node_kit.deferred_service import Respond, create_deferred_service
from edgetpu_driver.node_kit.executor.work_queue import WorkQueue
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.printable_text import counted
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_driver.node_kit.state_paths import directory_setting
from edgetpu_matrix.nodes.matrix_node import MatrixNode
from edgetpu_matrix.nodes.matrix_parameters import (
    INPUT_FIELDS,
    INPUT_TYPE,
    matrix_settings,
)
from edgetpu_matrix.nodes.result_rows import match_row
from edgetpu_matrix.place_recognition.place_confidence import ScoreWindow, is_sure
from edgetpu_matrix.place_recognition.place_database import PlaceDatabase, signed_root
from edgetpu_matrix.place_recognition.place_search import HEADROOM, Place, PlaceSearch
from edgetpu_msgs.msg import PlaceMatch
from edgetpu_msgs.srv import AddPlace, FindPlace, ListPlaces, LoadFile, RemovePlace, SaveFile

WAITING_QUERIES = 8
"""Number of embeddings and service calls that may wait for the driver before the oldest is dropped."""

COMPARED = 8
"""Least number of places to search for where min_margin or window is used, even if `count` is lower."""

FIND_PATIENCE = 5.0
"""Seconds for which ~/find_place waits for a driver that is still starting, or coming back."""

_SETTINGS = (
    Setting("input_type", "edgetpu_msgs/msg/Embedding", INPUT_TYPE.description),
    Setting("input_fields", "vector", INPUT_FIELDS.description),
    Setting(
        "min_score",
        0.8,
        "A match whose cosine is lower is published as not valid.",
        -1.0,
        1.0,
        read_only=False,
    ),
    Setting(
        "min_margin",
        0.0,
        "Least lead of a valid match: the difference of its cosine and that of the second place.",
        0.0,
        2.0,
        read_only=False,
    ),
    Setting(
        "window",
        0.0,
        "Time over which the cosines of each place are averaged, s, by the stamps. 0: every embedding counts "
        "by itself.",
        0.0,
        60.0,
        read_only=False,
    ),
    Setting(
        "root",
        False,
        "Whether the square root of each value of an embedding counts, its sign kept, so that a few large "
        "ones do not outweigh the others. Saved places keep what they were added with.",
    ),
    Setting("count", 5, "Number of places in a message on ~/match.", 1, 1000, read_only=False),
    Setting("capacity", 4096, "Maximum number of stored embeddings.", 1, 65536),
    directory_setting("places"),
    Setting("places", "", "Name of a file of places to start with. Empty: none."),
)

Done = Callable[[tuple[Place, ...] | EdgeTpuError], None]


@dataclass(frozen=True)
class _Query:
    unit: NDArray[np.float32]
    count: int
    done: Done
    patient_until: float = 0.0
    """Time on the steady clock until which the query waits for the driver."""


class PlaceRecognitionNode(MatrixNode):
    """Publishes the known place that an embedding is most similar to."""

    settings = matrix_settings(*_SETTINGS)
    results = ResultTopic(
        "match",
        PlaceMatch,
        (ResultValue("score", "similarity of the best place", ""),),
        row=match_row,
        word="label",
    )
    files = "places"

    def __init__(self, **options: Any) -> None:
        super().__init__("place_recognition", **options)
        with self.destroyed_on_error():
            self._set_up()

    def _set_up(self) -> None:
        self._database = PlaceDatabase(capacity=self.values["capacity"])
        if self.values["places"]:
            try:
                path = self.file(self.values["places"])
                self._database = PlaceDatabase.load(path, self.values["capacity"])
            except EdgeTpuError as error:
                raise FatalError(f"parameter 'places': {error}") from None
        self._search = PlaceSearch(self._database)
        self._window = ScoreWindow()
        self._last: NDArray[np.float64] | None = None
        self._queue = WorkQueue[_Query](self._start, WAITING_QUERIES, self._on_dropped)
        self._matches = self.create_publisher(PlaceMatch, "~/match", QOS_RESULTS)
        self.create_service(AddPlace, "~/add_place", self._on_add)
        self.create_service(RemovePlace, "~/remove_place", self._on_remove)
        self.create_service(ListPlaces, "~/list_places", self._on_list)
        create_deferred_service(self, FindPlace, "~/find_place", self._on_find)
        self.create_service(SaveFile, "~/save_places", self._on_save)
        self.create_service(LoadFile, "~/load_places", self._on_load)
        self.client = self.make_client(HEADROOM)
        # An embedding that is not valid has no direction: it is no place, but not malformed either.
        self.subscribe(
            "embedding", self._on_embedding, skips=lambda message: not getattr(message, "valid", True)
        )
        self.create_steady_timer(RETRY_PERIOD, self._queue.resume)
        self.start_diagnostics()

    def on_ready(self) -> None:
        """Process the queries that waited; the rows may be rounded differently from before."""
        self._search.forget_rounding()
        self._queue.resume()

    def _on_embedding(self, header: Header, embedding: NDArray[np.float64]) -> None:
        unit = self._database.unit_vector(self._weighed(embedding))
        self._last = embedding

        def done(found: tuple[Place, ...] | EdgeTpuError) -> None:
            if isinstance(found, EdgeTpuError):
                self.on_failure(found)
            else:
                self._publish(header, found)

        assert self.client is not None
        if self._queue.present is None and len(self._queue) and self.client.problem:
            done(UnavailableError(self.client.problem))  # do not push out queries that wait for the driver
        else:
            self._queue.offer(_Query(unit, self._searched, done))

    def _weighed(self, embedding: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return an embedding as it is compared, with the square roots of its values if `root` is set."""
        return signed_root(embedding) if self.values["root"] else embedding

    @property
    def _searched(self) -> int:
        """Number of places to find for an embedding."""
        count: int = self.values["count"]
        compares = self.values["min_margin"] > 0 or self.values["window"] > 0
        return max(count, COMPARED) if compares else count

    def _publish(self, header: Header, places: tuple[Place, ...]) -> None:
        if self.values["window"] > 0:
            stamp = header.stamp.sec + header.stamp.nanosec / 1e9
            places = self._window.mean(stamp, places, self.values["window"])
        valid = is_sure(places, self.values["min_score"], self.values["min_margin"])
        places = places[: self.values["count"]]
        self._matches.publish(
            PlaceMatch(
                header=header,
                valid=valid,
                label=places[0].label if valid else "",
                labels=[place.label for place in places],
                scores=[place.score for place in places],
            )
        )
        self.counters.results += 1

    def _on_dropped(self, query: _Query) -> None:
        self.counters.dropped += 1
        query.done(UnavailableError(f"more than {WAITING_QUERIES} queries wait for the driver"))

    def _start(self, query: _Query) -> bool:
        """Begin a search; False if the rows have to be set on the driver first."""
        assert self.client is not None
        database = self._database
        if not len(database):
            return self._end(query, ())
        if len(query.unit) != database.dimension:
            return self._end(
                query, InputError(f"expected {database.dimension} values; got {len(query.unit)}")
            )
        if not self._search.is_current:
            self.client.set_matrix(*self._search.rows())
        if self.client.problem:
            if self.client.refusal is None and time.monotonic() < query.patient_until:
                return False
            return self._end(query, self.client.refusal or UnavailableError(self.client.problem))
        return self.client.multiply(query.unit.astype(np.float64), self._on_product)

    def _end(self, query: _Query, found: tuple[Place, ...] | EdgeTpuError) -> bool:
        try:
            query.done(found)
        except Exception as error:  # which must not hold up the queries that follow
            self.on_callback_failure("match", error)
        self._queue.finished()
        return True

    def _on_product(self, result: ProductResult) -> None:
        assert self.client is not None
        query = self._queue.present
        assert query is not None
        product = result.product
        if product is None:
            assert result.error is not None
            is_lost = isinstance(result.error, UnavailableError) and not self.client.ready
            if is_lost and time.monotonic() < query.patient_until:
                self._queue.put_back()  # `on_ready` or the timer continues it
            else:
                self._end(query, result.error)
        elif not self._search.is_current:
            # The places have changed in the meantime.
            self._queue.put_back()
            self._queue.resume()
        else:
            self._end(query, self._search.find(query.unit, product, self.client.effective, query.count))

    def _on_add(self, request: AddPlace.Request, response: AddPlace.Response) -> AddPlace.Response:
        database = self._database
        try:
            embedding = np.asarray(request.embedding, np.float64)
            if not embedding.size:
                if self._last is None:
                    raise InputError(
                        "expected an embedding, in the request or on the topic; there is none yet"
                    )
                embedding = self._last
            database.add(request.label, self._weighed(embedding), request.replace)
            self._window.clear()
        except EdgeTpuError as error:
            fill_answer(response, error)
        else:
            fill_answer(response, None)
        response.places, response.embeddings = len(database.places), len(database)
        return response

    def _on_remove(
        self, request: RemovePlace.Request, response: RemovePlace.Response
    ) -> RemovePlace.Response:
        try:
            response.removed = self._database.remove(request.label)
            self._window.clear()
        except EdgeTpuError as error:
            fill_answer(response, error)
        else:
            fill_answer(response, None)
        response.places, response.embeddings = len(self._database.places), len(self._database)
        return response

    def _on_list(self, _request: ListPlaces.Request, response: ListPlaces.Response) -> ListPlaces.Response:
        counts = self._database.places
        response.labels, response.embeddings = list(counts), list(counts.values())
        response.dimension = self._database.dimension
        response.success = True
        return response

    def _on_find(self, request: FindPlace.Request, respond: Respond) -> None:
        def done(found: tuple[Place, ...] | EdgeTpuError) -> None:
            if isinstance(found, EdgeTpuError):
                respond(fill_answer(FindPlace.Response(), found))
            else:
                labels, scores = [place.label for place in found], [place.score for place in found]
                respond(FindPlace.Response(success=True, labels=labels, scores=scores))

        try:
            unit = self._database.unit_vector(self._weighed(np.asarray(request.embedding, np.float64)))
        except EdgeTpuError as error:
            done(error)
        else:
            patient_until = time.monotonic() + FIND_PATIENCE
            self._queue.offer(_Query(unit, request.count or 1, done, patient_until))

    def _on_save(self, request: SaveFile.Request, response: SaveFile.Response) -> SaveFile.Response:
        try:
            path = self.file(request.name)
            self._database.save(path)
        except EdgeTpuError as error:
            return fill_answer(response, error)
        response.path = str(path)
        return fill_answer(response, None, counted(len(self._database), "embedding"))

    def _on_load(self, request: LoadFile.Request, response: LoadFile.Response) -> LoadFile.Response:
        try:
            path = self.file(request.name)
            self._database = PlaceDatabase.load(path, self.values["capacity"])
        except EdgeTpuError as error:
            return fill_answer(response, error)
        self._search = PlaceSearch(self._database)
        self._window.clear()
        response.path = str(path)
        return fill_answer(response, None, counted(len(self._database), "embedding"))
