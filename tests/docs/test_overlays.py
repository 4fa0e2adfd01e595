"""Overlays that pages have readers write fit what deploy/ has: their paths, targets and flags."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest
import yaml

from tests.deploy.manifests import everything
from tests.docs.test_advice import FLAGS, PAGES
from tests.docs.words import ROOT

_OVERLAY = re.compile(
    r"^( *)cat > ([\w-]+)/kustomization\.yaml <<'EOF'\n(.*?)^ *EOF$", re.MULTILINE | re.DOTALL
)


class Overlay(NamedTuple):
    """A kustomization in a folder beside ``deploy``."""

    page: Path
    folder: str
    content: dict[str, Any]


def _overlays() -> Iterator[Overlay]:
    for page in PAGES:
        for _, folder, text in _OVERLAY.findall(page.read_text()):
            yield Overlay(page, folder, yaml.safe_load(dedent(text)))


overlays = pytest.mark.parametrize(
    "overlay", list(_overlays()), ids=lambda one: f"{one.page.relative_to(ROOT)}:{one.folder}"
)


@overlays
def test_folders_are_there(overlay: Overlay) -> None:
    paths = [*overlay.content["resources"], *overlay.content.get("components", [])]
    for path in paths:
        found = path.replace("../pykoord/", "../")
        assert (ROOT / overlay.folder / found / "kustomization.yaml").resolve().is_file(), path


@overlays
def test_patches_meet_objects_and_flags(overlay: Overlay) -> None:
    objects = {(kind, name): given for (kind, _, name), given in everything().items()}
    for patch in overlay.content.get("patches", []):
        given = yaml.safe_load(patch["patch"])
        if isinstance(given, dict) and "$patch" not in given:
            assert (given["kind"], given["metadata"]["name"]) in objects
        elif isinstance(given, list) and (name := patch["target"].get("name")):
            for step in given:
                _step(objects[patch["target"]["kind"], name], step)
        named = re.findall(r'"(--[a-z][a-z-]+)', json.dumps(given))
        assert set(named) <= FLAGS


def _step(given: Any, step: dict[str, Any]) -> None:
    """Follow the path of an operation as the API does: each part but a new one is there."""
    *parts, last = step["path"].strip("/").split("/")
    for part in parts:
        given = given[int(part)] if isinstance(given, list) else given[part]
    if step["op"] == "add":
        assert last == "-" or isinstance(given, dict)
        assert last != "-" or isinstance(given, list)
    else:
        assert last in given
