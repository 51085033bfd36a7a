"""The command line of the accuracy measurements: `python -m accuracy [AREA ..]` in the repository root.

An area is an algorithm, a kind of model, or the virtual stick. It is a module of accuracy.areas with
`measure(engine, quick)`, which returns its rows, and `plots(engine)`, which returns matplotlib figures of the
results and of the worst cases.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from accuracy.recorded_figures import read_record, regressions, write_record
from accuracy.report import write_report
from measured_figures.row import Row, line, write_rows
from testdata import MissingFileError

AREAS = ("spot", "flow", "looming", "compass", "pattern", "stick", "poses", "vision", "learner", "policy")
OUTPUT = Path(__file__).resolve().parents[1] / "build" / "accuracy"
EXIT_WORSE, EXIT_INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write figures and report.

    The exit code is 0 even if limits are missed. With --compare, it is 1 if a figure is worse than recorded.
    """
    options = _options(arguments)
    rows: list[Row] = []
    worse: list[str] = []
    record = read_record() if options.compare else {}
    pictures: dict[str, object] = {}
    try:
        for area in options.areas or AREAS:
            print(f"[accuracy] measuring {area} on {options.engine}", file=sys.stderr, flush=True)
            module = importlib.import_module(f"accuracy.areas.{area}")
            try:
                measured = module.measure(options.engine, options.quick)
            except MissingFileError as error:
                print(f"[accuracy] {area} is left out: {error}", file=sys.stderr)
                continue
            for row in measured:
                print(line(row), flush=True)
            if options.compare:
                worse += [f"{area}: {each}" for each in regressions(measured, record[area])]
            rows += measured
            pictures[area] = module.plots(options.engine)
    except KeyboardInterrupt:
        print("[accuracy] interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    write_rows(options.output / "results.json", rows)
    write_report(options.output / "report.html", rows, pictures, options.engine)
    if options.record:
        write_record(rows)
    limited = [row for row in rows if row.reach is not None]
    reached = f"{sum(row.reached for row in limited)} of {len(limited)} figures reached"
    print(f"[accuracy] {reached}; {options.output}")
    for each in worse:
        print(f"[accuracy] worse: {each}", file=sys.stderr)
    return EXIT_WORSE if worse else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse and check the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m accuracy",
        description=(
            "Measure the accuracy of the algorithms on images with known ground truth, print the figures, "
            "and write them with a report of the worst cases."
        ),
    )
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"{', '.join(AREAS)} (default: all)")
    parser.add_argument(
        "--engine",
        choices=("cpu", "virtual"),
        default="cpu",
        help="what runs the graphs: LiteRT (default) or a virtual stick",
    )
    parser.add_argument("--quick", action="store_true", help="fewer scenes")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="with --quick on the cpu: compare with the recorded figures; the exit code is 1 if one is worse",
    )
    parser.add_argument(
        "--record", action="store_true", help="with --quick on the cpu: record the figures for --compare"
    )
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, help="directory to write to (default: build/accuracy)"
    )
    options = parser.parse_args(arguments)
    unknown = [area for area in options.areas if area not in AREAS]
    if unknown:
        parser.error(f"expected areas of {', '.join(AREAS)}; got {', '.join(unknown)}")
    if (options.record or options.compare) and not (options.quick and options.engine == "cpu"):
        parser.error("--record and --compare need --quick and --engine cpu")
    return options


if __name__ == "__main__":
    sys.exit(main())
