"""CustomResourceDefinitions: what the server asks of them, and the kinds that they make. No IO.

Not here: conversion between versions; each version keeps its own objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from koord_kube.api import Object
from koord_kube.resources import Resource

from tests.support.kube_refusal import invalid
from tests.support.kube_schemas import Validated, unstructural
from tests.support.kube_selecting import Key

_VERSION = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_PROTECTED = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")
_APPROVED = "api-approved.kubernetes.io"


@dataclass(frozen=True)
class Defined:
    """A kind that a definition makes, in one version."""

    resource: Resource
    schema: Validated
    status: bool
    short: tuple[str, ...] = ()


def check(_: Key, new: Object, before: Object | None = None) -> list[tuple[str, str]]:
    """What is wrong with a definition."""
    return list(_wrong(new)) + list(_changed(new, before))


def establish(new: Object, time: str) -> None:
    """What the server's controllers make of a new definition: its defaults and its status."""
    spec = new["spec"]
    names = spec["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    known = [one["name"] for one in spec["versions"] if one.get("storage")]
    new["status"] = {
        "acceptedNames": names,
        "storedVersions": known,
        "conditions": [
            {
                "type": type_,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": time,
            }
            for type_, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ],
    }


def defined(given: Object) -> list[Defined]:
    """The kinds that are served for it."""
    spec = given["spec"]
    names, scope = spec["names"], spec.get("scope")
    return [
        Defined(
            Resource(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                namespaced=scope == "Namespaced",
            ),
            Validated(version["schema"]["openAPIV3Schema"]),
            "status" in version.get("subresources", {}),
            tuple(names.get("shortNames", ())),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def check_object(resource: Resource, schema: Validated, given: Object) -> None:
    """Refuse an object that its schema does not allow."""
    wrong = schema.wrong(given)
    if wrong:
        name = given["metadata"].get("name", "")
        raise invalid(f"{resource.kind}.{resource.group}", name, *wrong)


def _wrong(new: Object) -> Iterator[tuple[str, str]]:
    spec = new.get("spec") or {}
    names, group, versions = spec.get("names") or {}, spec.get("group", ""), spec.get("versions")
    for field in ("plural", "kind"):
        if not names.get(field):
            yield f"spec.names.{field}", "Required value"
    for field in ("plural", "singular"):
        if names.get(field) and names[field] != names[field].lower():
            yield f"spec.names.{field}", f'Invalid value: "{names[field]}": must be lower case'
    wanted = f"{names.get('plural', '')}.{group}"
    if new["metadata"].get("name") != wanted:
        yield "metadata.name", f"Invalid value: must be spec.names.plural+spec.group: {wanted}"
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        yield "spec.scope", "Unsupported value: supported values: Cluster, Namespaced"
    approved = (new["metadata"].get("annotations") or {}).get(_APPROVED, "")
    if _PROTECTED.search(group) and not approved.startswith(("https://", "unapproved")):
        why = "protected groups must have approval annotation"
        yield f"metadata.annotations[{_APPROVED}]", f"Required value: {why}"
    if spec.get("preserveUnknownFields"):
        yield "spec.preserveUnknownFields", "Invalid value: must be false"
    yield from _versions(versions or [])


def _versions(versions: list[Object]) -> Iterator[tuple[str, str]]:
    if sum(bool(one.get("storage")) for one in versions) != 1:
        yield "spec.versions", "Invalid value: must have exactly one version marked as storage"
    names = [one.get("name", "") for one in versions]
    if len(set(names)) != len(names):
        yield "spec.versions", "Invalid value: must contain unique version names"
    for index, version in enumerate(versions):
        where = f"spec.versions[{index}]"
        if not _VERSION.fullmatch(version.get("name", "")):
            yield f"{where}.name", "Invalid value: a lowercase RFC 1035 label is needed"
        if "served" not in version or "storage" not in version:
            yield f"{where}.served", "Required value"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        for wrong in unstructural(schema, f"{where}.schema.openAPIV3Schema"):
            field, _, why = wrong.partition(": ")
            yield field, why
        for at, column in enumerate(version.get("additionalPrinterColumns", [])):
            if not str(column.get("jsonPath", "")).startswith("."):
                yield f"{where}.additionalPrinterColumns[{at}].jsonPath", "Invalid value"


def _changed(new: Object, before: Object | None) -> Iterator[tuple[str, str]]:
    if before is None:
        return
    for path in (("group",), ("scope",), ("names", "plural"), ("names", "kind")):
        was, now = before["spec"], new.get("spec") or {}
        for step in path:
            was, now = was[step], (now or {}).get(step)
        if was != now:
            yield ".".join(("spec", *path)), "Invalid value: field is immutable"
    names = [one.get("name", "") for one in (new.get("spec") or {}).get("versions") or []]
    for index, stored in enumerate((before.get("status") or {}).get("storedVersions") or []):
        if stored not in names:
            why = f'Invalid value: "{stored}": must appear in spec.versions'
            yield f"status.storedVersions[{index}]", why
