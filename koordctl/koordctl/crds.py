"""``koordctl crds``: the definitions of the custom resources, shown or installed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from koordctl import cluster_client, manifests
from koordctl.output.result import CommandOutput
from koordctl.output.tables import table

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


def run_show(arguments: argparse.Namespace) -> CommandOutput:
    """All definitions, as YAML that ``kubectl apply`` takes, or as JSON."""
    return manifests.report(_definitions())


def run_install(arguments: argparse.Namespace) -> CommandOutput:
    """Create what is not there, update what is otherwise. Raises AskError."""
    dry = arguments.dry_run

    async def install(api: Client) -> list[tuple[str, InstallResult]]:
        return [
            (definition["metadata"]["name"], await _put(api, definition, dry))
            for definition in _definitions()
        ]

    done = cluster_client.ask_cluster(arguments, install)
    would = "would be " if dry else ""
    changes = (InstallResult.CREATED, InstallResult.UPDATED)
    rows = [
        (name, f"{would}{outcome}" if outcome in changes else outcome) for name, outcome in done
    ]
    return CommandOutput(dict(done), [table(rows, has_header=False)])


async def _put(api: Client, wanted: dict[str, Any], dry: bool) -> InstallResult:
    from koord_kube.protocol.api import NotFoundError
    from koord_kube.protocol.resources import DEFINITIONS as KIND

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


def _definitions() -> Sequence[dict[str, Any]]:
    # Imported late: they are large, and no other command needs them.
    from koord_kube.definitions.catalogue import DEFINITIONS

    return DEFINITIONS


def _annotations(wanted: Json) -> Json:
    return wanted["metadata"].get("annotations") or {}
