"""Terway shapes the network by two files, with the NodeSLO's policy ``terway-qos``.

``pod.json`` says of every pod how urgent its traffic is and what it may use at most,
``global_bps_config`` what the node has and what LS ("l1") and BE ("l2") are promised
and may use. All rates in both are bytes a second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from koord_model.node import NodeView
from koord_model.node_slo import Bandwidth, NetPolicy, NodeSLO
from koord_model.patch import NodePatch
from koord_model.pod import Pod
from koord_model.qos import KubeQoS, QoSClass, kube_qos, qos_class
from koord_model.traffic import PodBandwidth, bits_of, pod_bandwidth

from koord_hooks.specs import hookimpl

_FOLDER = "/var/lib/terway/qos"
_CGROUPS = "/sys/fs/cgroup/net_cls"
"""Directory of pods' cgroups in Terway's view, on nodes of either cgroup version."""

_PRIORITIES = {
    QoSClass.SYSTEM: 0,
    QoSClass.LSE: 1,
    QoSClass.LSR: 1,
    QoSClass.LS: 1,
    QoSClass.BE: 2,
}


@hookimpl
def reconcile_node(pods: tuple[Pod, ...], view: NodeView) -> NodePatch | None:
    slo = view.slo
    if slo.net_policy is not NetPolicy.TERWAY:
        return None
    ignored: list[str] = []
    node = _node(slo, ignored)
    listed = {pod.uid: _pod(pod, ignored) for pod in sorted(pods, key=lambda pod: pod.uid)}
    return NodePatch(
        files={
            f"{_FOLDER}/pod.json": json.dumps(listed, separators=(",", ":"), ensure_ascii=False),
            f"{_FOLDER}/global_bps_config": "".join(f"{key} {node[key]}\n" for key in node),
        },
        why=f"netQOSPolicy terway-qos, {slo.total_network_bandwidth} bit/s, {len(listed)} pods",
        ignored=tuple(ignored),
    )


def _node(slo: NodeSLO, ignored: list[str]) -> Mapping[str, int]:
    """The node's file, in Terway's order; a value that cannot be used counts as unset."""
    total = max(slo.total_network_bandwidth, 0)
    lines = {"hw_tx_bps_max": total // 8, "hw_rx_bps_max": total // 8}
    for level, qos in (("l1", QoSClass.LS), ("l2", QoSClass.BE)):
        network = slo.of(qos).network
        rates = (
            ("tx_bps_min", "egressRequest", network.egress_request),
            ("tx_bps_max", "egressLimit", network.egress_limit),
            ("rx_bps_min", "ingressRequest", network.ingress_request),
            ("rx_bps_max", "ingressLimit", network.ingress_limit),
        )
        for key, name, bandwidth in rates:
            where = f"NodeSLO: resourceQOSStrategy.{qos.lower()}Class.networkQOS.{name}"
            asked = bandwidth if network.enable else Bandwidth()
            lines[f"offline_{level}_{key}"] = _bytes(asked, total, where, ignored)
    return lines


def _bytes(bandwidth: Bandwidth, total: int, where: str, ignored: list[str]) -> int:
    try:
        return bits_of(bandwidth, total, where) // 8
    except ValueError as error:
        ignored.append(f"{error} (ignored)")
        return 0


def _pod(pod: Pod, ignored: list[str]) -> Mapping[str, object]:
    try:
        limits = pod_bandwidth(pod)
    except ValueError as error:
        ignored.append(f"{error} (ignored)")
        limits = PodBandwidth()
    return {
        "podName": pod.name,
        "podNamespace": pod.namespace,
        "podUID": pod.uid,
        "prio": _priority(pod),
        "cgroupDir": f"{_CGROUPS}/{pod.cgroup_parent.strip('/')}",
        "qosConfig": {
            "ingressBandwidth": limits.ingress // 8,
            "egressBandwidth": limits.egress // 8,
        },
    }


def _priority(pod: Pod) -> int:
    qos = qos_class(pod.labels)
    if qos in _PRIORITIES:
        return _PRIORITIES[qos]
    return 2 if kube_qos(pod.cgroup_parent) is KubeQoS.BEST_EFFORT else 1
