"""``koordctl crds``: the definitions of the custom resources, shown or installed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import yaml
from koord_kube.definitions.catalogue import DEFINITIONS
from koord_kube.resources import DEFINITIONS as KIND

from koordctl import cluster
from koordctl.columns import table

if TYPE_CHECKING:
    from koord_kube.client import Client

Json = Mapping[str, Any]

_ADDED = {"conversion": {"strategy": "None"}}


class Done(StrEnum):
    """What became of a definition."""

    CREATED = "created"
    UPDATED = "updated"
    SAME = "as it should be"
    NEWER = "left alone: it has versions that are not known here"


def add_install(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl crds install``."""
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    cluster.add_arguments(parser)


def run_show(arguments: argparse.Namespace) -> Iterable[str]:
    """All definitions, as YAML that ``kubectl apply`` takes, or as JSON."""
    if arguments.json:
        return [json.dumps(DEFINITIONS, indent=2)]
    # Definitions share parts, which YAML would write once and refer to.
    whole = json.loads(json.dumps(DEFINITIONS))
    return [yaml.safe_dump_all(whole, sort_keys=False, allow_unicode=True).rstrip("\n")]


def run_install(arguments: argparse.Namespace) -> Iterable[str]:
    """Create what is not there, update what is otherwise. Raises AskError."""
    dry = arguments.dry_run

    async def install(api: Client) -> list[tuple[str, Done]]:
        return [(one["metadata"]["name"], await _put(api, one, dry)) for one in DEFINITIONS]

    done = cluster.ask_cluster(arguments.kubeconfig, install)
    if arguments.json:
        return [json.dumps(dict(done), indent=2)]
    would = "would be " if dry else ""
    changes = (Done.CREATED, Done.UPDATED)
    return table([(name, f"{would}{one}" if one in changes else one) for name, one in done])


async def _put(api: Client, wanted: dict[str, Any], dry: bool) -> Done:
    from koord_kube.api import NotFoundError

    name = wanted["metadata"]["name"]
    try:
        there = await api.get(KIND, name)
    except NotFoundError:
        if not dry:
            await api.create(KIND, wanted)
        return Done.CREATED
    if _same(there, wanted):
        return Done.SAME
    if _versions(there) - _versions(wanted):
        return Done.NEWER
    if not dry:
        version = there["metadata"]["resourceVersion"]
        # All of the spec is ours: a field that a newer definition has no more has to go.
        meta = {"name": name, "resourceVersion": version}
        kept = {**there["metadata"], **meta}
        annotations = {**(kept.get("annotations") or {}), **_annotations(wanted)}
        await api.replace(KIND, name, {**wanted, "metadata": kept | {"annotations": annotations}})
    return Done.UPDATED


def _same(there: Json, wanted: Json) -> bool:
    """Whether what is there is what is wanted, but for what the server adds by itself."""
    noted = _annotations(there)
    return bool(_ADDED | there["spec"] == _ADDED | wanted["spec"]) and all(
        noted.get(name) == value for name, value in _annotations(wanted).items()
    )


def _versions(definition: Json) -> set[str]:
    return {one["name"] for one in definition["spec"]["versions"]}


def _annotations(wanted: Json) -> Json:
    return wanted["metadata"].get("annotations") or {}
