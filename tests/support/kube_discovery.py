"""What clients ask first: which groups, versions and kinds there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import Resource

from tests.support.kube_kinds import BUILT_IN, REVIEWS, SHORT

VERSION = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.0-double",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.24.0",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]

Aggregated = Iterable[tuple[str, str]]
"""Groups and versions that others serve."""


def discovery(
    path: str,
    installed: Iterable[Resource],
    aggregated: Aggregated,
    has_status: Callable[[Resource], bool],
    short_names: Callable[[Resource], Iterable[str]],
) -> Object | None:
    """The answer to a path of discovery; ``None`` where it is none."""
    installed = sorted(installed, key=lambda one: (one.group, one.version, one.plural))
    match path.rstrip("/").split("/"):
        case ["", "version"]:
            return dict(VERSION)
        case ["", "api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["", "apis"]:
            groups = _groups(installed, aggregated)
            kind = {"kind": "APIGroupList", "apiVersion": "v1"}
            return {**kind, "groups": [_group(*one) for one in groups.items()]}
        case ["", "apis", group]:
            versions = _groups(installed, aggregated).get(group)
            head = {"kind": "APIGroup", "apiVersion": "v1"}
            return None if versions is None else {**head, **_group(group, versions)}
        case ["", "api", version]:
            return _resources("", version, installed, has_status, short_names)
        case ["", "apis", group, version]:
            return _resources(group, version, installed, has_status, short_names)
    return None


def _groups(installed: Iterable[Resource], aggregated: Aggregated) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    pairs = [*((one.group, one.version) for one in installed), *aggregated]
    for group, version in pairs:
        versions = found.setdefault(group, [])
        if version not in versions:
            versions.append(version)
    found.pop("", None)
    return found


def _group(name: str, versions: list[str]) -> Object:
    known = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions]
    return {"name": name, "versions": known, "preferredVersion": known[0]}


def _resources(
    group: str,
    version: str,
    installed: Iterable[Resource],
    has_status: Callable[[Resource], bool],
    short_names: Callable[[Resource], Iterable[str]],
) -> Object | None:
    here = [one for one in installed if (one.group, one.version) == (group, version)]
    if not here:
        return None
    found: list[Object] = []
    for one in here:
        verbs = ["create"] if one in REVIEWS else _VERBS
        more = [*SHORT.get(one, ()), *short_names(one)]
        short = {"shortNames": more} if more else {}
        found.append({**_resource(one, one.plural, verbs), **short})
        if has_status(one):
            found.append(_resource(one, f"{one.plural}/status", ["get", "patch", "update"]))
        if one.plural == "pods" and one in BUILT_IN:
            about = _resource(one, "pods/eviction", ["create"])
            found.append({**about, "group": "policy", "version": "v1", "kind": "Eviction"})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": found,
    }


def _resource(resource: Resource, name: str, verbs: list[str]) -> Object:
    return {
        "name": name,
        "singularName": resource.kind.lower() if "/" not in name else "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs,
    }
