"""CPU burst, as a NodeSLO's ``cpuBurstStrategy`` and pods' annotations ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from koord_model.annotations import fields_of
from koord_model.fields import Fields
from koord_model.keys import ANNOTATION_CPU_BURST
from koord_model.pod import Pod

MOST_QUOTA_PERCENT = 1_000_000
MOST_QUOTA_SECONDS = 10**9


class BurstPolicy(StrEnum):
    """Help for pods that run into their CPU limit."""

    NONE = "none"
    CPU_BURST = "cpuBurstOnly"  # what they did not use lately they may use at once
    QUOTA_BURST = "cfsQuotaBurstOnly"  # while the node has room, their quota grows
    AUTO = "auto"  # both


@dataclass(frozen=True, slots=True)
class CPUBurst:
    """Percentages are of a container's limit.

    ``quota_period_seconds`` is how long a quota may stay raised, -1: for ever.
    ``share_pool_threshold`` is how full, in percent, the CPUs that pods share may be; a
    node's, not a pod's.
    """

    policy: BurstPolicy = BurstPolicy.NONE
    burst_percent: int = 1000
    quota_percent: int = 300
    quota_period_seconds: int = -1
    share_pool_threshold: int = 50


def read(fields: Fields, usual: CPUBurst) -> CPUBurst:
    """A node's section, laid over ``usual``."""
    threshold = fields.number("sharePoolThresholdPercent", usual.share_pool_threshold, 0, 100)
    return replace(_of_limits(fields, usual), share_pool_threshold=threshold)


def of_pod(pod: Pod, node: CPUBurst) -> tuple[CPUBurst, tuple[str, ...]]:
    """Return a pod's settings: its annotation over the node's; and lines on ignored parts."""
    ignored: list[str] = []
    fields = fields_of(pod, ANNOTATION_CPU_BURST, ignored)
    found = node if fields is None else _of_limits(fields, node)
    return found, tuple(ignored)


def _of_limits(fields: Fields, usual: CPUBurst) -> CPUBurst:
    return CPUBurst(
        policy=fields.word("policy", usual.policy),
        burst_percent=fields.number("cpuBurstPercent", usual.burst_percent, 1, 10_000),
        quota_percent=fields.number(
            "cfsQuotaBurstPercent", usual.quota_percent, 100, MOST_QUOTA_PERCENT
        ),
        quota_period_seconds=fields.number(
            "cfsQuotaBurstPeriodSeconds", usual.quota_period_seconds, -1, MOST_QUOTA_SECONDS
        ),
        share_pool_threshold=usual.share_pool_threshold,
    )
