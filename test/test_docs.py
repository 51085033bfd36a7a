"""Documentation names files, headings and launch arguments that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from edgetpu_driver.node_kit.middleware.enclaves import ENCLAVES

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


def launch_arguments() -> dict[str, str]:
    """The arguments that bringup.launch.py declares, with their defaults; importing it needs `launch`."""
    tree = ast.parse((ROOT / "launch" / "bringup.launch.py").read_text())
    declared = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ARGUMENTS"
    )
    assert isinstance(declared, ast.Tuple)
    rows = [each.elts for each in declared.elts if isinstance(each, ast.Tuple)]
    imported = {"ENCLAVES": ENCLAVES}
    in_installed_folder = "[config/edgetpu.yaml](config/edgetpu.yaml)"
    return {
        ast.literal_eval(name): ast.literal_eval(default)
        if isinstance(default, ast.Constant)
        else imported.get(ast.unparse(default), in_installed_folder)
        for name, default, *_ in rows
    }


def test_the_readme_lists_the_arguments_of_the_launch_file() -> None:
    rows = (ROOT / "README.md").read_text().split("| argument | default | meaning |")[1].split("\n\n")[0]
    cells = [row.strip("|").split("|") for row in rows.splitlines()[2:]]
    documented = {cell[0].strip(" `"): cell[1].strip(" `") for cell in cells}
    assert documented == launch_arguments()
