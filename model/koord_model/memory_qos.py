"""Memory QoS of a class, as the NodeSLO's ``memoryQOS`` asks, or of a pod by its annotation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from koord_model.annotations import fields_of
from koord_model.fields import Fields
from koord_model.keys import ANNOTATION_MEMORY_QOS
from koord_model.pod import Pod
from koord_model.qos import QoSClass, kube_qos, qos_class_or_default

MOST_BYTES = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class MemoryQoS:
    """Protection and throttling of a pod's memory; a disabled class is neutral.

    ``min_limit``, ``low_limit`` are percent of the request; ``throttling`` is where between
    request and limit (0: nowhere). ``wmark_*`` are of vendors' kernels: ratio in percent,
    scale in permill, adj -25 to 50. ``page_cache_limit_percent`` is of the limit,
    ``page_cache_limit_size`` bytes. ``None`` leaves a knob alone.
    """

    enable: bool = False
    min_limit: int = 0
    low_limit: int = 0
    throttling: int = 0
    wmark_ratio: int = 0
    wmark_scale_permill: int = 50
    wmark_min_adj: int = 0
    priority_enable: int | None = None
    priority: int | None = None
    oom_kill_group: int | None = None
    """``None``, not 0: the kubelet may have set it, and knows why."""
    page_cache_enable: bool | None = None
    page_cache_limit_percent: int | None = None
    page_cache_limit_size: int | None = None
    page_cache_reclaim_sync: bool | None = None


class PodPolicy(StrEnum):
    """Base of the settings in a pod's annotation."""

    DEFAULT = "default"  # what its class has
    NONE = "none"  # nothing
    AUTO = "auto"  # what is recommended for its class, enabled or not


_LATENCY_SENSITIVE = MemoryQoS(wmark_ratio=95, wmark_scale_permill=20, wmark_min_adj=-25)

RECOMMENDED: Mapping[QoSClass, MemoryQoS] = {
    QoSClass.LSE: _LATENCY_SENSITIVE,
    QoSClass.LSR: _LATENCY_SENSITIVE,
    QoSClass.LS: _LATENCY_SENSITIVE,
    QoSClass.BE: MemoryQoS(wmark_ratio=95, wmark_scale_permill=20, wmark_min_adj=50),
    QoSClass.SYSTEM: MemoryQoS(),
}
"""Koordinator's: what holds for a class that is enabled without saying more."""


def read(fields: Fields, usual: MemoryQoS) -> MemoryQoS:
    """A class's section, laid over what is recommended; neutral where it is not enabled."""
    enable = fields.flag("enable", default=False)
    found = replace(_laid_over(fields, usual), enable=enable)
    return found if enable else MemoryQoS()


def of_pod(pod: Pod, of_class: MemoryQoS) -> tuple[MemoryQoS, tuple[str, ...]]:
    """Return the settings of a pod of a class; and lines on ignored parts.

    The fields of the annotation ``koordinator.sh/memoryQOS`` are laid over what its
    ``policy`` names; with "none" they count for nothing.
    """
    ignored: list[str] = []
    fields = fields_of(pod, ANNOTATION_MEMORY_QOS, ignored)
    if fields is None:
        return of_class, tuple(ignored)
    policy = fields.word("policy", PodPolicy.DEFAULT)
    if policy is PodPolicy.NONE:
        return MemoryQoS(), tuple(ignored)
    usual = of_class
    if policy is PodPolicy.AUTO:
        qos = qos_class_or_default(pod.labels, kube_qos(pod.cgroup_parent))
        usual = replace(RECOMMENDED[qos], enable=True)
    found = _laid_over(fields, usual)
    # A pod asks for itself, whatever its class has.
    return found if found == usual else replace(found, enable=True), tuple(ignored)


def _laid_over(fields: Fields, usual: MemoryQoS) -> MemoryQoS:
    return MemoryQoS(
        enable=usual.enable,
        min_limit=fields.number("minLimitPercent", usual.min_limit, 0, 100),
        low_limit=fields.number("lowLimitPercent", usual.low_limit, 0, 100),
        throttling=fields.number("throttlingPercent", usual.throttling, 0, 100),
        wmark_ratio=fields.number("wmarkRatio", usual.wmark_ratio, 0, 100),
        wmark_scale_permill=fields.number("wmarkScalePermill", usual.wmark_scale_permill, 1, 1000),
        wmark_min_adj=fields.number("wmarkMinAdj", usual.wmark_min_adj, -25, 50),
        priority_enable=fields.number("priorityEnable", usual.priority_enable, 0, 1),
        priority=fields.number("priority", usual.priority, 0, 12),
        oom_kill_group=fields.number("oomKillGroup", usual.oom_kill_group, 0, 1),
        page_cache_enable=fields.flag("pageCacheEnable", usual.page_cache_enable),
        page_cache_limit_percent=fields.number(
            "pageCacheLimitPercent", usual.page_cache_limit_percent, 0, 100
        ),
        page_cache_limit_size=fields.number(
            "pageCacheLimitSize", usual.page_cache_limit_size, 0, MOST_BYTES
        ),
        page_cache_reclaim_sync=fields.flag("pageCacheReclaimSync", usual.page_cache_reclaim_sync),
    )
