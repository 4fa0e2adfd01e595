"""Containers run on the CPUs that the scheduler, or the node's pools, give them.

The first rule that fits decides:

1. CPUs of its own, from the pod's resource-status annotation.
2. The shared pools of the NUMA nodes the scheduler chose. For BE pods these are the
   pools of best-effort pods, on nodes that have such.
   Otherwise, CPUs by a resource plugin: they are left to the plugin ``resourceplugins``.
3. SYSTEM pods: the node's CPUs for the system, where it has some set apart.
4. LS pods: their named pool (Katalyst's ``cpuset_pool``) where the node has it, else all shared
   pools.
5. Pods in the best-effort cgroup: no cpuset of their own; the agent confines
   that cgroup as a whole.
6. The kubelet assigns CPUs itself (static policy): nothing is changed.
7. Everything else: all shared pools.

Rules 2 to 7 need the node's topology. A pod with CPUs of its own also loses its
CPU quota, which could only throttle it; a BE pod keeps it, as it is its limit. CPUs
that this node does not have are ignored: the next rules decide.

Applications outside Kubernetes: LS ones have all shared pools, others are left alone.
"""

from __future__ import annotations

from dataclasses import replace

from koord_model.allocation import allocated_patch
from koord_model.cpu_pools import pool_of
from koord_model.node import NodeView, SharedPool, Topology
from koord_model.node_slo import HostApplication
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS, QoSClass, kube_qos, qos_class
from koord_model.resource_status import ResourceStatus, usable_status
from koord_model.resources import LinuxResources

from koord_hooks.specs import hookimpl

_NO_QUOTA = -1


@hookimpl
def pre_run_pod_sandbox(pod: Pod, view: NodeView) -> Patch | None:
    status, ignored = usable_status(pod, view.online)
    if not _loses_quota(pod, status, view):
        return Patch(ignored=ignored) if ignored else None
    return Patch(
        resources=LinuxResources(cpu_quota=_NO_QUOTA),
        why=f"resource-status gives CPUs {status.cpuset} → quota -1",
    )


@hookimpl
def pre_create_container(container: Container, view: NodeView) -> Patch | None:
    return _container(container, view)


@hookimpl
def pre_update_container_resources(container: Container, view: NodeView) -> Patch | None:
    return _container(container, view)


@hookimpl
def reconcile_host_application(application: HostApplication, view: NodeView) -> Patch | None:
    if application.qos is not QoSClass.LS or view.topology is None:
        return None
    found = _pools(view.topology.shared_pools, f"LS application {application.name}, shared pools")
    return _cpuset(found) if found else None


def _container(container: Container, view: NodeView) -> Patch | None:
    status, ignored = usable_status(container.pod, view.online)
    if status.cpuset:
        return _own_cpus(container.pod, status, view)
    if not status.numa_nodes and _has_plugin_cpus(container, view):
        return Patch(ignored=ignored) if ignored else None
    found = _by_rule(container.pod, status, view.topology) if view.topology else None
    if found is None:
        return Patch(ignored=ignored) if ignored else None
    return replace(_cpuset(found), ignored=ignored)


def _has_plugin_cpus(container: Container, view: NodeView) -> bool:
    allocation = view.allocations.get(container.pod.uid, {}).get(container.name)
    if not allocation:
        return False
    return allocated_patch(allocation, view.online).resources.cpuset_cpus is not None


def _cpuset(found: tuple[str, str]) -> Patch:
    cpus, why = found
    shown = cpus or "(none of its own)"
    return Patch(resources=LinuxResources(cpuset_cpus=cpus), why=f"{why} → cpuset {shown}")


def _own_cpus(pod: Pod, status: ResourceStatus, view: NodeView) -> Patch:
    why = f"resource-status gives CPUs {status.cpuset} → cpuset {status.cpuset}"
    if not _loses_quota(pod, status, view):
        return Patch(resources=LinuxResources(cpuset_cpus=status.cpuset), why=why)
    resources = LinuxResources(cpuset_cpus=status.cpuset, cpu_quota=_NO_QUOTA)
    return Patch(resources=resources, why=f"{why}, quota -1")


def _loses_quota(pod: Pod, status: ResourceStatus, view: NodeView) -> bool:
    if not view.unset_cpu_quota:
        return False
    return bool(status.cpuset) and qos_class(pod.labels) is not QoSClass.BE


def _by_rule(pod: Pod, status: ResourceStatus, topology: Topology) -> tuple[str, str] | None:
    """Rules 2 to 7: the CPU list and why, or ``None`` for "leave it"."""
    qos = qos_class(pod.labels)
    near, kind = topology.shared_pools, "shared"
    if qos is QoSClass.BE:
        near, kind = topology.be_shared_pools or (), "best-effort"
    if status.numa_nodes and (qos is not QoSClass.BE or topology.be_shared_pools is not None):
        nodes = ", ".join(str(node) for node in sorted(status.numa_nodes))
        return _pools(near, f"{kind} pools of NUMA nodes {nodes}", status.numa_nodes)
    if qos is QoSClass.SYSTEM and topology.system_cpuset:
        return topology.system_cpuset, "SYSTEM pod"
    if qos is QoSClass.LS:
        return _named_pool(pod, topology) or _pools(
            topology.shared_pools, "LS pod, all shared pools"
        )
    if kube_qos(pod.cgroup_parent) is KubeQoS.BEST_EFFORT:
        return "", "best-effort pod"
    if topology.kubelet_policy == "static":
        return None
    return _pools(topology.shared_pools, "all shared pools")


def _named_pool(pod: Pod, topology: Topology) -> tuple[str, str] | None:
    if not topology.named_pools:
        return None
    name = pool_of(pod)
    found = (pool.cpuset for pool in topology.named_pools if pool.name == name)
    return next(((cpus, f"LS pod of pool {name}") for cpus in found), None)


def _pools(
    pools: tuple[SharedPool, ...], why: str, nodes: frozenset[int] | None = None
) -> tuple[str, str] | None:
    """The pools' CPUs; ``None`` where they have none: an empty list would lift every bound."""
    listed = [
        pool.cpuset for pool in pools if pool.cpuset and (nodes is None or pool.numa_node in nodes)
    ]
    return (",".join(listed), why) if listed else None
