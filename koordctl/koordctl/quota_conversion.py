"""ElasticQuotas of scheduler-plugins as Koordinator's, and back. No IO.

Both projects have the kind, in groups of their own. There a quota is its namespace's, whatever its
name. Here names are unique in the cluster and make a tree; a quota that is called as its namespace
is that namespace's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from koord_model.elastic_quota import ElasticQuota, parse
from koord_model.excerpt import excerpt

Object = dict[str, Any]

KIND = "ElasticQuota"
UNBOUNDED = str(((1 << 63) - 1) // 2000)
"""Number that means no bound: Koordinator's for quotas of nodes."""
_PREFIX = "quota.scheduling.koordinator.sh/"
_OF_KUBECTL = "kubectl.kubernetes.io/"


class QuotaApi(StrEnum):
    """API of a quota; the value is its ``apiVersion``."""

    KOORDINATOR = "scheduling.sigs.k8s.io/v1alpha1"
    SCHEDULER_PLUGINS = "scheduling.x-k8s.io/v1alpha1"


_GROUP = QuotaApi.SCHEDULER_PLUGINS.value.partition("/")[0]


def converted(quotas: Iterable[Mapping[str, Any]], to: QuotaApi) -> list[Object]:
    """All of them in that group; those that are in it already stay as they are.

    Raises:
        ValueError: one means what the other group cannot say, or two belong to one namespace.
    """
    found = [_one(quota, to) for quota in quotas]
    seen: set[str] = set()
    for quota in found:
        key = f"{quota['metadata'].get('namespace', '')}/{quota['metadata']['name']}"
        if key in seen:
            raise ValueError(f"{KIND} {excerpt(key)} would be there twice; expected one of them")
        seen.add(key)
    return found


def _one(given: Mapping[str, Any], to: QuotaApi) -> Object:
    if given.get("kind") != KIND or given.get("apiVersion") not in tuple(QuotaApi):
        raise ValueError(
            f"{excerpt(str(given.get('kind')))} of {excerpt(str(given.get('apiVersion')))}; "
            f"expected {KIND} of {' or '.join(QuotaApi)}"
        )
    if given["apiVersion"] == to:
        return dict(given)
    quota, ignored = parse(given)
    if ignored:
        raise ValueError(ignored[0])
    return _koordinators(given, quota) if to is QuotaApi.KOORDINATOR else _theirs(given, quota)


def _koordinators(given: Mapping[str, Any], quota: ElasticQuota) -> Object:
    """Called as its namespace; bounded in all that it guarantees."""
    if not quota.namespace:
        raise ValueError(f"{KIND} {excerpt(quota.name)} has no namespace; expected the pods'")
    spec = dict(given.get("spec") or {})
    least, most = spec.get("min") or {}, spec.get("max") or {}
    spec["max"] = {**dict.fromkeys(least, UNBOUNDED), **most}
    return _object(QuotaApi.KOORDINATOR, quota.namespace, quota.namespace, given, spec)


def _theirs(given: Mapping[str, Any], quota: ElasticQuota) -> Object:
    """In the namespace whose pods belong to it; where it stands in the tree is lost."""
    own = [quota.namespace] if quota.name == quota.namespace else []
    namespaces = sorted({*own, *quota.namespaces})
    if quota.is_parent or len(namespaces) != 1:
        what = "is a parent" if quota.is_parent else f"has the namespaces {json.dumps(namespaces)}"
        raise ValueError(
            f"{KIND} {excerpt(f'{quota.namespace}/{quota.name}')} {what}; in {_GROUP} a quota "
            "is of one namespace"
        )
    spec = dict(given.get("spec") or {})
    return _object(QuotaApi.SCHEDULER_PLUGINS, quota.name, namespaces[0], given, spec)


def _object(
    version: QuotaApi, name: str, namespace: str, given: Mapping[str, Any], spec: Object
) -> Object:
    metadata: Object = {"name": name, "namespace": namespace}
    for part in ("labels", "annotations"):
        kept = _kept(given, part)
        metadata |= {part: kept} if kept else {}
    return {"apiVersion": version.value, "kind": KIND, "metadata": metadata, "spec": spec}


def _kept(given: Mapping[str, Any], part: str) -> dict[str, str]:
    """Return others' metadata: without Koordinator's, and kubectl's copy of the object."""
    there = (given.get("metadata") or {}).get(part) or {}
    return {
        name: value for name, value in there.items() if not name.startswith((_PREFIX, _OF_KUBECTL))
    }
