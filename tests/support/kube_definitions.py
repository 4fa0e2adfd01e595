"""CustomResourceDefinitions: what the server asks of them, and the kinds that they make. No IO.

Not here: conversion between versions; each version keeps its own objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import Resource

from tests.support.kube_kinds import qualified
from tests.support.kube_refusal import invalid
from tests.support.kube_schemas import Validated, drop_empty, unstructural
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


def default(given: Object) -> None:
    """What is not said is, and what says nothing goes, as the server keeps a definition."""
    spec = given.get("spec") or {}
    names = spec.get("names") or {}
    if names.get("kind"):
        names["singular"] = names.get("singular") or names["kind"].lower()
        names["listKind"] = names.get("listKind") or f"{names['kind']}List"
    spec.setdefault("conversion", {"strategy": "None"})
    for version in spec.get("versions") or []:
        for column in version.get("additionalPrinterColumns") or []:
            _drop_empty(column)
        _drop_empty(version, kept=("served", "storage", "schema"))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if isinstance(schema, dict):
            drop_empty(schema)
    _drop_empty(names)
    _drop_empty(spec, kept=("versions",))


def _drop_empty(given: Object, kept: tuple[str, ...] = ()) -> None:
    for name in [one for one in given if one not in kept]:
        if given[name] in ("", [], 0, False, None):
            del given[name]


def establish(new: Object, before: Object | None, time: str) -> None:
    """What the server makes of a definition: its status."""
    spec = new["spec"]
    storage = next(one["name"] for one in spec["versions"] if one.get("storage"))
    if before is not None:
        stored = (new.get("status") or {}).get("storedVersions")
        if stored is not None and storage not in stored:
            stored.append(storage)
        return
    words = [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]
    approved = (new["metadata"].get("annotations") or {}).get(_APPROVED)
    if approved and _PROTECTED.search(spec["group"]):
        policy = ("KubernetesAPIApprovalPolicyConformant", "ApprovedAnnotation")
        words.insert(0, (*policy, f"approved in {approved}"))
    new["status"] = {
        "acceptedNames": spec["names"],
        "storedVersions": [storage],
        "conditions": [
            {
                "type": type_,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": time,
            }
            for type_, reason, message in words
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
        raise invalid(qualified(resource), name, *wrong)


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
    schemas = {json.dumps(one.get("schema"), sort_keys=True) for one in versions}
    for index, version in enumerate(versions):
        where = f"spec.versions[{index}]"
        # A schema that all versions have is the definition's own to the server.
        above = "spec.validation" if len(schemas) == 1 else f"{where}.schema"
        if not _VERSION.fullmatch(version.get("name", "")):
            yield f"{where}.name", "Invalid value: a lowercase RFC 1035 label is needed"
        if "served" not in version or "storage" not in version:
            yield f"{where}.served", "Required value"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        for wrong in unstructural(schema, f"{above}.openAPIV3Schema"):
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
