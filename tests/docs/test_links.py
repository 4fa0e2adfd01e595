"""Documents point at what is there, in lines that a diff can show."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTH = 120
CELL = 150
"""Longer texts of a table belong into a list below it."""
SKIPPED = {".venv", ".pytest_cache", ".mypy_cache", ".hypothesis", ".git", "node_modules", ".cache"}


@functools.cache
def documents() -> tuple[Path, ...]:
    """All of them; what is skipped is not walked through: each worker collects this module."""
    found: list[Path] = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = (name for name in folders if name not in SKIPPED)
        found += (Path(folder, name) for name in files if name.endswith(".md"))
    return tuple(sorted(found))


def written() -> Iterator[Path]:
    """Documents that people write; programs write results."""
    for page in documents():
        if page.parent.name != "results":
            yield page


def anchors(page: Path) -> set[str]:
    """As they are made of headings on the usual hosts."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", documents(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{target} is not there"
        if anchor:
            assert anchor in anchors(linked), f"{target}: no such heading"


def prose(page: Path) -> Iterator[str]:
    """Lines of a page without blocks of code and tables."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    yield from (line for line in text.splitlines() if not line.lstrip().startswith("|"))


def breaks(line: str) -> bool:
    """A line can be broken between words, but not in code."""
    return " " in re.sub(r"`[^`]*`", "code", re.sub(r"^ *([-*]|\d+\.) +", "", line)).strip()


@pytest.mark.parametrize("page", list(written()), ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short(page: Path) -> None:
    assert [line for line in prose(page) if len(line) > WIDTH and breaks(line)] == []


def table_cells(page: Path) -> Iterator[str]:
    """Cells of tables that people write, with links as they are shown."""
    text = re.sub(r"<!-- (flags|settings): .*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    for line in shown.splitlines():
        if line.lstrip().startswith("|"):
            yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", line))


@pytest.mark.parametrize("page", list(written()), ids=lambda page: str(page.relative_to(ROOT)))
def test_cells_are_short(page: Path) -> None:
    assert [cell for cell in table_cells(page) if len(cell) > CELL and breaks(cell)] == []


def test_make_targets_are_those_of_the_makefile() -> None:
    there = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Make targets")[2]
    written = set(re.findall(r"^\| `make ([\w-]+)`", table, re.MULTILINE))
    assert written == there - {"help"}


def test_the_architecture_names_every_folder() -> None:
    table = (
        (ROOT / "docs" / "architecture.md")
        .read_text()
        .partition("## Folders")[2]
        .partition("\n## ")[0]
    )
    written = set(re.findall(r"^\| \[(\w+)\]", table, re.MULTILINE))
    with_readme = {path.parent.name for path in ROOT.glob("[a-z]*/README.md")}
    assert with_readme <= written


def test_commands_in_the_first_screen() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    first_screen = lines[:24]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)


MODULES = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("[a-z]*/**/*.py")]
EXAMPLES = {"oomscore", "swap", "calm_swap", "acme", "x"}
"""Modules that readers are shown how to write."""


@pytest.mark.parametrize("page", list(written()), ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_readers_are_sent_to_are_there(page: Path) -> None:
    named = re.findall(r"`((?:[\w.]+/)+\w+\.py)[`:]", page.read_text())
    missing = [one for one in named if not any(module.endswith(f"/{one}") for module in MODULES)]
    assert [one for one in missing if Path(one).stem.removeprefix("test_") not in EXAMPLES] == []
