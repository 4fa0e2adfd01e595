"""The threat model names tests and files that are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.words import ROOT, pages

PAGE = pages("security")
PACKAGES = "service|proxy|koordlet|host|kube|serving|model|hooks|manager|koordctl"


def named_tests(file: Path) -> Iterator[str]:
    for one in ast.parse(file.read_text()).body:
        inside = one.body if isinstance(one, ast.ClassDef) else [one]
        for test in inside:
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{one.name}::{test.name}" if isinstance(one, ast.ClassDef) else test.name


def test_each_test_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", PAGE)
    assert named
    there = {file: set(named_tests(ROOT / file)) for file, _ in named}
    assert [f"{file}::{test}" for file, test in named if test not in there[file]] == []


def test_each_file_is_there() -> None:
    named = re.findall(rf"`((?:{PACKAGES}|tests|deploy)/[\w/.]+)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
