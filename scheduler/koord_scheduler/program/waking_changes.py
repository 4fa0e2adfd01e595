"""What has to change in a cluster so that a pod that fits nowhere fits."""

from __future__ import annotations

from collections.abc import Mapping

from koord_scheduler.framework.diagnosis import Diagnosis, PluginRejections

CHANGES: Mapping[str, str] = {
    "DeviceShare": "pods that end and free its devices, or nodes with more of them",
    "DynamicResources": "devices that become free, or the claims, slices and classes it needs",
    "ElasticQuota": "pods of its quota that end, or a quota that may use more",
    "Extender": "another answer of an extender, which is asked again",
    "InterPodAffinity": "pods that it has to be with, or the end of pods that keep it away",
    "LoadAwareScheduling": "nodes that use less, or thresholds that are higher",
    "MissingPlugins": "a scheduler that has the plugins which it needs",
    "NodeAffinity": "nodes with labels that its node affinity and selector allow",
    "NodeDeclaredFeatures": "nodes with the features that it needs",
    "NodeNUMAResource": "pods that end and free CPUs, or NUMA nodes with more",
    "NodeName": "a node of the name that it asks for",
    "NodePorts": "pods that end and free its host ports",
    "NodeResourcesFit": "pods that end, or nodes with more room",
    "NodeUnschedulable": "nodes that are uncordoned",
    "NodeVolumeLimits": "pods that end whose volumes are attached, or a higher limit of volumes",
    "PodTopologySpread": "pods that come or end in other domains of its spread constraints",
    "Reservation": "reservations that are made for it, or have more room",
    "TaintToleration": "taints that are removed, or nodes without them",
    "VolumeBinding": "volumes that can be bound, or nodes that reach those it has",
    "VolumeRestrictions": "pods that end and use its volumes",
    "VolumeZone": "nodes in the zone of its volumes",
}
"""By plugin, what may end its rejections."""
WITHOUT_PODS: Mapping[str, str] = {
    "DeviceShare": "nodes with the devices that it needs",
    "InterPodAffinity": "pods that it has to be with",
    "NodeNUMAResource": "nodes with the CPUs and NUMA nodes that it needs",
    "NodeResourcesFit": "nodes with more room",
    "NodeVolumeLimits": "a higher limit of volumes, or other nodes",
    "PodTopologySpread": "nodes with the labels of its spread constraints",
    "VolumeRestrictions": "the claims that it needs",
}
"""The same where no pod that ends can help."""


def waking_changes(diagnosis: Diagnosis) -> list[str]:
    """Changes of which each may be enough for a pod to fit; none where it fits.

    Where some nodes are rejected by one plugin alone, they are what these plugins wait for;
    otherwise everything has to come together.
    """
    if diagnosis.feasible:
        return []
    if not diagnosis.nodes:
        return ["nodes that join the cluster"]
    cured = [_change(one) for one in diagnosis.plugins if one.cure]
    if cured:  # they reject all nodes
        return [" and ".join(cured)]
    alone = [one for one in diagnosis.plugins if one.alone]
    if alone:
        return list(map(_change, alone))
    return [" and ".join(map(_change, diagnosis.plugins))]


def _change(one: PluginRejections) -> str:
    usual = CHANGES.get(one.plugin, "what it waits for")
    change = usual if one.pods_help else WITHOUT_PODS.get(one.plugin, usual)
    return f"{one.cure or change} ({one.plugin})"
