"""Each right to write in the manifests is on the page of permissions, in the program's section."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security" / "permissions.md"
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))
HEADINGS = {
    "koordlet": "koordlet",
    "koord-manager": "The manager",
    "koord-scheduler": "The scheduler",
    "koord-descheduler": "The descheduler",
}
READS = frozenset({"get", "list", "watch"})


def written() -> Iterator[tuple[str, str]]:
    """Program and resource, of each that a program may write."""
    for path in sorted((ROOT / "deploy").glob("base/rbac/*")) + sorted(
        ROOT.glob("deploy/**/rbac.yaml")
    ):
        documents = [found for found in yaml.safe_load_all(path.read_text()) if found]
        rules = {
            (found["kind"], found["metadata"]["name"]): found.get("rules") for found in documents
        }
        for binding in documents:
            if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
                continue
            role = binding["roleRef"]
            for subject in binding["subjects"]:
                for rule in rules.get((role["kind"], role["name"])) or ():
                    if set(rule["verbs"]) - READS:
                        yield from ((subject["name"], name) for name in rule.get("resources", ()))


@pytest.mark.parametrize("program", HEADINGS)
def test_all_that_a_program_may_write_is_explained(program: str) -> None:
    section = SECTIONS[HEADINGS[program]].lower()
    resources = {resource for name, resource in written() if name == program}
    assert resources
    assert [name for name in sorted(resources) if name.removesuffix("/status") not in section] == []
