"""The results of the nodes: rows, counts and latencies, and their summary."""

from __future__ import annotations

import json
import math
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

Row = dict[str, float]


@dataclass
class NodeResults:
    """All results of one node in a replay."""

    name: str
    topic: str
    images: int = 0
    """Number of images shown to the node."""
    malformed: int = 0
    """Number of these images that the node refused as malformed."""
    rows: list[Row] = field(default_factory=list)
    """In the order of the images."""
    latencies: list[float] = field(default_factory=list)
    """Seconds from image to result, one for each row."""
    fault: str = ""
    """What the node said when it refused the last malformed image."""

    @property
    def dropped(self) -> int:
        """Number of well-formed images without a result."""
        return self.images - self.malformed - len(self.rows)

    @property
    def valid(self) -> int:
        """Number of valid results."""
        return sum(row["valid"] is True for row in self.rows)

    def latency_ms(self, percentile: float) -> float:
        """Return a percentile of the latency in ms; NaN without results."""
        return float(np.percentile(self.latencies, percentile)) * 1e3 if self.latencies else math.nan


class Collector:
    """Matches the results of one node with the images that they belong to, by stamp."""

    def __init__(self, name: str, topic: str) -> None:
        self.name = name
        self.topic = topic
        self._sent: list[float] = []
        self._unanswered: dict[int, deque[int]] = defaultdict(deque)
        """Images by stamp, oldest first."""
        self._answers: dict[int, tuple[Row, float]] = {}

    def sent(self, stamp_ns: int, now: float) -> int:
        """Record that an image was published at `now`, s; return its number."""
        self._unanswered[stamp_ns].append(len(self._sent))
        self._sent.append(now)
        return len(self._sent) - 1

    def received(self, stamp_ns: int, values: Row, now: float) -> bool:
        """Record a result at `now`, s; return False if it belongs to no image."""
        if not self._unanswered.get(stamp_ns):
            return False
        image = self._unanswered[stamp_ns].popleft()
        seconds, nanoseconds = divmod(stamp_ns, 1_000_000_000)
        row: Row = {"stamp": seconds + nanoseconds * 1e-9, "stamp_ns": stamp_ns, **values}
        self._answers[image] = (row, now - self._sent[image])
        return True

    def answered(self, image: int) -> bool:
        """Whether the image of that number has a result."""
        return image in self._answers

    @property
    def missing(self) -> int:
        """Number of images that have no result yet."""
        return len(self._sent) - len(self._answers)

    def results(self, malformed: int = 0, fault: str = "") -> NodeResults:
        """Return the results so far; see NodeResults for malformed and fault."""
        ordered = [self._answers[image] for image in sorted(self._answers)]
        rows, latencies = [row for row, _ in ordered], [latency for _, latency in ordered]
        return NodeResults(self.name, self.topic, len(self._sent), malformed, rows, latencies, fault)


def summary(backend: str, bag: Path, nodes: Mapping[str, NodeResults]) -> dict[str, object]:
    """Compose the content of summary.json."""
    return {
        "backend": backend,
        "bag": str(bag),
        "nodes": {
            name: {
                "topic": node.topic,
                "images": node.images,
                "results": len(node.rows),
                "dropped": node.dropped,
                "malformed": node.malformed,
                "latency_ms": {"p50": node.latency_ms(50), "p99": node.latency_ms(99)},
                "rows": node.rows,
            }
            for name, node in nodes.items()
        },
    }


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write strict JSON: NaN and infinities become null."""
    path.write_text(json.dumps(_strict(content), indent=1, allow_nan=False) + "\n")


def _strict(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    return value
