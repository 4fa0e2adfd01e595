"""Batch pods get the CPU weight, CPU quota and memory limit they asked for.

The kubelet does not know ``batch-cpu`` and ``batch-memory``, so that without
this plugin a batch pod runs with the least weight and without any limit.
Quotas are computed for the kernel's default period of 100 ms; where the
container has another period, the quota is scaled to it, so that the share of
CPU time stays what was asked for.

A pod has what its containers have together, or what an init container before them has with those
that go on beside them, whichever is more.

An amount that cannot be read costs only its own limit, which is left as it is: it is
not known to be unlimited.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from koord_model.extended_resources import Amount, BatchResources, batch_resources, init_resources
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.qos import QoSClass, qos_class
from koord_model.resources import LinuxResources

from koord_hooks.specs import hookimpl

_LEAST_SHARES, _MOST_SHARES = 2, 262144
_PERIOD = 100_000
_LEAST_QUOTA = 1000  # µs; the kernel refuses less, whatever the period
_NO_LIMIT = -1


@hookimpl
def pre_run_pod_sandbox(pod: Pod, view: NodeView) -> Patch | None:
    found = _of_batch_pod(pod)
    if found is None:
        return None
    listed = {**found.inits, **found.containers}.values()
    stages = _stages(found)
    unusable = frozenset().union(*(container.unusable for container in listed))
    whole_pod = BatchResources(
        cpu_request=_most(_sum(resources.cpu_request for resources in stage) for stage in stages),
        cpu_limit=_most_if_all(
            _sum_if_all(resources.cpu_limit for resources in stage) for stage in stages
        ),
        memory_limit=_most_if_all(
            _sum_if_all(resources.memory_limit for resources in stage) for stage in stages
        ),
        # Without one container's limit the pod's is not known; its weight is only less.
        unusable=unusable - {"cpu_request"},
        ignored=tuple(line for container in listed for line in container.ignored),
    )
    return _patch(whole_pod, pod.resources.cpu_period, view)


@hookimpl
def pre_create_container(container: Container, view: NodeView) -> Patch | None:
    return _container(container, view)


@hookimpl
def pre_update_container_resources(container: Container, view: NodeView) -> Patch | None:
    return _container(container, view)


def _container(container: Container, view: NodeView) -> Patch | None:
    found = _of_batch_pod(container.pod)
    if found is None:
        return None
    asked = found.containers.get(container.name) or found.inits.get(container.name)
    return _patch(asked, container.resources.cpu_period, view) if asked else None


class _PodRequests(NamedTuple):
    """Batch resources of a pod's containers and init containers."""

    containers: Mapping[str, BatchResources]
    inits: Mapping[str, BatchResources]


def _of_batch_pod(pod: Pod) -> _PodRequests | None:
    if qos_class(pod.labels) is not QoSClass.BE:
        return None
    found = _PodRequests(batch_resources(pod) or {}, init_resources(pod))
    return found if found.containers or found.inits else None


def _stages(found: _PodRequests) -> list[list[BatchResources]]:
    """Return the containers that run at the same time, by stage of the pod's start."""
    beside = [resources for name, resources in found.containers.items() if name in found.inits]
    before = [resources for name, resources in found.inits.items() if name not in found.containers]
    # Containers that ask for nothing have no limit, and then the pod has none.
    together = list(found.containers.values()) or [BatchResources()]
    return [together, *([init, *beside] for init in before)]


def _patch(asked: BatchResources, period: int | None, view: NodeView) -> Patch:
    shares, why_shares = _usable(asked, "cpu_request", _shares(asked.cpu_request))
    limited = _quota(asked.cpu_limit, period or _PERIOD, view)
    quota, why_quota = _usable(asked, "cpu_limit", limited) if view.be_cfs_quota else limited
    memory, why_memory = _usable(asked, "memory_limit", _memory(asked.memory_limit))
    return Patch(
        resources=LinuxResources(cpu_shares=shares, cpu_quota=quota, memory_limit=memory),
        why=f"{why_shares}; {why_quota}; {why_memory}",
        ignored=asked.ignored,
    )


def _usable(
    asked: BatchResources, field: str, found: tuple[int, str]
) -> tuple[int, str] | tuple[None, str]:
    if field not in asked.unusable:
        return found
    return None, f"{field.replace('_', ' ')} cannot be read → left as it is"


def _shares(request: Amount | None) -> tuple[int, str]:
    if request is None:
        return _LEAST_SHARES, f"no batch-cpu request → cpu.shares {_LEAST_SHARES}"
    shares = min(max(request.value * 1024 // 1000, _LEAST_SHARES), _MOST_SHARES)
    return shares, f"batch-cpu request {request.text} → cpu.shares {shares}"


def _quota(limit: Amount | None, period: int, view: NodeView) -> tuple[int, str]:
    if not view.be_cfs_quota:
        return _NO_LIMIT, "best-effort pods are limited as one group → quota -1"
    if limit is None or limit.value <= 0:
        return _NO_LIMIT, "no limit → quota -1"
    quota = max(limit.value * _PERIOD // 1000, _LEAST_QUOTA)
    steps = [f"limit {limit.text} → quota {quota}"]
    if view.cpu_normalization_ratio > 1:
        quota = math.ceil(quota / view.cpu_normalization_ratio)
        steps.append(f"divided by CPU speed {view.cpu_normalization_ratio:g} → {quota}")
    if period != _PERIOD:
        quota = -(-quota * period // _PERIOD)
        steps.append(f"for period {period} → {quota}")
    if quota < _LEAST_QUOTA:
        quota = _LEAST_QUOTA
        steps.append(f"at least {quota}")
    return quota, ", ".join(steps)


def _memory(limit: Amount | None) -> tuple[int, str]:
    if limit is None or limit.value <= 0:
        return _NO_LIMIT, "no batch-memory limit → -1"
    return limit.value, f"batch-memory limit {limit.text} → {limit.value}"


def _sum(amounts: Iterable[Amount | None]) -> Amount | None:
    known = [amount for amount in amounts if amount is not None]
    if not known:
        return None
    return Amount(sum(amount.value for amount in known), " + ".join(a.text for a in known))


def _most(amounts: Iterable[Amount | None]) -> Amount | None:
    known = [amount for amount in amounts if amount is not None]
    return max(known, key=lambda amount: amount.value, default=None)


def _most_if_all(amounts: Iterable[Amount | None]) -> Amount | None:
    """The most, or ``None`` as soon as one stage has no limit."""
    listed = list(amounts)
    return None if None in listed else _most(listed)


def _sum_if_all(amounts: Iterable[Amount | None]) -> Amount | None:
    """The sum, or ``None`` as soon as one container has no limit: then the pod has none."""
    listed = list(amounts)
    if any(amount is None or amount.value <= 0 for amount in listed):
        return None
    return _sum(listed)
