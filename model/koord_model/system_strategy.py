"""``systemStrategy`` of a NodeSLO: settings of the whole machine's kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from koord_model.fields import Fields

MOST = (1 << 31) - 1
"""Largest value of a sysctl of the kernel's type ``int``."""

_FEATURE = re.compile(r"(?!NO_)[A-Z][A-Z0-9_]{0,62}")


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


def read(fields: Fields) -> SystemStrategy:
    """The section; what it does not say is left alone.

    Only what is not a number for the setting is refused here: what the kernel can be given
    depends on the machine (``koordlet.qos_manager.strategies.system_config``).
    """
    return SystemStrategy(
        min_free_kbytes_factor=fields.number("minFreeKbytesFactor", None, 1, 10_000),
        watermark_scale_factor=fields.number("watermarkScaleFactor", None, 1, MOST),
        memcg_reap_background=fields.number("memcgReapBackGround", None, 0, 1),
        sched_group_identity_enabled=fields.number("schedGroupIdentityEnabled", None, 0, 1),
        sched_idle_saver_wmark=fields.number("schedIdleSaverWmark", None, 0, MOST),
        page_cache_limit_enabled=fields.number("pageCacheLimitEnabled", None, 0, 1),
        sched_features=_features(fields.of("schedFeatures")),
    )


def _features(fields: Fields) -> Mapping[str, bool]:
    found = {}
    for name, _ in fields.entries():
        if _FEATURE.fullmatch(name) is None:
            fields.refuse(name, 'a feature\'s name like "NEXT_BUDDY"', "left out")
        elif (on := fields.flag(name, None)) is not None:
            found[name] = on
    return found
