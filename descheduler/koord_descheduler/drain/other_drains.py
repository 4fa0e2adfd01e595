"""Things that a drain has to know of all others. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from koord_kube.protocol.api import Object

from koord_descheduler.drain.drain_document import OtherDrains, drained_node
from koord_descheduler.drain.phases import DrainPhase

_ENDED = (DrainPhase.FAILED.value, DrainPhase.ABORTED.value)


def other_drains(name: str, documents: Mapping[str, Object]) -> OtherDrains:
    """The nodes and places of all DrainNodes but this one."""
    others = {key: each for key, each in documents.items() if key != name}
    under_way = [each for each in others.values() if _is_under_way(each)]
    return OtherDrains(
        nodes=frozenset(filter(None, map(drained_node, under_way))),
        settled={key: node for each in under_way for key, node in _places(each)},
        claimants=frozenset(each["metadata"].get("uid", "") for each in documents.values()),
    )


def _is_under_way(document: Object) -> bool:
    """True unless it only shows its plan, or has ended."""
    spec = document.get("spec") or {}
    return not spec.get("dryRun") and _status(document).get("phase") not in _ENDED


def _places(document: Object) -> Iterator[tuple[str, str]]:
    for pod in _status(document).get("pods") or ():
        if pod.get("targetNode"):
            yield f"{pod.get('namespace')}/{pod.get('name')}", pod["targetNode"]


def _status(document: Object) -> dict[str, Any]:
    return document.get("status") or {}
