"""Deletions: under which conditions, and what waits before it goes. No IO."""

from __future__ import annotations

from collections.abc import Mapping

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import PODS

from tests.support import kube_evictions
from tests.support.kube_json import copied
from tests.support.kube_kinds import qualified
from tests.support.kube_refusal import conflict
from tests.support.kube_selecting import Key

_PRECONDITIONS = (
    ("UID", "uid", "deleted and then recreated"),
    ("ResourceVersion", "resourceVersion", "modified"),
)


def check_preconditions(key: Key, before: Object, options: Object) -> None:
    wanted, meta = options.get("preconditions") or {}, before["metadata"]
    for name, field_, what in _PRECONDITIONS:
        said = wanted.get(field_)
        if said is not None and said != meta[field_]:
            why = (
                f"the {name} in the precondition ({said}) does not match the {name} in record "
                f"({meta[field_]}). The object might have been {what}"
            )
            raise conflict(qualified(key.resource), key.name, why)


def grace(query: Mapping[str, str], options: Object) -> int | None:
    """How many seconds a client gives, in its query or in its options."""
    said = query.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
    return None if said is None else int(said)


def waiting(key: Key, now: Object, asked: int | None, time: str) -> Object | None:
    """The object while it waits for its finalizers or its kubelet; ``None``: it goes at once."""
    ending = None
    if key.resource == PODS:
        if (now.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            asked = 0
        ending = kube_evictions.ending(now, {"deleteOptions": {"gracePeriodSeconds": asked}})
    if ending is None and now["metadata"].get("finalizers"):
        ending = copied(now)
        ending["metadata"].setdefault("deletionTimestamp", time)
        ending["metadata"]["deletionGracePeriodSeconds"] = 0
    return ending


def success(**details: str) -> Object:
    found: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        found["details"] = {name: one for name, one in details.items() if one}
    return found
