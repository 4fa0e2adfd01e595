"""The scheduler's frame and its state name no feature."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "scheduler" / "koord_scheduler"
WORDS = re.compile(r"quota|reservation|device|numa|network", re.IGNORECASE)


def lines(folder: str) -> Iterator[str]:
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            yield f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"


@pytest.mark.parametrize("folder", ["framework", "state", "io"])
def test_it_names_no_feature(folder: str) -> None:
    assert [line for line in lines(folder) if WORDS.search(line)] == []
