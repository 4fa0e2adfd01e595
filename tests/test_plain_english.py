"""Docstrings name things instead of asking for them, and some words are not used."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.test_layout import ROOT

QUESTION = re.compile(
    r' *"""(?:(?:about|after|at|by|for|from|in|of|on|to|under|until|with) )?'
    r"(?:who|whose|whom|what|which|whether|how|where|when|why)(?:ever)?\b",
    re.IGNORECASE,
)
WORDS = re.compile(r"(?<![A-Za-z])(?:(?:un)?told|troubles?|facts?)(?![A-Za-z])", re.IGNORECASE)
FOLDERS = {
    path.relative_to(ROOT).parts[0]
    for path in ROOT.glob("[a-z]*/**/*.py")
    if "build" not in path.parts
}
# A column of a database that proxies in use have; and this file.
EXEMPT = {
    "proxy/koord_proxy/store.py",
    "tests/proxy/test_store.py",
    "tests/test_plain_english.py",
}


def _lines(folder: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if "build" not in path.parts and not name.endswith("_pb2.py"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                yield f"{name}:{number}", line


@pytest.mark.parametrize("folder", sorted(FOLDERS - {"tests"}))
def test_no_docstring_opens_with_a_question_word(folder: str) -> None:
    assert [f"{place}: {line}" for place, line in _lines(folder) if QUESTION.match(line)] == []


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_words_that_are_not_used(folder: str) -> None:
    assert [
        f"{place}: {line}"
        for place, line in _lines(folder)
        if WORDS.search(line) and place.partition(":")[0] not in EXEMPT
    ] == []
