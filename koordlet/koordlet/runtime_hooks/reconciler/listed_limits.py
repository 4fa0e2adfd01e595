"""The kubelet's listed limits that strategies change, which are CPU quotas. No IO."""

from __future__ import annotations

from collections.abc import Mapping

from koord_host.knobs.layout import Layout
from koord_host.planning.desired_values import Target
from koord_host.planning.ordering import QUOTA
from koord_host.resource_executor.kubelet_limits import LISTED_PERIOD
from koord_model.demand import Amounts
from koord_model.keys import CPU
from koord_model.pod import Container, runs_in_vm

from koordlet.states_informer.state.cgroup_paths import container_group
from koordlet.states_informer.state.pod_inventory import PodRecord

_LEAST_QUOTA = 1000
"""µs: the kubelet rounds smaller ones up to it."""


def listed_limits(record: PodRecord, layout: Layout) -> Mapping[Target, int]:
    """The quotas of a pod and its containers, as far as they are known, for a period of 100 ms.

    What a container has counts. Where it is to have another, it is being resized, and what its
    pod has is not known.
    """
    if runs_in_vm(record.pod):
        return {}
    found: dict[Target, int] = {}
    pod = _of_pod(record)
    for container in record.containers.values():
        has, asked = _of_container(container), _asked(record, container)
        if has is not None and has != asked:
            pod = None
        if (quota := has or asked) is not None:
            found[Target(container_group(record, container, layout), QUOTA)] = quota
    if pod is not None:
        found[Target(layout.group_of_parent(record.pod.cgroup_parent), QUOTA)] = pod
    return found


def _of_container(container: Container) -> int | None:
    quota, period = container.resources.cpu_quota or 0, container.resources.cpu_period
    return quota * LISTED_PERIOD // (period or LISTED_PERIOD) if quota > 0 else None


def _asked(record: PodRecord, container: Container) -> int | None:
    limits = record.demand.container_limits if record.demand else {}
    return _quota(limits.get(container.name, {}))


def _of_pod(record: PodRecord) -> int | None:
    quota = record.pod.resources.cpu_quota or 0
    if quota > 0 or record.demand is None:
        return quota or None
    limits = record.demand.container_limits.values()
    return _quota(record.demand.limits) if all(map(_quota, limits)) else None


def _quota(limits: Amounts) -> int | None:
    milli = limits.get(CPU, 0)
    return max(milli * LISTED_PERIOD // 1000, _LEAST_QUOTA) if milli > 0 else None
