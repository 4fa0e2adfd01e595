"""Which lists of a pod and of a reservation merge, and by what (Kubernetes' API types).

Only a ``patchStrategy`` of merge counts; tolerations, for one, have none and are replaced.
"""

from __future__ import annotations

from koord_manager.profiles.strategic_merge import MergeList, Type

_CONTAINER = Type(
    lists={
        "env": MergeList("name"),
        "ports": MergeList("containerPort"),
        "volumeDevices": MergeList("devicePath"),
        "volumeMounts": MergeList("mountPath"),
    }
)
_METADATA = Type(lists={"finalizers": MergeList(), "ownerReferences": MergeList("uid")})
_POD_SPEC = Type(
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
POD = Type(objects={"metadata": _METADATA, "spec": _POD_SPEC})
RESERVATION = Type(objects={"metadata": _METADATA, "spec": Type(objects={"template": POD})})
