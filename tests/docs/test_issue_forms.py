"""Forms for issues: what they have to have, and commands that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_advice import _exists
from tests.docs.words import ROOT
from tests.support.koordinator_arguments import COMMANDS

FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
KINDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}
forms = pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)


def questions(path: Path) -> dict[str, dict[str, Any]]:
    """By id; all but texts have one."""
    body = [part for part in yaml.safe_load(path.read_text())["body"] if part["type"] != "markdown"]
    found = {part["id"]: part for part in body}
    assert len(found) == len(body)
    return found


@forms
def test_hosts_accept_the_form(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert form.keys() == {"name", "description", "labels", "body"}
    assert {part["type"] for part in form["body"]} <= KINDS
    for question in questions(path).values():
        assert question["attributes"]["label"]
        assert question.keys() <= {"type", "id", "attributes", "validations"}


@forms
def test_it_asks_the_doctor_and_names_commands_that_there_are(path: Path) -> None:
    assert "koordctl doctor --json" in questions(path)["doctor"]["attributes"]["label"]
    commands = re.findall(r"`(koordctl [^`]+)`", " ".join(path.read_text().split()))
    assert [command for command in commands if not _exists(command)] == []


def test_a_bug_is_in_one_of_the_programs() -> None:
    [bug] = (path for path in FORMS if path.stem == "bug")
    parts = questions(bug)["part"]["attributes"]["options"]
    assert COMMANDS.keys() <= set(parts)
