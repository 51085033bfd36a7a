"""Command line of the fuzzing: `python -m fuzz` at the root of the repository."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.harness import Tally, fuzz
from fuzz.targets import Target, targets

GRAPH, THREADS, SEQUENCES = "graph", "threads", "sequences"
_SECONDS_BETWEEN_LINES = 10.0
EXIT_FINDING, EXIT_INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz every target; returns 0 if nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=24_000, help="of the parsers in all (default: 24000)")
    parser.add_argument("--messages", type=int, default=6_000, help="to the nodes in all (default: 6000)")
    parser.add_argument(
        "--orders", type=int, default=3_000, help="in which the driver's threads are run (default: 3000)"
    )
    parser.add_argument(
        "--sequences", type=int, default=100, help="of images to the perception algorithms (default: 100)"
    )
    parser.add_argument("--seed", type=int, help="repeat an earlier run; a new one by default")
    parser.add_argument(
        "--target",
        help=f"only this one; {GRAPH}: the nodes, {THREADS}: the driver's threads, "
        f"{SEQUENCES}: the perception algorithms",
    )
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
        found = [_run(target, round(options.inputs * target.share / whole), seed) for target in chosen]
        if options.target in (None, SEQUENCES):
            found.append(_run_sequences(options.sequences, seed))
        if options.target in (None, THREADS):
            found.append(_run_threads(options.orders, seed))
        if options.target in (None, GRAPH):
            found.append(_run_graph(options.messages, seed))
    except KeyboardInterrupt:
        print("[fuzz] interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(f"[fuzz] {sum(found)} findings")
    return EXIT_FINDING if any(found) else 0


def _run(target: Target, inputs: int, seed: int) -> bool:
    """Fuzz one target and report; returns whether something was found."""
    tally = Tally()
    begin = time.monotonic()
    try:
        fuzz(target, inputs, seed, tally, _counter(target.name, inputs))
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        print(f"[fuzz] {target.name}: FINDING {type(error).__name__}: {error}\n{notes[:2000]}", flush=True)
        return True
    print(
        f"[fuzz] {target.name}: {tally.inputs} inputs, {tally.refused} refused, "
        f"slowest {1e3 * tally.slowest:.0f} ms, at most {tally.largest:.1f} times its size in memory, "
        f"{time.monotonic() - begin:.0f} s",
        flush=True,
    )
    for outcome, count in target.outcomes.most_common():
        print(f"[fuzz] {target.name}: {count} {outcome}", flush=True)
    return False


def _run_sequences(count: int, seed: int) -> bool:
    """Show sequences of images to the perception algorithms; returns whether something was found."""
    from fuzz.image_sequences import run_sequence

    advance, begin = _counter(SEQUENCES, count), time.monotonic()
    results = findings = 0
    for number in range(seed, seed + count):
        try:
            results += run_sequence(number)
        except AssertionError as error:
            findings += 1
            print(f"[fuzz] {SEQUENCES}: FINDING {error}", flush=True)
        advance()
    print(
        f"[fuzz] {SEQUENCES}: {count} sequences of images, {results} results, {findings} findings, "
        f"{time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return bool(findings)


def _run_threads(orders: int, seed: int) -> bool:
    """Run the threads of the driver's host in many orders; returns whether something was found."""
    from fuzz.interleavings.scenario import run_seed, write_files

    advance, begin = _counter(THREADS, orders), time.monotonic()
    calls = answered = switches = findings = 0
    with TemporaryDirectory() as directory:
        write_files(Path(directory))
        for number in range(seed, seed + orders):
            try:
                outcome = run_seed(number, Path(directory))
            except AssertionError as error:
                findings += 1
                print(f"[fuzz] {THREADS}: FINDING {str(error)[:4000]}", flush=True)
            else:
                calls, answered = calls + outcome.calls, answered + outcome.answered
                switches += outcome.switches
            advance()
    print(
        f"[fuzz] {THREADS}: {orders} orders of {switches} switches, {answered} of {calls} requests got a "
        f"result, the others an error, {findings} findings, {time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return bool(findings)


def _run_graph(messages: int, seed: int) -> bool:
    """Fuzz the running nodes and report; returns whether something was found."""
    try:
        from fuzz.ros_graph import GraphFuzzer
    except ImportError as error:
        print(f"[fuzz] {GRAPH}: skipped, it needs ROS 2: {error}")
        return False
    begin = time.monotonic()
    with GraphFuzzer(seed) as fuzzer:
        fuzzer.run(messages, _counter(GRAPH, messages))
        tally = fuzzer.tally
    for finding in tally.findings:
        print(f"[fuzz] {GRAPH}: FINDING {finding}", flush=True)
    print(
        f"[fuzz] {GRAPH}: {tally.nodes} nodes, {tally.endpoints} topics and services, {tally.messages} "
        f"messages, {tally.raw_requests} damaged requests, {tally.answers} of {tally.requests} readable ones "
        f"answered, {len(tally.watched)} nodes still make results, {time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return bool(tally.findings)


def _counter(name: str, total: int) -> Callable[[], None]:
    done, said = 0, time.monotonic()

    def advance() -> None:
        nonlocal done, said
        done += 1
        if time.monotonic() - said >= _SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            print(f"[fuzz] {name}: {done} of {total}", flush=True)

    return advance


if __name__ == "__main__":
    sys.exit(main())
