"""All definitions. No IO."""

from __future__ import annotations

from koord_kube.definitions.cluster_network_topology import CLUSTER_NETWORK_TOPOLOGY
from koord_kube.definitions.colocation_profile import COLOCATION_PROFILE
from koord_kube.definitions.device import DEVICE
from koord_kube.definitions.drain_node import DRAIN_NODE
from koord_kube.definitions.drain_node_group import DRAIN_NODE_GROUP
from koord_kube.definitions.elastic_quota import ELASTIC_QUOTA, ELASTIC_QUOTA_PROFILE
from koord_kube.definitions.node_metric import NODE_METRIC
from koord_kube.definitions.node_slo import NODE_SLO
from koord_kube.definitions.node_topology import NODE_TOPOLOGY
from koord_kube.definitions.pod_group import POD_GROUP
from koord_kube.definitions.pod_migration_job import POD_MIGRATION_JOB
from koord_kube.definitions.recommendation import RECOMMENDATION
from koord_kube.definitions.reservation import RESERVATION
from koord_kube.definitions.tide_node_pool import TIDE_NODE_POOL

DEFINITIONS = (
    COLOCATION_PROFILE,
    CLUSTER_NETWORK_TOPOLOGY,
    DEVICE,
    DRAIN_NODE,
    DRAIN_NODE_GROUP,
    ELASTIC_QUOTA,
    ELASTIC_QUOTA_PROFILE,
    NODE_METRIC,
    NODE_SLO,
    NODE_TOPOLOGY,
    POD_GROUP,
    POD_MIGRATION_JOB,
    RECOMMENDATION,
    RESERVATION,
    TIDE_NODE_POOL,
)
"""In alphabetical order of their kinds."""
