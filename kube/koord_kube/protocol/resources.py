"""The kinds of objects that pykoord reads or writes. No IO."""

from __future__ import annotations

from dataclasses import dataclass

from koord_model.excerpt import excerpt
from koord_service.http_targets import path_segment


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object; ``group`` is "" for Kubernetes' core."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = False

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The URL path of all objects, of those of a namespace, or of one or its subresource.

        Raises:
            ValueError: there can be no such object; one line with the name and what is wrong.
        """
        plural = self.plural
        parts = ["apis", self.group] if self.group else ["api"]
        parts.append(self.version)
        if self.namespaced and namespace:
            parts += ["namespaces", path_segment(f"namespace of {plural}", namespace)]
        elif self.namespaced and name:
            raise ValueError(f"{plural} {excerpt(name)}: the namespace is empty")
        parts.append(plural)
        if name:
            parts.append(path_segment(f"name in {plural}", name))
        elif subresource:
            raise ValueError(f"{plural}: the name is empty, of what {subresource} is meant")
        parts += [
            path_segment("subresource", part) for part in subresource.split("/") if subresource
        ]
        return "/" + "/".join(parts)


NODES = Resource("", "v1", "nodes", "Node")
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
NODE_METRICS = Resource("slo.koordinator.sh", "v1alpha1", "nodemetrics", "NodeMetric")
NODE_SLOS = Resource("slo.koordinator.sh", "v1alpha1", "nodeslos", "NodeSLO")
NODE_TOPOLOGIES = Resource(
    "topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "NodeResourceTopology"
)
CUSTOM_NODE_RESOURCES = Resource(
    "node.katalyst.kubewharf.io", "v1alpha1", "customnoderesources", "CustomNodeResource"
)
"""Katalyst's view of a node."""
RESERVATIONS = Resource("scheduling.koordinator.sh", "v1alpha1", "reservations", "Reservation")
POD_MIGRATION_JOBS = Resource(
    "scheduling.koordinator.sh", "v1alpha1", "podmigrationjobs", "PodMigrationJob"
)
POD_GROUPS = Resource(
    "scheduling.sigs.k8s.io", "v1alpha1", "podgroups", "PodGroup", namespaced=True
)
SCHEDULING_GROUPS = tuple(
    Resource("scheduling.k8s.io", version, "podgroups", "PodGroup", namespaced=True)
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""Kubernetes' own PodGroups, in the versions of its API: the newest first."""
COMPOSITE_GROUPS = Resource(
    "scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup", namespaced=True
)
CLUSTER_NETWORK_TOPOLOGIES = Resource(
    "scheduling.koordinator.sh",
    "v1alpha1",
    "clusternetworktopologies",
    "ClusterNetworkTopology",
)
DEVICES = Resource("scheduling.koordinator.sh", "v1alpha1", "devices", "Device")
DRAIN_NODES = Resource("scheduling.koordinator.sh", "v1alpha1", "drainnodes", "DrainNode")
DRAIN_NODE_GROUPS = Resource(
    "scheduling.koordinator.sh", "v1alpha1", "drainnodegroups", "DrainNodeGroup"
)
TIDE_NODE_POOLS = Resource(
    "tide.katalyst.kubewharf.io", "v1alpha1", "tidenodepools", "TideNodePool"
)
"""Katalyst's."""
RECOMMENDATIONS = Resource(
    "analysis.koordinator.sh", "v1alpha1", "recommendations", "Recommendation", namespaced=True
)
VERTICAL_POD_AUTOSCALERS = Resource(
    "autoscaling.k8s.io",
    "v1",
    "verticalpodautoscalers",
    "VerticalPodAutoscaler",
    namespaced=True,
)
"""VPA's; pykoord installs no definition of it."""
SERVICE_PROFILES = Resource(
    "workload.katalyst.kubewharf.io",
    "v1alpha1",
    "serviceprofiledescriptors",
    "ServiceProfileDescriptor",
    namespaced=True,
)
"""Katalyst's; pykoord installs no definition of it."""
COLOCATION_PROFILES = Resource(
    "config.koordinator.sh", "v1alpha1", "clustercolocationprofiles", "ClusterColocationProfile"
)
QUOTA_PROFILES = Resource(
    "quota.koordinator.sh",
    "v1alpha1",
    "elasticquotaprofiles",
    "ElasticQuotaProfile",
    namespaced=True,
)
ELASTIC_QUOTAS = Resource(
    "scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", "ElasticQuota", namespaced=True
)
SERVED_NODE_METRICS = Resource("metrics.koordinator.sh", "v1alpha1", "nodemetrics", "NodeMetric")
"""NodeMetrics that the manager keeps in memory and serves itself, beside those in etcd."""

DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True
)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume")
VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True
)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass")
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode")
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver")
CSI_STORAGE_CAPACITIES = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", namespaced=True
)
VOLUME_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment")
RESOURCE_CLAIMS = Resource(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True
)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice")
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
SERVICES = Resource("", "v1", "services", "Service", namespaced=True)
REPLICATION_CONTROLLERS = Resource(
    "", "v1", "replicationcontrollers", "ReplicationController", namespaced=True
)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
ENDPOINT_SLICES = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True
)
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
)
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview"
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
