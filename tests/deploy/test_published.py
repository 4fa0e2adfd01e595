"""The place of publication is one setting, which manifests, chart and documents follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deploy.manifests import DEPLOY, ROOT
from tests.support.koordinator_arguments import COMMANDS
from tools import published
from tools.deploy_files import CHART, settings

MANIFESTS = [path for path in DEPLOY.rglob("*.yaml") if CHART not in path.parents]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    place = "registry.example.com:5000/pykoord"
    places = {"images": place, "packages": "https://example.com/packages"}
    monkeypatch.setattr(published, "registry", lambda: places)
    return place


def test_each_program_has_an_image() -> None:
    assert set(published.IMAGES) == COMMANDS.keys()


@pytest.mark.parametrize("path", published.PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_say_what_is_published(path: str) -> None:
    assert published.page(path.read_text()) == path.read_text(), "run: python tools/deploy_files.py"


def test_manifests_name_this_versions_images() -> None:
    for path in MANIFESTS:
        text = path.read_text()
        assert published.manifest(text) == text, f"{path}: run: python tools/deploy_files.py"


def test_another_place_is_everywhere(elsewhere: str) -> None:
    readme = published.page((ROOT / "README.md").read_text())
    assert f"Images are published in `{elsewhere}`." in readme
    assert "Packages are published at `https://example.com/packages`." in readme
    steps = published.page((ROOT / "docs/replace-koordinator.md").read_text())
    assert f"koordlet={published.image('koordlet')}\n" in steps
    assert f"newName: {elsewhere}/koordlet}}" in steps
    manifest = published.manifest((DEPLOY / "base/koordlet/daemonset.yaml").read_text())
    assert f"image: {published.image('koordlet')} # chart: " in manifest
    # Of the chart it is one value, by which all are found.
    assert settings({"a": manifest})["koordlet.image"].default == published.image("koordlet", "")
    assert published.manifest(manifest) == manifest
