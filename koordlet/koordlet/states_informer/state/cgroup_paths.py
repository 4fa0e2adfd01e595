"""The cgroups of containers and of applications on the host. No IO."""

from __future__ import annotations

from koord_host.knobs.layout import Layout, ScopePrefix
from koord_model.node_slo import HostApplication
from koord_model.pod import Container
from koord_model.qos import KubeQoS, QoSClass

from koordlet.states_informer.state.pod_inventory import PodRecord

_RUNTIMES = {
    "containerd": ScopePrefix.CONTAINERD,
    "docker": ScopePrefix.DOCKER,
    "cri-o": ScopePrefix.CRIO,
}


def host_application_group(application: HostApplication, layout: Layout) -> str:
    """Its cgroup: the one it names, or its class's default for applications on the host."""
    if not application.base:
        above = {QoSClass.BE: "host-best-effort/", QoSClass.SYSTEM: "", QoSClass.NONE: ""}
        return above.get(application.qos, "host-latency-sensitive/") + application.name
    base = {
        "CgroupRoot": "",
        "Kubepods": layout.kube_qos_group(KubeQoS.GUARANTEED),
        "KubepodsBurstable": layout.kube_qos_group(KubeQoS.BURSTABLE),
        "KubepodsBesteffort": layout.kube_qos_group(KubeQoS.BEST_EFFORT),
    }[application.base]
    parts = (base, application.parent_dir, application.relative_path)
    return "/".join(part.strip("/") for part in parts if part.strip("/"))


def container_group(record: PodRecord, container: Container, layout: Layout) -> str:
    """The cgroup of a container of a pod."""
    above = layout.group_of_parent(record.pod.cgroup_parent)
    runtime = _RUNTIMES.get(record.runtime, ScopePrefix.CONTAINERD)
    return layout.container_group(above, container.id, runtime)
