"""The Priority plugin: a pod's number comes from its class, and no other is let in. No IO.

It looks at a new pod twice, before and after the mutating webhooks.
"""

from __future__ import annotations

from koord_kube.protocol.api import Object

from tests.support.kube_refusal import Refused

_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def prioritize(pod: Object, classes: list[Object]) -> None:
    """Give a new pod its priority; ``classes`` are the PriorityClasses that there are."""
    spec = pod.setdefault("spec", {})
    usual = next((one for one in classes if one.get("globalDefault")), None)
    known = _SYSTEM | {one["metadata"]["name"]: one["value"] for one in classes}
    if not spec.get("priorityClassName") and usual is not None:
        spec["priorityClassName"] = usual["metadata"]["name"]
    name = spec.get("priorityClassName") or ""
    if name and name not in known:
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    value = known[name] if name else 0
    if spec.get("priority", value) != value:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod "
            f"spec; priority admission controller computed {value} from the given "
            "PriorityClass name"
        )
        raise _forbidden(pod, why)
    spec["priority"] = value


def _forbidden(pod: Object, why: str) -> Refused:
    name = pod["metadata"].get("name") or pod["metadata"].get("generateName", "")
    return Refused(403, "Forbidden", f'pods "{name}" is forbidden: {why}')
