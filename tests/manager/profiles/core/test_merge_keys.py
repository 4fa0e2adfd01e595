"""The tables against Kubernetes' published schema, which names what merges and by what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from koord_manager.profiles.core.merge_keys import POD, RESERVATION
from koord_manager.profiles.core.strategic_merge import MergeType
from kubernetes_validate.utils import schema_contents

from tests.support.pod_rules import VERSION

# A new pod has no status, and a claim template's metadata is labels and annotations.
_LEFT_OUT = (".status", ".spec.volumes.ephemeral")


def published(name: str, path: str = "", seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Each list that merges, as "PATH by KEY"."""
    folder = f"kubernetes-json-schema/v{VERSION}.0-local"
    definitions: dict[str, Any] = schema_contents(f"{folder}/_definitions.json", VERSION)["$defs"]
    todo = [(name, path, seen)]
    while todo:
        name, path, seen = todo.pop()
        for field, says in definitions[name].get("properties", {}).items():
            at = f"{path}.{field}"
            if "merge" in says.get("x-kubernetes-patch-strategy", ""):
                yield f"{at} by {says.get('x-kubernetes-patch-merge-key', '')}"
            target = says.get("$ref") or (says.get("items") or {}).get("$ref") or ""
            deeper = target.rpartition("/")[2]
            if deeper in definitions and deeper not in seen:
                todo.append((deeper, at, seen | {deeper}))


def tabled(of: MergeType, path: str = "") -> Iterator[str]:
    for name, deeper in of.objects.items():
        yield from tabled(deeper, f"{path}.{name}")
    for name, merges in of.lists.items():
        yield f"{path}.{name} by {merges.key}"
        yield from tabled(merges.type, f"{path}.{name}")


def test_a_pod_merges_as_kubernetes_says() -> None:
    wanted = [one for one in published("io.k8s.api.core.v1.Pod") if not one.startswith(_LEFT_OUT)]
    assert len(wanted) > 20
    assert sorted(tabled(POD)) == sorted(wanted)


def test_a_reservation_has_a_pod_in_it() -> None:
    prefix = ".spec.template"
    inner = [one for one in tabled(RESERVATION) if one.startswith(prefix)]
    assert sorted(inner) == sorted(prefix + one for one in tabled(POD))
    assert ".metadata.finalizers by " in set(tabled(RESERVATION))
