"""Containers get what resource plugins have allocated for them.

The agent asks the plugins while a pod's sandbox waits; here is only their answer, which is the
same for a container that is made, updated, or runs already. CPUs and memory nodes that the
scheduler chose (resource-status) win over those of plugins.
"""

from __future__ import annotations

from dataclasses import replace

from koord_model.allocation import allocated_patch
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.resource_status import usable_status
from koord_model.resources import LinuxResources

from koord_hooks.specs import hookimpl


@hookimpl
def pre_run_pod_sandbox(pod: Pod) -> Patch | None:
    """Change nothing; it is here so that the call is made, during which plugins are asked."""
    return None


@hookimpl
def pre_create_container(container: Container, view: NodeView) -> Patch | None:
    return _patch(container, view)


@hookimpl
def pre_update_container_resources(container: Container, view: NodeView) -> Patch | None:
    patch = _patch(container, view)
    # A container that exists keeps its environment.
    return replace(patch, env={}) if patch else None


def _patch(container: Container, view: NodeView) -> Patch | None:
    allocation = view.allocations.get(container.pod.uid, {}).get(container.name)
    if not allocation:
        return None
    patch = allocated_patch(allocation, view.online)
    limits = patch.resources
    if (limits.cpuset_cpus, limits.cpuset_mems) == (None, None) or not _is_placed(container, view):
        return patch
    rest: LinuxResources = replace(limits, cpuset_cpus=None, cpuset_mems=None)
    why = f"{patch.why}; cpusets are left to resource-status"
    return replace(patch, resources=rest, why=why)


def _is_placed(container: Container, view: NodeView) -> bool:
    """True if the scheduler chose CPUs or NUMA nodes that this node has."""
    try:
        status, _ = usable_status(container.pod, view.online)
    except ValueError:
        return False  # who reads it for what it says, reports it
    return bool(status.cpuset or status.numa_nodes)
