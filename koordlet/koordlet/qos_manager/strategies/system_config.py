"""Settings of the whole machine's kernel, as the NodeSLO's ``systemStrategy`` asks for them.

Ranges are Koordinator's; what would be outside is left alone, since a wrong value here costs
the machine. Some settings are of vendors' kernels (Anolis, Alibaba Cloud Linux): those whose
file is not there are left alone too. A setting that is no longer asked for is restored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, NamedTuple

from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.node_slo import NodeSLO
from msgspec import Meta

from koordlet.qos_manager.core.strategy import Decision, Plan, StrategyView, Term, desired_value

GATE = "SystemConfig"
INTERVAL = "reconcile_interval_seconds"

_MIN_FREE = "vm.min_free_kbytes"
_LEAST_FREE, _MOST_FREE = 10 * 1024, 10 * 1024**2
_MOST_FREE_FACTOR = 1000
"""A tenth of the memory, ours: with half of it kept free small machines would stand still."""
_FORMULA = "min_free_kbytes = memory / 1024 × minFreeKbytesFactor / 10000"

Bit = Annotated[int, Meta(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class Settings:
    """``systemStrategy``'s; ``None`` leaves a setting alone."""

    min_free_kbytes_factor: int | None = None
    """Memory that the kernel keeps free, in 1/10000 of all: ``vm.min_free_kbytes``."""
    watermark_scale_factor: int | None = None
    """Distance of kswapd's watermarks, in 1/10000: ``vm.watermark_scale_factor``."""
    memcg_reap_background: Bit | None = None
    """Anolis: 1 frees the memory of cgroups that are gone in the background."""
    sched_group_identity_enabled: Bit | None = None
    """Anolis: whether group identities count; goes before what hooks want of it."""
    sched_idle_saver_wmark: Annotated[int, Meta(ge=0)] | None = None
    """Anolis: ns of idleness below which best-effort tasks do not wake a core."""
    page_cache_limit_enabled: Bit | None = None
    """Anolis: whether cgroups' limits of page cache count."""
    sched_features: Mapping[str, bool] | None = None
    """Switches of the scheduler; not done here, and said so."""


def settings(slo: NodeSLO) -> Settings:
    """Read the settings from the NodeSLO."""
    given = {field.name: getattr(slo.system, field.name) for field in fields(Settings)}
    return Settings(**given | {"sched_features": slo.system.sched_features or None})


class _SystemSetting(NamedTuple):
    """One setting: where it is, and what the kernel may be given."""

    name: str
    target: Target
    low: int
    high: int
    vendor: bool = True


_ROWS = (
    _SystemSetting(
        "watermark_scale_factor", Target("vm.watermark_scale_factor", "sysctl"), 10, 400, False
    ),
    _SystemSetting(
        "memcg_reap_background", Target("/sys/kernel/mm/memcg_reaper/reap_background", "file"), 0, 1
    ),
    _SystemSetting(
        "sched_group_identity_enabled",
        Target("kernel.sched_group_identity_enabled", "sysctl"),
        0,
        1,
    ),
    _SystemSetting(
        "sched_idle_saver_wmark",
        Target("kernel.sched_idle_saver_wmark", "sysctl"),
        0,
        (1 << 31) - 1,
    ),
    _SystemSetting(
        "page_cache_limit_enabled", Target("/sys/kernel/mm/pagecache_limit/enabled", "file"), 0, 1
    ),
)


class _SettingResult(NamedTuple):
    """The result of one setting; a setting that is left alone has no desired value."""

    decision: Decision
    desired: DesiredValue | None = None


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """The settings that the NodeSLO sets, that are valid, and that the kernel has."""
    before: Mapping[str, _SettingResult] = memory if isinstance(memory, dict) else {}
    found = {
        name: _as_before(knob, before.get(name)) for name, knob in _all(view, settings, before)
    }
    if not found:
        return Plan()
    return Plan(
        tuple(knob.desired for knob in found.values() if knob.desired is not None),
        tuple(knob.decision for knob in found.values()),
        memory=found,
    )


def _as_before(now: _SettingResult, before: _SettingResult | None) -> _SettingResult:
    """The same object as long as nothing else is decided."""
    return before if before is not None and before == now else now


def _all(
    view: StrategyView, settings: Settings, before: Mapping[str, _SettingResult]
) -> Iterator[tuple[str, _SettingResult]]:
    if settings.min_free_kbytes_factor is not None:
        factor, name = settings.min_free_kbytes_factor, "min_free_kbytes_factor"
        yield name, _min_free(view, factor, before.get(name))
    for row in _ROWS:
        value: int | None = getattr(settings, row.name)
        if value is not None:
            yield row.name, _setting(view, row, value)
    if settings.sched_features:
        names = ", ".join(sorted(settings.sched_features))
        outcome = f"schedFeatures ({names}) left alone: pykoord does not set them"
        yield "sched_features", _SettingResult(Decision(outcome, aspect="sched_features"))


def _min_free(view: StrategyView, factor: int, before: _SettingResult | None) -> _SettingResult:
    memory = view.memory_bytes
    if memory is None:
        kept = before.desired if before is not None else None
        stays = "stays as it was asked for" if kept else "is left alone"
        outcome = f"{_MIN_FREE} {stays}: the node's memory is not known yet"
        return _SettingResult(Decision(outcome, aspect="min_free_kbytes_factor"), kept)
    size = memory // 1024 * factor // 10_000
    given = (
        Term("memory", memory, "bytes"),
        Term("minFreeKbytesFactor", factor),
        Term("min_free_kbytes", size, "KiB"),
    )
    if factor > _MOST_FREE_FACTOR:
        why = f"minFreeKbytesFactor is {factor}; expected at most {_MOST_FREE_FACTOR}"
    elif not _LEAST_FREE <= size <= _MOST_FREE:
        why = f"{size} is out of range; expected {_LEAST_FREE} to {_MOST_FREE}"
    else:
        return _desired("min_free_kbytes_factor", Target(_MIN_FREE, "sysctl"), size, given)
    outcome = f"{_MIN_FREE} left alone: {why}"
    return _SettingResult(Decision(outcome, _FORMULA, given, aspect="min_free_kbytes_factor"))


def _setting(view: StrategyView, row: _SystemSetting, value: int) -> _SettingResult:
    place = row.target.place
    if not row.low <= value <= row.high:
        why = f"{value} is out of range; expected {row.low} to {row.high}"
        return _SettingResult(Decision(f"{place} left alone: {why}", aspect=row.name))
    if row.vendor and view.cgroups.now(*row.target) is None:
        return _SettingResult(
            Decision(f"{place} left alone: this kernel has none", aspect=row.name)
        )
    return _desired(row.name, row.target, value, ())


def _desired(name: str, target: Target, value: int, given: tuple[Term, ...]) -> _SettingResult:
    formula = _FORMULA if given else ""
    decision = Decision(f"{target.place} is to be {value}", formula, given, aspect=name)
    return _SettingResult(decision, desired_value(target.place, target.knob, str(value), decision))
