"""Objects that Koordinator's Helm chart 1.8.0 installs, as far as its users are sent to them."""

from __future__ import annotations

CONTAINERS = {
    ("deployment", "koord-manager"): "manager",
    ("deployment", "koord-scheduler"): "scheduler",
    ("deployment", "koord-descheduler"): "descheduler",
    ("daemonset", "koordlet"): "koordlet",
    ("daemonset", "koord-device-daemon"): "koord-device-daemon",
}
"""The container of each workload."""

ROLES = {"koord-manager-role", "koord-scheduler-role", "koordlet-role", "koord-descheduler-role"}
BINDINGS = {
    *(f"{role}binding" for role in ROLES),
    "koord-scheduler-rolebinding-custom",
    "koord-scheduler-rolebinding-volume",
}
"""Of ClusterRoles; the scheduler also has the roles of kube-scheduler."""

KEPT_DEFINITIONS = {
    "clustercolocationprofiles.config.koordinator.sh",
    "clusternetworktopologies.scheduling.koordinator.sh",
    "devices.scheduling.koordinator.sh",
    "elasticquotaprofiles.quota.koordinator.sh",
    "elasticquotas.scheduling.sigs.k8s.io",
    "nodemetrics.slo.koordinator.sh",
    "noderesourcetopologies.topology.node.k8s.io",
    "nodeslos.slo.koordinator.sh",
    "podgroups.scheduling.sigs.k8s.io",
    "podmigrationjobs.scheduling.koordinator.sh",
    "recommendations.analysis.koordinator.sh",
    "reservations.scheduling.koordinator.sh",
    "scheduleexplanations.scheduling.koordinator.sh",
}
"""Definitions among its templates, which ``helm uninstall`` deletes."""
