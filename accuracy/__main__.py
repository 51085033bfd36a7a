"""The command line of the accuracy measurements: `python -m accuracy [EYE ..]` at the root of the repository.

An eye, or the stick all of them see with, is a module of this package with `measure(engine, quick)`, which
gives its rows, and `plots(engine)`, which gives pictures of the results and of the worst cases.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from accuracy.recorded_figures import write_record
from accuracy.report import write_report
from measured_figures.row import Row, line, write_rows

EYES = ("spot", "flow", "looming", "compass", "pattern", "stick")
OUTPUT = Path(__file__).resolve().parents[1] / "build" / "accuracy"
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write the figures and the report; the exit code is 0 whether or not all are reached."""
    parser = argparse.ArgumentParser(prog="python -m accuracy", description=__doc__.partition("\n")[0])
    parser.add_argument("eyes", nargs="*", metavar="EYE", help=f"of {', '.join(EYES)}; all by default")
    parser.add_argument("--engine", choices=("cpu", "virtual"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer scenes, for a first look")
    parser.add_argument(
        "--record", action="store_true", help="with --quick on cpu: put the figures on record for the tests"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: build/accuracy")
    options = parser.parse_args(arguments)
    unknown = [eye for eye in options.eyes if eye not in EYES]
    if unknown:
        parser.error(f"no eye {', '.join(unknown)}; there are {', '.join(EYES)}")
    if options.record and not (options.quick and options.engine == "cpu"):
        parser.error("--record is for --quick on cpu, which is what the tests repeat")
    rows: list[Row] = []
    pictures: dict[str, object] = {}
    try:
        for eye in options.eyes or EYES:
            print(f"[accuracy] measuring {eye} on {options.engine}", file=sys.stderr, flush=True)
            module = importlib.import_module(f"accuracy.{eye}")
            measured = module.measure(options.engine, options.quick)
            for row in measured:
                print(line(row), flush=True)
            rows += measured
            pictures[eye] = module.plots(options.engine)
    except KeyboardInterrupt:
        print("[accuracy] interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    write_rows(options.output / "results.json", rows)
    write_report(options.output / "report.html", rows, pictures, options.engine)
    if options.record:
        write_record(rows)
    asked = [row for row in rows if row.reach is not None]
    print(f"[accuracy] {sum(row.reached for row in asked)} of {len(asked)} figures reached; {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
