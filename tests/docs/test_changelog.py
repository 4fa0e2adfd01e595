"""The files of which a release makes its part of the changelog."""

from __future__ import annotations

import re
import tomllib

from tests.docs.words import ROOT

FOLDER = ROOT / "changelog.d"


def test_each_file_is_a_list_of_a_kind() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    kinds = "|".join(kind["directory"] for kind in project["tool"]["towncrier"]["type"])
    for file in sorted(FOLDER.iterdir()):
        assert re.fullmatch(rf"\+[a-z0-9.-]+\.({kinds})\.md", file.name), file.name
        first, *others = file.read_text().splitlines()
        assert not first.startswith(("-", " ")), f"{file.name}: the dash of an item comes by itself"
        wrong = [line for line in others if not line.startswith(("  ", "- "))]
        assert wrong == [], f"{file.name}: further lines of an item begin with two spaces"
