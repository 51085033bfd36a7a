"""The command line `python -m fuzz`, run at the root of the repository."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from edgetpu_driver.cli import number_arguments
from fuzz.harness import Totals, fuzz
from fuzz.targets import Target, targets

GRAPH, THREADS, SEQUENCES = "graph", "threads", "sequences"
_SECONDS_BETWEEN_LINES = 10.0
EXIT_FINDING, EXIT_INTERRUPTED = 1, 130

_Outcome = TypeVar("_Outcome")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz every target; returns 0 if nothing was found."""
    parser = _parser()
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    chosen = [target for target in targets() if options.target in (None, target.name)]
    if not chosen and options.target not in (GRAPH, THREADS, SEQUENCES):
        names = ", ".join(target.name for target in targets())
        parser.error(f"no target {options.target}; there are {names}, {GRAPH}, {THREADS}, {SEQUENCES}")
    print(
        f"[fuzz] {options.inputs} inputs, seed {seed}; again with: python -m fuzz --seed {seed}", flush=True
    )
    whole = sum(target.share for target in chosen)
    try:
        shares = [(target, options.inputs * target.share / whole) for target in chosen if options.inputs]
        found = [_run(target, max(1, round(share)), seed) for target, share in shares]
        if options.sequences and options.target in (None, SEQUENCES):
            found.append(_run_sequences(options.sequences, seed))
        if options.orders and options.target in (None, THREADS):
            found.append(_run_threads(options.orders, seed))
        if options.messages and options.target in (None, GRAPH):
            found.append(_run_graph(options.messages, seed))
    except KeyboardInterrupt:
        print("[fuzz] interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(f"[fuzz] {sum(found)} findings")
    return EXIT_FINDING if any(found) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description=(
            "Feed damaged files to the parsers, damaged messages to the nodes and odd images to the "
            "perception algorithms, run the threads of the driver in many orders, and report "
            "every unexpected behaviour."
        ),
    )
    parser.add_argument(
        "--inputs",
        type=number_arguments.whole,
        default=24_000,
        help="number of inputs to all parsers together (default: 24000); 0, here and below: none of these",
    )
    parser.add_argument(
        "--messages",
        type=number_arguments.whole,
        default=6_000,
        help="number of messages to all nodes together (default: 6000)",
    )
    parser.add_argument(
        "--orders",
        type=number_arguments.whole,
        default=3_000,
        help="number of orders in which the driver's threads run (default: 3000)",
    )
    parser.add_argument(
        "--sequences",
        type=number_arguments.whole,
        default=100,
        help="number of image sequences for the perception algorithms (default: 100)",
    )
    parser.add_argument(
        "--seed", type=number_arguments.seed, help="seed of an earlier run to repeat (default: random)"
    )
    parser.add_argument(
        "--target",
        help=f"fuzz only this target: a parser, or {GRAPH} (the nodes), {THREADS} (the threads of the "
        f"driver), {SEQUENCES} (the perception algorithms)",
    )
    return parser


def _run(target: Target, inputs: int, seed: int) -> bool:
    """Fuzz one target and report; returns whether something was found."""
    totals = Totals()
    begin = time.monotonic()
    try:
        fuzz(target, inputs, seed, totals, _counter(target.name, inputs))
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        _say(target.name, f"FINDING {type(error).__name__}: {error}\n{notes[:2000]}")
        return True
    _say(
        target.name,
        f"{totals.inputs} inputs, {totals.refused} refused, slowest {1e3 * totals.slowest:.0f} ms, "
        f"at most {totals.largest:.1f} times its size in memory, {time.monotonic() - begin:.0f} s",
    )
    for outcome, count in target.outcomes.most_common():
        _say(target.name, f"{count} {outcome}")
    return False


def _run_sequences(count: int, seed: int) -> bool:
    """Show sequences of images to the perception algorithms; returns whether something was found."""
    from fuzz.image_sequences import run_sequence

    begin = time.monotonic()
    results = _run_seeds(SEQUENCES, seed, count, run_sequence)
    findings = count - len(results)
    _say(
        SEQUENCES,
        f"{count} sequences of images, {sum(results)} results, {findings} findings, "
        f"{time.monotonic() - begin:.0f} s",
    )
    return findings > 0


def _run_threads(orders: int, seed: int) -> bool:
    """Run the threads of the driver's host in many orders; returns whether something was found."""
    from fuzz.interleavings.scenario import run_seed, write_files

    begin = time.monotonic()
    with TemporaryDirectory() as directory:
        write_files(Path(directory))
        outcomes = _run_seeds(THREADS, seed, orders, lambda number: run_seed(number, Path(directory)))
    findings = orders - len(outcomes)
    switches = sum(each.switches for each in outcomes)
    answered, calls = sum(each.answered for each in outcomes), sum(each.calls for each in outcomes)
    _say(
        THREADS,
        f"{orders} orders of {switches} switches, {answered} of {calls} requests got a result, the others "
        f"an error, {findings} findings, {time.monotonic() - begin:.0f} s",
    )
    return findings > 0


def _run_seeds(name: str, first: int, count: int, run: Callable[[int], _Outcome]) -> list[_Outcome]:
    """Run `count` seeds and print findings; return the outcomes of the seeds without a finding."""
    advance, outcomes = _counter(name, count), []
    for seed in range(first, first + count):
        try:
            outcomes.append(run(seed))
        except AssertionError as error:
            _say(name, f"FINDING {str(error)[:4000]}")
        advance()
    return outcomes


def _run_graph(messages: int, seed: int) -> bool:
    """Fuzz the running nodes and report; returns whether something was found."""
    try:
        from fuzz.ros_graph import GraphFuzzer
    except ImportError as error:
        _say(GRAPH, f"skipped, it needs ROS 2: {error}")
        return False
    begin = time.monotonic()
    with GraphFuzzer(seed) as fuzzer:
        fuzzer.run(messages, _counter(GRAPH, messages))
        report = fuzzer.report
    for finding in report.findings:
        _say(GRAPH, f"FINDING {finding}")
    _say(
        GRAPH,
        f"{report.nodes} nodes, {report.endpoints} topics and services, {report.messages} messages, "
        f"{report.raw_requests} damaged requests, {report.answers} of {report.requests} readable ones "
        f"answered, {len(report.watched)} nodes still make results, {time.monotonic() - begin:.0f} s",
    )
    return bool(report.findings)


def _say(name: str, text: str) -> None:
    """Print a line about a target at once, also into a pipe."""
    print(f"[fuzz] {name}: {text}", flush=True)


def _counter(name: str, total: int) -> Callable[[], None]:
    done, last_line = 0, time.monotonic()

    def advance() -> None:
        nonlocal done, last_line
        done += 1
        if time.monotonic() - last_line >= _SECONDS_BETWEEN_LINES:
            last_line = time.monotonic()
            _say(name, f"{done} of {total}")

    return advance


if __name__ == "__main__":
    sys.exit(main())
