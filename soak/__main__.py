"""The command line `python -m soak`, run at the root of the repository."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from edgetpu_driver.cli import number_arguments
from edgetpu_driver.node_kit.process.stop_signals import stop_signals
from measured_figures.row import line, write_rows
from soak.report_figures import rows
from soak.run import Options, run
from soak.run_evaluation import Findings
from soak.run_setup import HOME

OUTPUT = Path(__file__).resolve().parents[1] / "build" / "soak"
EXIT_FINDING, EXIT_INTERRUPTED = 1, 130
_LEAST_SPEED = 5.0
"""Ratio of simulated to real time below which a run in simulated time is given up as too slow."""
_SHOWN = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the figures and write the report; return 0 if a complete run reached all limits."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.output.is_dir() and any(options.output.iterdir()) and not (options.output / HOME).is_dir():
        parser.error(f"{options.output} contains other files, and a run replaces it; choose another --output")
    for number in stop_signals():  # the processes of a run have their own sessions, and would go on
        signal.signal(number, signal.default_int_handler)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    seconds = 3600 * options.hours / _LEAST_SPEED if options.hours else 60 * options.minutes
    how_long = f"{options.hours:g} h simulated" if options.hours else f"{options.minutes:g} min"
    print(f"[soak] {how_long}, {options.sticks} sticks, seed {seed}", flush=True)
    try:
        found = run(
            Options(seconds, options.hours, options.sticks, seed, options.output.resolve(), options.calm)
        )
    except KeyboardInterrupt:
        print("[soak] interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return _report(found, f"{how_long}, {options.sticks} sticks", seed, options.output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m soak",
        description=(
            "Run the whole graph on virtual sticks under faults and restarts, check every result, and write "
            "figures and a report."
        ),
    )
    parser.add_argument("--minutes", type=_duration, default=10.0, help="duration in real time (default: 10)")
    parser.add_argument(
        "--hours",
        type=_duration_or_none,
        default=0.0,
        help="duration in simulated time instead, with one image a second",
    )
    parser.add_argument(
        "--sticks", type=number_arguments.positive, default=3, help="number of virtual sticks (default: 3)"
    )
    parser.add_argument(
        "--seed",
        type=number_arguments.seed,
        help="seed of an earlier run, to repeat its faults (default: random)",
    )
    parser.add_argument("--calm", action="store_true", help="without faults, for comparison")
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, help="directory to write, replaced (default: build/soak)"
    )
    return parser


def _duration(text: str) -> float:
    """Read a duration above 0."""
    return number_arguments.number(text, lambda value: value > 0, "a number above 0")


def _duration_or_none(text: str) -> float:
    """Read a duration; 0 means none."""
    return number_arguments.number(text, lambda value: value >= 0, "a number, 0 or more")


def _report(found: Findings, case: str, seed: int, output: Path) -> int:
    from soak.process_samples import write_samples
    from soak.report import write_report

    figures = list(rows(found, case))
    for row in figures:
        print(line(row))
    for text in _details(found):
        print(f"[soak] {text}")
    write_samples(output / "samples.csv", found.samples)
    write_rows(output / "results.json", figures)
    write_report(output / "report.html", found, figures, f"{case}, seed {seed}")
    missed = [row.metric for row in figures if not row.reached]
    print(
        f"[soak] {found.checked} results checked, {found.wrong} wrong, {found.lost} lost, "
        f"{found.restarts} restarts; {output / 'report.html'}"
    )
    if missed:
        print(f"[soak] missed: {', '.join(missed)}")
        return EXIT_FINDING
    return EXIT_INTERRUPTED if found.is_interrupted else 0


def _details(found: Findings) -> list[str]:
    """The first findings of each kind, as lines of text."""
    from soak.outcome_journal import Outcome

    begin = found.time.begin
    wrong = [note for note in found.notes if note.outcome is Outcome.WRONG]
    texts = [f"wrong at {note.end - begin:.1f} s: {note.detail}" for note in wrong[:_SHOWN]]
    texts += [
        f"{note.outcome.value} without a cause at {note.begin - begin:.1f} s: {note.detail}"
        for note in found.unexplained[:_SHOWN]
    ]
    texts += [f"silent: {text}" for text in found.silences[:_SHOWN]]
    texts += [f"without a right result: {node}" for node in found.unproven]
    return texts


if __name__ == "__main__":
    sys.exit(main())
