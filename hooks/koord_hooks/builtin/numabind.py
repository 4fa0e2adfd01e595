"""Best-effort pods that are bound to a NUMA node have their memory there.

The node is the one that Katalyst's agent names in the annotation ``numa_bind_result``, else those
that the scheduler chose. A node that this machine does not have is ignored. CPUs are the affair of
``cpusetallocator``; LS pods keep memory of all nodes, for a node that is full would kill them.
"""

from __future__ import annotations

from koord_model import cpuset
from koord_model.annotations import about, read
from koord_model.keys import ANNOTATION_NUMA_BIND_RESULT, ANNOTATION_RESOURCE_STATUS
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.qos import QoSClass, qos_class
from koord_model.resource_status import resource_status
from koord_model.resources import LinuxResources

from koord_hooks.specs import hookimpl


@hookimpl
def pre_create_container(container: Container, view: NodeView) -> Patch | None:
    return _memory_nodes(container.pod, view)


@hookimpl
def pre_update_container_resources(container: Container, view: NodeView) -> Patch | None:
    return _memory_nodes(container.pod, view)


def _memory_nodes(pod: Pod, view: NodeView) -> Patch | None:
    if qos_class(pod.labels) is not QoSClass.BE or view.topology is None:
        return None
    key = ANNOTATION_NUMA_BIND_RESULT
    bound = read(pod, key, cpuset.parse) or frozenset()
    if not bound:
        key, bound = ANNOTATION_RESOURCE_STATUS, resource_status(pod).numa_nodes
    there = frozenset(pool.numa_node for pool in view.topology.shared_pools)
    ignored: tuple[str, ...] = ()
    if bound - there:
        missing, known = cpuset.render(bound - there), cpuset.render(there)
        line = f"{about(pod, key)}: there is no NUMA node {missing}; expected some of {known}"
        ignored = (f"{line} (memory of all nodes kept)",)
        bound = frozenset()
    if not bound:
        return Patch(ignored=ignored) if ignored else None
    mems = cpuset.render(bound)
    return Patch(
        resources=LinuxResources(cpuset_mems=mems),
        why=f"{key} → memory of NUMA node {mems}",
    )
