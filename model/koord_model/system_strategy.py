"""``systemStrategy`` of a NodeSLO: settings of the whole machine's kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SystemStrategy:
    """``None`` leaves a setting alone.

    ``min_free_kbytes_factor`` is in 1/10000 of the memory, ``watermark_scale_factor`` as the
    sysctl has it. The others are of vendors' kernels; ``sched_features`` are switches by name.
    """

    min_free_kbytes_factor: int | None = None
    watermark_scale_factor: int | None = None
    memcg_reap_background: int | None = None
    sched_group_identity_enabled: int | None = None
    sched_idle_saver_wmark: int | None = None
    page_cache_limit_enabled: int | None = None
    sched_features: Mapping[str, bool] = field(default_factory=dict)
