"""Pages in Chinese say what those in English say: the same commands, links, tables and headings."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.words import ROOT, all_rows

PAIRS = {
    ROOT / "README.md": ROOT / "README.zh-CN.md",
    **{
        ROOT / "docs" / name: ROOT / "docs/zh-CN" / name
        for name in ("concepts.md", "faq.md", "quick-start.md", "replace-koordinator.md")
    },
}
ENGLISH = {chinese: english for english, chinese in PAIRS.items()}
_BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
pairs = pytest.mark.parametrize(
    ("english", "chinese"), PAIRS.items(), ids=lambda page: str(page.relative_to(ROOT))
)


def test_every_page_in_chinese_has_its_original() -> None:
    found = {*ROOT.glob("*.zh-CN.md"), *ROOT.glob("docs/zh-CN/**/*.md")}
    assert found == set(PAIRS.values())


def blocks(page: Path) -> list[str]:
    """Blocks of code, without the comments, which are translated."""
    return [re.sub(r" +# .*", "", block) for block in _BLOCK.findall(page.read_text())]


def prose(page: Path) -> str:
    return _BLOCK.sub("", page.read_text())


def spans(page: Path) -> Counter[str]:
    """Commands, names and values within the text."""
    return Counter(" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(page)))


def targets(page: Path) -> Counter[str]:
    """Links, as those of the page in English: translated headings have anchors of their own."""
    found: Counter[str] = Counter()
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if "://" in target:
            found[target] += 1
        elif linked in PAIRS or linked in ENGLISH:
            found[f"{ENGLISH.get(linked, linked)}#{bool(anchor)}"] += 1
        else:
            found[f"{linked}#{anchor}"] += 1
    return found


def headings(page: Path) -> list[int]:
    """The level of each."""
    return [len(marks) for marks in re.findall(r"^(#+) ", prose(page), re.MULTILINE)]


@pairs
def test_blocks_of_code_are_the_same(english: Path, chinese: Path) -> None:
    assert blocks(chinese) == blocks(english)


@pairs
def test_commands_and_names_in_the_text_are_the_same(english: Path, chinese: Path) -> None:
    assert spans(chinese) == spans(english)


@pairs
def test_links_are_the_same(english: Path, chinese: Path) -> None:
    assert targets(chinese) == targets(english)


@pairs
def test_headings_and_steps_are_the_same(english: Path, chinese: Path) -> None:
    assert headings(chinese) == headings(english)
    steps = re.compile(r"^ *(-|\d+\.) ", re.MULTILINE)
    assert steps.findall(prose(chinese)) == steps.findall(prose(english))


@pairs
def test_tables_have_the_same_rows(english: Path, chinese: Path) -> None:
    first = [row[0] for row in all_rows(english.read_text())]
    assert [row[0] for row in all_rows(chinese.read_text())] == first
