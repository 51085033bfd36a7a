"""The command line of the benchmarks: `python -m bench [AREA ..]` at the root of the repository.

An area is a module of bench.areas with a function `rows()` that measures and yields its rows; a new one only
has to be added to AREAS. A row compares some work with a baseline that is measured in the same run.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.instructions import is_counted
from measured_figures.row import Row, line, write_rows

AREAS = (
    "matrix_nodes",
    "formats",
    "link",
    "startup",
    "isolation",
    "perception",
    "pose",
    "vision",
    "learner",
    "dashboard",
    "five_nodes",
    "fairness",
    "weights",
    "policy",
    "sticks",
    "pipelines",
    "detector_with_perception",
)
LONG_AREAS = ("dashboard", "five_nodes", "fairness", "sticks", "detector_with_perception")
"""Areas whose `rows()` has a parameter `quick`."""

RESULTS = Path(__file__).resolve().parents[1] / "build" / "bench" / "results.json"
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write the figures; the exit code is 0 even if limits are missed."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the processes of a running graph
    rows: list[Row] = []
    try:
        for area in options.areas or AREAS:
            for row in _measure(area, options.quick):
                print(line(row), flush=True)
                rows.append(row)
    except KeyboardInterrupt:
        print("[bench] interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    write_rows(options.output, rows)
    limited = [row for row in rows if row.reach is not None]
    missing = "" if is_counted() else "; perf counts no instructions here"
    reached = f"{sum(row.reached for row in limited)} of {len(limited)} figures reached"
    print(f"[bench] {reached}{missing}; {options.output}")
    return 0


def _measure(area: str, quick: bool) -> Iterator[Row]:
    """Measure an area."""
    print(f"[bench] measuring {area}", file=sys.stderr, flush=True)
    measure = importlib.import_module(f"bench.areas.{area}").rows
    yield from measure(quick=quick) if area in LONG_AREAS else measure()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse and check the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=(
            "Measure the speed of the suite relative to baselines that are measured in the same run, print "
            "the figures, and write them to a JSON file."
        ),
    )
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"{', '.join(AREAS)} (default: all)")
    parser.add_argument(
        "--output", type=Path, default=RESULTS, help="JSON file to write (default: build/bench/results.json)"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"measure {', '.join(LONG_AREAS)} for seconds instead of minutes"
    )
    options = parser.parse_args(arguments)
    unknown = [area for area in options.areas if area not in AREAS]
    if unknown:
        parser.error(f"unknown area {', '.join(unknown)}; known areas: {', '.join(AREAS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
