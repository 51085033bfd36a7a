"""The accuracy report: one self-contained HTML page with the figures, plots and worst cases."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from measured_figures.row import Row

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Section:
    """One area in the report."""

    name: str
    rows: tuple[Row, ...]
    pictures: tuple[tuple[str, str], ...]
    """Title and data URL of each picture."""

    @property
    def reached(self) -> int:
        """Number of figures within their limit."""
        return sum(row.reached for row in self.rows if row.reach is not None)

    @property
    def limited(self) -> int:
        """Number of figures with a limit."""
        return sum(row.reach is not None for row in self.rows)


def write_report(path: Path, rows: Sequence[Row], pictures: Mapping[str, Any], engine: str) -> None:
    """Write the page; `pictures`: for each area, matplotlib figures by title."""
    sections = [
        Section(
            area,
            tuple(row for row in rows if row.area == area),
            tuple((title, _data_url(figure)) for title, figure in figures.items()),
        )
        for area, figures in pictures.items()
    ]
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.get_template("report.html.j2").render(sections=sections, engine=engine)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page)


def _data_url(figure: Any) -> str:
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=90, bbox_inches="tight")
    return f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"
