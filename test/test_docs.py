"""Documentation names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = [
    path.relative_to(ROOT).as_posix()
    for folder in ROOT.iterdir()
    if folder.is_dir() and not folder.name.startswith(".") and folder.name not in ("build", "install", "log")
    for path in folder.rglob("*")
]
FILE_NAME = re.compile(r"`([\w./]+\.(?:py|sh|yaml|xml|csv))`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_source_files_that_exist(page: Path) -> None:
    names = FILE_NAME.findall(page.read_text())
    missing = {
        name
        for name in names
        if not (ROOT / name).exists() and not any(source.endswith(f"/{name}") for source in SOURCES)
    }
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_relative_links_of_a_page_lead_to_files(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
