"""CPU burst, as a NodeSLO's ``cpuBurstStrategy`` and pods' annotations ask for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BurstPolicy(StrEnum):
    """What is done for pods that run into their CPU limit."""

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
