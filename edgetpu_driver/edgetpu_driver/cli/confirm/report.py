"""The report of `edgetpu confirm`, as JSON and as text."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgetpu_driver.cli.confirm.outcome import Outcome
from edgetpu_driver.cli.confirm.run import Course
from edgetpu_driver.cli.confirm.step import Step
from edgetpu_driver.cli.confirm.trial_stick import Opening
from edgetpu_driver.cli.terminal import pairs, table, to_json
from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.files.file_access import read_file, write_file

_FORMAT = 1
"""Format version of the report file. Files of other versions are not continued."""
_MOST_SHOWN = 6
"""Maximum number of a step's values in the text."""


def make_report(
    course: Course, steps: Sequence[Step], opening: Opening | None, backend: str, earlier: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of both files. earlier: the report to continue; its other steps are kept."""
    new = {each.step: asdict(each) for each in course.outcomes}
    old = {each["step"]: each for each in earlier.get("outcomes", ())}
    known = {**old, **new}
    return {
        "format": _FORMAT,
        "suite": _version(),
        "backend": backend,
        "computer": f"{platform.machine()}, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "stick": _stick(opening) or earlier.get("stick", {}),
        "outcomes": [known[step.name] for step in steps if step.name in known],
        "not_run": [step.name for step in steps if step.name not in known],
        "resume_from": course.resume_from,
        "interrupted": course.interrupted,
    }


def _is_outcome(found: Any) -> bool:
    """Whether an entry of a report has what `text` shows of it."""
    if not isinstance(found, dict) or not isinstance(found.get("values"), dict):
        return False
    return all(isinstance(found.get(each), str) for each in ("step", "outcome", "subject", "detail"))


def read_report(report: Path, backend: str) -> dict[str, Any]:
    """The earlier report to continue, as JSON; empty if there is none.

    ModelFormatError if the file is not a report, or one of another backend.
    """
    path = _files(report)[0]
    try:
        content = json.loads(read_file(path))
        if content["format"] != _FORMAT or not isinstance(content.get("stick", {}), dict):
            raise ValueError("another format")
        if not all(map(_is_outcome, content["outcomes"])):
            raise ValueError("other outcomes")
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFormatError(
            f"{path} is not a report of this command ({error}); name another one with --report"
        ) from None
    if content.get("backend") != backend:
        raise ModelFormatError(
            f"expected a report of the backend {backend}; {path} is one of {content.get('backend')}: name "
            "another one with --report"
        )
    return dict(content)


def write_report(report: Mapping[str, Any], path: Path) -> tuple[Path, Path]:
    """Write path.json and path.txt."""
    paths = _files(path)
    write_file(paths[0], f"{to_json(report)}\n".encode())
    write_file(paths[1], f"{text(report)}\n".encode())
    return paths


def _files(report: Path) -> tuple[Path, Path]:
    return report.with_name(f"{report.name}.json"), report.with_name(f"{report.name}.txt")


def text(report: Mapping[str, Any], options: str = "") -> str:
    """The report as text.

    options: of the command that continues it. Leave them out of a file: it is sent in, and options may hold
    private names.
    """
    stick = report["stick"]
    facts = {
        "suite": report["suite"],
        "computer": f"{report['computer']}, Python {report['python']}",
        "stick": ", ".join(f"{name} {value}" for name, value in stick.items()) or "not opened",
    }
    rows = [(each["outcome"], each["step"], each["subject"], _detail(each)) for each in report["outcomes"]]
    parts = [pairs(facts)]
    if rows:
        parts.append(table(rows, ("outcome", "step", "assumption", "detail")))
    if report["not_run"]:
        parts.append(f"not run: {', '.join(report['not_run'])}")
    if report["resume_from"]:
        reason = (
            "Interrupted. To continue"
            if report["interrupted"]
            else "The stick no longer answers. Unplug it, plug it in, then"
        )
        parts.append(f"{reason}: edgetpu confirm --from {report['resume_from']}{options}")
    return "\n".join(parts)


def _detail(outcome: Mapping[str, Any]) -> str:
    if outcome["detail"]:
        return str(outcome["detail"])
    values = outcome["values"]
    if len(values) > _MOST_SHOWN:
        return f"{len(values)} values in the JSON file"
    return ", ".join(f"{name} {_short(value)}" for name, value in values.items())


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name} {_short(each)}" for name, each in value.items()) + ")"
    if isinstance(value, list | tuple):
        return "; ".join(map(_short, value)) or "none"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _stick(opening: Opening | None) -> dict[str, Any]:
    if opening is None:
        return {}
    info = opening.info
    return {
        "bus_path": info.bus_path,
        "Mbit/s": info.link_speed,
        "firmware": info.firmware,
        "clock": info.clock_preset.value,
    }


def _version() -> str:
    try:
        return version("edgetpu_driver")
    except PackageNotFoundError:
        return "unknown"


def counted(outcomes: Sequence[Mapping[str, Any]] | Sequence[Outcome]) -> dict[str, int]:
    """The number of steps that were confirmed, refuted and skipped."""
    kinds = [each["outcome"] if isinstance(each, Mapping) else each.outcome for each in outcomes]
    return {kind: kinds.count(kind) for kind in ("confirmed", "refuted", "skipped")}
