"""What becomes of new pods, against Koordinator's own webhook."""

from __future__ import annotations

import json
import re
from typing import Any

from koord_manager.pod_webhook.mutating import mutate_pod
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.quantity import milli

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay
from tests.support.admissions import creation

EXTENDED = "node.koordinator.sh/extended-resource-spec"


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    view = ClusterView(
        profiles={one["metadata"]["name"]: one for one in given["profiles"]},
        namespaces={
            name: {"metadata": {"labels": labels}} for name, labels in given["namespaces"].items()
        },
        priority_classes=given["classes"],
        chance=lambda: (given["number"] + 0.5) / 100,
    )
    verdict = mutate_pod(creation(given["pod"], given["namespace"]), view)
    return {"refused": True} if verdict.refusal else flat(verdict.object or given["pod"])


def theirs(recorded: Object) -> dict[str, Any]:
    return flat(recorded["pod"]) if "pod" in recorded else recorded


def flat(pod: Object) -> dict[str, Any]:
    """Ends of the pod; containers by name, amounts in thousandths, the annotation opened."""
    spec = pod["spec"]
    for group in ("containers", "initContainers"):
        for place, one in enumerate(spec.get(group, ())):
            spec = {**spec, f"{group} {one['name']}": {**_filled(one), "place": place}}
    whole = {**pod, "spec": {key: one for key, one in spec.items() if not key.endswith("ainers")}}
    found = {name: end for name, end in leaves(whole).items() if end is not None}
    text = found.pop(f"metadata.annotations.{EXTENDED}", None)
    if text is not None:
        found |= leaves(json.loads(text), "extended")
    return {name: milli(end) if _amount(name) else end for name, end in found.items()}


def _amount(name: str) -> bool:
    return ".limits." in name or ".requests." in name or name.startswith("spec.overhead.")


def _filled(container: Object) -> Object:
    """As the API server keeps it: limits are requests where there are none."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return {**container, "resources": {"limits": limits, "requests": limits | requests}}


def mapped(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """An absent source writes nothing, there an empty value."""
    kind, _, key = field.rpartition(".")
    was = vector.given["pod"]["metadata"].get(kind.rpartition(".")[2], {})
    return key == "mapped" and there[field] == "" and here.get(field) == was.get(key)


def suffixed(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A suffix that is there already is not put there again."""
    del vector
    if field != "metadata.labels.suffixed" or not here.get(field, "").endswith("-s"):
        return False
    return re.fullmatch(re.escape(here[field]) + "(-s)+", there[field]) is not None


def overhead(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A pod's overhead is its RuntimeClass's, and stays."""
    del there
    return field.startswith("spec.overhead.") and here.get(field) == leaves_of_overhead(vector).get(
        field
    )


def leaves_of_overhead(vector: Vector) -> Fields:
    found = leaves(vector.given["pod"]["spec"]["overhead"], "spec.overhead")
    return {name: milli(end) for name, end in found.items()}


def init_containers(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """All of them are sent, those that stay also among the containers; there none is."""
    if field in there:
        return False
    inits = [one["name"] for one in vector.given["pod"]["spec"].get("initContainers", ())]
    if field.startswith("extended.initContainers."):
        group, name = "initContainers", field.split(".")[2]
    else:
        group, name = "containers", field.split(".")[2] if field.startswith("extended.") else ""
    amount = here.get(f"spec.initContainers {name}.resources.{field.split(f'.{name}.')[-1]}")
    stays = here.get(f"spec.initContainers {name}.restartPolicy") == "Always"
    return name in inits and (stays or group == "initContainers") and here[field] == amount


def shared_gpus(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Two GPUs' cores are shared over two GPUs, there over none."""
    del vector
    if not field.endswith(".koordinator.sh/gpu.shared"):
        return False
    cores = here.get(field.replace("gpu.shared", "gpu-core"), 0)
    return there[field] == 0 and here[field] * 100 == cores > 100_000


def illegible(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """The annotation that a pod brings cannot be read: refused, as there."""
    del field, there
    return bool(here.get("refused") and vector.recorded.get("refused"))


DIFFERENCES = (illegible, mapped, suffixed, overhead, init_containers, shared_gpus)
DECISIONS = {
    "bad selectors": "A profile whose selector cannot be read is for nothing.",
    "unknown namespaces": "A profile that selects namespaces does not hold in an unknown one.",
    "probabilities": "A profile without a chance, or without a probability, does not hold.",
    "GPUs under limits": "A limit of GPUs alone is a request as well.",
    "brought annotation": "What a pod brings as that annotation counts for nothing.",
}
"""How inputs read otherwise; what Koordinator made of them, so read, is recorded too."""


def test_pods() -> None:
    replay("pod_mutation", ours, theirs, DIFFERENCES, DECISIONS)
