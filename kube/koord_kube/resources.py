"""The kinds of objects that pykoord reads or writes, and their paths. No IO."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object; ``group`` is "" for Kubernetes' core."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = False

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The URL path of all objects, or of one."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        middle = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        parts = [f"{root}{middle}", self.plural, name, subresource]
        return "/".join(part for part in parts if part)


NODES = Resource("", "v1", "nodes", "Node")
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
NODE_METRICS = Resource("slo.koordinator.sh", "v1alpha1", "nodemetrics", "NodeMetric")
NODE_SLOS = Resource("slo.koordinator.sh", "v1alpha1", "nodeslos", "NodeSLO")
NODE_TOPOLOGIES = Resource(
    "topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "NodeResourceTopology"
)
DEVICES = Resource("scheduling.koordinator.sh", "v1alpha1", "devices", "Device")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
