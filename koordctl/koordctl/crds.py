"""``koordctl crds``: the definitions of the custom resources, shown or installed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import yaml
from koord_kube.definitions.catalogue import DEFINITIONS
from koord_kube.protocol.resources import DEFINITIONS as KIND

from koordctl import cluster_client
from koordctl.columns import table

if TYPE_CHECKING:
    from koord_kube.client import Client

Json = Mapping[str, Any]

_ADDED = {"conversion": {"strategy": "None"}}


class InstallResult(StrEnum):
    """Result of installing a definition."""

    CREATED = "created"
    UPDATED = "updated"
    SAME = "unchanged"
    NEWER = "not updated: it has versions that this koordctl does not know"


def add_install(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl crds install``."""
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    cluster_client.add_arguments(parser)


def run_show(arguments: argparse.Namespace) -> Iterable[str]:
    """All definitions, as YAML that ``kubectl apply`` takes, or as JSON."""
    if arguments.json:
        return [json.dumps(DEFINITIONS, indent=2)]
    # Definitions share parts, which YAML would write once and refer to.
    whole = json.loads(json.dumps(DEFINITIONS))
    text = yaml.safe_dump_all(whole, sort_keys=False, allow_unicode=True)
    return text.rstrip("\n").split("\n")


def run_install(arguments: argparse.Namespace) -> Iterable[str]:
    """Create what is not there, update what is otherwise. Raises AskError."""
    dry = arguments.dry_run

    async def install(api: Client) -> list[tuple[str, InstallResult]]:
        return [
            (definition["metadata"]["name"], await _put(api, definition, dry))
            for definition in DEFINITIONS
        ]

    done = cluster_client.ask_cluster(arguments, install)
    if arguments.json:
        return [json.dumps(dict(done), indent=2)]
    would = "would be " if dry else ""
    changes = (InstallResult.CREATED, InstallResult.UPDATED)
    return table(
        [(name, f"{would}{outcome}" if outcome in changes else outcome) for name, outcome in done]
    )


async def _put(api: Client, wanted: dict[str, Any], dry: bool) -> InstallResult:
    from koord_kube.protocol.api import NotFoundError

    name = wanted["metadata"]["name"]
    try:
        there = await api.get(KIND, name)
    except NotFoundError:
        if not dry:
            await api.create(KIND, wanted)
        return InstallResult.CREATED
    if is_same(there, wanted):
        return InstallResult.SAME
    if versions_of(there) - versions_of(wanted):
        return InstallResult.NEWER
    if not dry:
        version = there["metadata"]["resourceVersion"]
        # All of the spec is ours: a field that a newer definition has no more has to go.
        meta = {"name": name, "resourceVersion": version}
        kept = {**there["metadata"], **meta}
        annotations = {**(kept.get("annotations") or {}), **_annotations(wanted)}
        await api.replace(KIND, name, {**wanted, "metadata": kept | {"annotations": annotations}})
    return InstallResult.UPDATED


def is_same(there: Json, wanted: Json) -> bool:
    """True if the definition is as desired, but for the server's own additions."""
    noted = _annotations(there)
    return bool(_ADDED | there["spec"] == _ADDED | wanted["spec"]) and all(
        noted.get(name) == value for name, value in _annotations(wanted).items()
    )


def versions_of(definition: Json) -> set[str]:
    return {version["name"] for version in definition["spec"]["versions"]}


def _annotations(wanted: Json) -> Json:
    return wanted["metadata"].get("annotations") or {}
