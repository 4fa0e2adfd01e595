"""docs/descheduler/configuration.md has all that a configuration may say."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from koord_descheduler.config.component_config import (
    DeschedulerConfiguration,
    ProfileConfiguration,
    ProfilePlugins,
)
from koord_descheduler.config.descheduler_config import read_descheduler_config
from koord_descheduler.config.plugin_catalogue import own_plugins

FOLDER = Path(__file__).parents[2] / "docs/descheduler"
PAGE = (FOLDER / "configuration.md").read_text()
PAGES = "\n".join(page.read_text() for page in sorted(FOLDER.glob("*.md")))
WITHOUT_MEANING = {"apiVersion", "kind", "enableProfiling", "enableContentionProfiling"}
SHORT = {
    "maxMigratingPerNamespace": "…PerNamespace",
    "maxMigratingPerNode": "…PerNode",
    "maxNoOfPodsToEvictPerNamespace": "…PerNamespace",
    "maxNoOfPodsToEvictPerWorkload": "…PerWorkload",
    "maxNoOfPodsToEvictTotal": "…Total",
}


def fields(kind: type[msgspec.Struct]) -> set[str]:
    names = {field.encode_name for field in msgspec.structs.fields(kind)} - WITHOUT_MEANING
    return {SHORT.get(name, name) for name in names}


def words(page: str) -> set[str]:
    return set(re.findall(r"[\w…]+", page))


@pytest.mark.parametrize("kind", [DeschedulerConfiguration, ProfileConfiguration, ProfilePlugins])
def test_fields(kind: type[msgspec.Struct]) -> None:
    assert fields(kind) <= words(PAGE)


@pytest.mark.parametrize("name", sorted(own_plugins()))
def test_plugins_and_their_arguments(name: str) -> None:
    assert {name, *fields(own_plugins()[name].Args)} <= words(PAGES)


def test_the_example_is_a_configuration() -> None:
    [text, *_] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    [profile] = read_descheduler_config(text).profiles
    assert profile.names["balance"] == ("LowNodeLoad",)
