"""What the API server does when a pod gets its node: the rules of the real one.

From Kubernetes' ``pkg/registry/core/pod/storage/storage.go``.
"""

from __future__ import annotations

import copy

from koord_kube.protocol.api import Object

from tests.support.kube_api.kinds import Key, Refused, bad_request


def bound(key: Key, pod: Object, binding: Object, time: str) -> Object:
    """The pod on the node that a Binding names.

    Raises:
        Refused: the pod is another one, has a node, is leaving, or is not to be placed yet.
    """
    target = binding.get("target") or {}
    if target.get("kind", "Node") != "Node" or not target.get("name"):
        raise bad_request("target.name: Required value")
    meta, spec = pod["metadata"], pod["spec"]
    uid = (binding.get("metadata") or {}).get("uid")
    if uid and uid != meta["uid"]:
        raise _conflict(key, f"Precondition failed: UID in precondition: {uid}")
    if "deletionTimestamp" in meta:
        raise _conflict(key, f"pod {key.name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        node = spec["nodeName"]
        raise _conflict(key, f'pod {key.name} is already assigned to node "{node}"')
    if spec.get("schedulingGates"):
        raise _conflict(key, f"pod {key.name} has non-empty .spec.schedulingGates")
    placed = copy.deepcopy(pod)
    placed["spec"]["nodeName"] = target["name"]
    if annotations := (binding.get("metadata") or {}).get("annotations"):
        placed["metadata"].setdefault("annotations", {}).update(annotations)
    status = placed.setdefault("status", {})
    others = [one for one in status.get("conditions", ()) if one["type"] != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": time}
    status["conditions"] = [*others, scheduled]
    return placed


def _conflict(key: Key, why: str) -> Refused:
    message = f'Operation cannot be fulfilled on pods/binding "{key.name}": {why}'
    return Refused(409, "Conflict", message)
