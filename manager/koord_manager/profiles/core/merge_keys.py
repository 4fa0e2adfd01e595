"""Merge keys of the lists of a pod and of a reservation (Kubernetes' API types).

Only a ``patchStrategy`` of merge counts; tolerations, for one, have none and are replaced.
"""

from __future__ import annotations

from koord_manager.profiles.core.strategic_merge import MergeList, MergeType

_CONTAINER = MergeType(
    lists={
        "env": MergeList("name"),
        "ports": MergeList("containerPort"),
        "volumeDevices": MergeList("devicePath"),
        "volumeMounts": MergeList("mountPath"),
    }
)
_METADATA = MergeType(lists={"finalizers": MergeList(), "ownerReferences": MergeList("uid")})
_POD_SPEC = MergeType(
    lists={
        "containers": MergeList("name", _CONTAINER),
        "ephemeralContainers": MergeList("name", _CONTAINER),
        "hostAliases": MergeList("ip"),
        "imagePullSecrets": MergeList("name"),
        "initContainers": MergeList("name", _CONTAINER),
        "resourceClaims": MergeList("name"),
        "schedulingGates": MergeList("name"),
        "topologySpreadConstraints": MergeList("topologyKey"),
        "volumes": MergeList("name"),
    }
)
POD = MergeType(objects={"metadata": _METADATA, "spec": _POD_SPEC})
RESERVATION = MergeType(
    objects={"metadata": _METADATA, "spec": MergeType(objects={"template": POD})}
)
