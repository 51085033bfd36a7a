"""Documentation names files and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
SOURCES = [
    path.relative_to(ROOT).as_posix()
    for folder in ROOT.iterdir()
    if folder.is_dir() and not folder.name.startswith(".") and folder.name not in ("build", "install", "log")
    for path in folder.rglob("*")
]
FILE_NAME = re.compile(r"`([\w./]+\.(?:py|sh|yaml|xml|csv))`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
LINK_TO_HEADING = re.compile(r"\]\(([^)#:]*)#([^)]*)\)")
CODE_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def headings(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    titles = HEADING.findall(CODE_BLOCK.sub("", page.read_text()))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def title(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_a_page_names_source_files_that_exist(page: Path) -> None:
    names = FILE_NAME.findall(page.read_text())
    missing = {
        name
        for name in names
        if not (ROOT / name).exists() and not any(source.endswith(f"/{name}") for source in SOURCES)
    }
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_the_relative_links_of_a_page_lead_to_files(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_the_links_of_a_page_to_headings_lead_to_headings(page: Path) -> None:
    targets = LINK_TO_HEADING.findall(page.read_text())
    pages = {name: page.parent / name if name else page for name, _ in targets}
    assert [target for target in targets if target[1] not in headings(pages[target[0]])] == []
