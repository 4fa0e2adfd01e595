"""On a node with faster CPUs, pods get less CPU time for the same work.

The quota of LS pods, and of pods without a class, is divided by how much faster a
CPU here is than the cluster's reference, which the node's annotation says. Nobody
else's quota is touched: of BE pods batchresource divides it, and pods with CPUs of
their own (LSE, LSR, or ``resource-status``) have none, so that no two plugins can want
different quotas.

What is divided must be what the kubelet asked for. When a container is updated, a
transport may show the quota that was set before, which would be divided again; so
what was asked for is kept in an annotation of the container, beside what was made
of it. A quota that is not the latter is a new request.
"""

from __future__ import annotations

import math
import re

from koord_model.keys import ANNOTATION_CPU_QUOTA_ASKED
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.qos import QoSClass, qos_class
from koord_model.resource_status import usable_status
from koord_model.resources import LinuxResources

from koord_hooks.specs import hookimpl

_LEAST_QUOTA = 1000  # µs; the kernel refuses less, whatever the period
_KEPT = re.compile(r"([0-9]{1,18}) as ([0-9]{1,18})")


@hookimpl
def pre_run_pod_sandbox(pod: Pod, view: NodeView) -> Patch | None:
    asked = pod.resources.cpu_quota or 0
    if asked <= 0 or view.cpu_normalization_ratio <= 1 or not _shares_cpus(pod, view):
        return None
    quota, why = _divided(asked, view.cpu_normalization_ratio)
    return Patch(resources=LinuxResources(cpu_quota=quota), why=why)


@hookimpl
def pre_create_container(container: Container, view: NodeView) -> Patch | None:
    return _container(container, view)


@hookimpl
def pre_update_container_resources(container: Container, view: NodeView) -> Patch | None:
    return _container(container, view)


def _container(container: Container, view: NodeView) -> Patch | None:
    quota, ratio = container.resources.cpu_quota or 0, view.cpu_normalization_ratio
    asked, seen = _asked(container, quota)
    if quota <= 0 or (ratio <= 1 and not seen) or not _shares_cpus(container.pod, view):
        return None
    wanted, why = _divided(asked, ratio)
    return Patch(
        resources=LinuxResources(cpu_quota=wanted),
        annotations={ANNOTATION_CPU_QUOTA_ASKED: f"{asked} as {wanted}"},
        why=why,
    )


def _asked(container: Container, quota: int) -> tuple[int, bool]:
    """The quota the kubelet asked for, and whether ``quota`` is what we made of it."""
    kept = _KEPT.fullmatch(container.annotations.get(ANNOTATION_CPU_QUOTA_ASKED, ""))
    if kept is not None and int(kept[2]) == quota:
        return int(kept[1]), True
    return quota, False


def _shares_cpus(pod: Pod, view: NodeView) -> bool:
    if qos_class(pod.labels) not in (QoSClass.LS, QoSClass.NONE):
        return False
    return not usable_status(pod, view.online)[0].cpuset


def _divided(asked: int, ratio: float) -> tuple[int, str]:
    if ratio <= 1:
        return asked, f"quota {asked} again, as this node's CPUs are no faster"
    quota = max(math.ceil(asked / ratio), _LEAST_QUOTA)
    bound = f", at least {_LEAST_QUOTA}" if quota == _LEAST_QUOTA else ""
    return quota, f"quota {asked} divided by CPU speed {ratio:g}{bound} → {quota}"
