"""``colocation-config``, and what a Node's own annotation and labels say instead. No IO."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import msgspec
from koord_model import duration
from koord_model.annotations import decode
from koord_model.fields import Fields, text
from koord_model.keys import (
    ANNOTATION_COLOCATION_STRATEGY,
    LABEL_CPU_RECLAIM_RATIO,
    LABEL_MEMORY_RECLAIM_RATIO,
    LABEL_MID_STATIC_CPU_RATIO,
    LABEL_MID_STATIC_MEMORY_RATIO,
)
from koord_model.metric_policy import MOST_SECONDS

from koord_manager.slo_config.colocation import ColocationStrategy, MidReclaimMode, Smoothing

MOST_OVERSOLD = 1000
"""Percent of the capacity; more is a typing error."""

_WEEK = 7 * 24 * 3600
_MOST_WINDOWS = 8
_OBJECT: msgspec.json.Decoder[dict[str, object] | None] = msgspec.json.Decoder(
    dict[str, object] | None
)

_RATIOS = {
    LABEL_CPU_RECLAIM_RATIO: "cpu_reclaim_percent",
    LABEL_MEMORY_RECLAIM_RATIO: "memory_reclaim_percent",
    LABEL_MID_STATIC_CPU_RATIO: "mid_static_cpu_percent",
    LABEL_MID_STATIC_MEMORY_RATIO: "mid_static_memory_percent",
}


def overlay(
    usual: ColocationStrategy, document: Mapping[str, object], where: str, problems: list[str]
) -> ColocationStrategy:
    """The strategy in a document, laid over ``usual``."""
    fields = Fields(document, where, problems)

    def percent(name: str, default: int) -> int:
        return fields.number(name, default, 0, 100)

    return ColocationStrategy(
        enable=fields.flag("enable", usual.enable),
        metric_aggregate_seconds=fields.number(
            "metricAggregateDurationSeconds", usual.metric_aggregate_seconds, 1, MOST_SECONDS
        ),
        metric_report_seconds=fields.number(
            "metricReportIntervalSeconds", usual.metric_report_seconds, 1, MOST_SECONDS
        ),
        metric_aggregate_durations=_windows(fields, usual.metric_aggregate_durations),
        metric_memory_policy=fields.word("metricMemoryCollectPolicy", usual.metric_memory_policy),
        cpu_reclaim_percent=percent("cpuReclaimThresholdPercent", usual.cpu_reclaim_percent),
        cpu_policy=fields.word("cpuCalculatePolicy", usual.cpu_policy),
        memory_reclaim_percent=percent(
            "memoryReclaimThresholdPercent", usual.memory_reclaim_percent
        ),
        memory_policy=fields.word("memoryCalculatePolicy", usual.memory_policy),
        degrade_minutes=fields.number("degradeTimeMinutes", usual.degrade_minutes, 1, _WEEK // 60),
        update_seconds=fields.number("updateTimeThresholdSeconds", usual.update_seconds, 1, _WEEK),
        diff_threshold=fields.take(
            "resourceDiffThreshold", usual.diff_threshold, _fraction, "above 0, up to 1"
        ),
        mid_mode=_mid_mode(fields, usual.mid_mode),
        mid_cpu_percent=percent("midCPUThresholdPercent", usual.mid_cpu_percent),
        mid_memory_percent=percent("midMemoryThresholdPercent", usual.mid_memory_percent),
        mid_unallocated_percent=percent("midUnallocatedPercent", usual.mid_unallocated_percent),
        mid_static_cpu_percent=percent("midStaticCPUReservedPercent", usual.mid_static_cpu_percent),
        mid_static_memory_percent=percent(
            "midStaticMemoryReservedPercent", usual.mid_static_memory_percent
        ),
        batch_cpu_percent=fields.number(
            "batchCPUThresholdPercent", usual.batch_cpu_percent, 0, MOST_OVERSOLD
        ),
        batch_memory_percent=fields.number(
            "batchMemoryThresholdPercent", usual.batch_memory_percent, 0, MOST_OVERSOLD
        ),
        smoothing=_smoothing(
            fields.of("extensions").of("pykoord").of("smoothing"), usual.smoothing
        ),
        source=where.rstrip(":") if document else usual.source,
    )


@lru_cache(maxsize=4096)
def _on_node(
    usual: ColocationStrategy, annotation: str, ratios: tuple[tuple[str, str], ...]
) -> tuple[ColocationStrategy, tuple[str, ...]]:
    """A cluster's nodes differ in few of these, so that thousands are a few."""
    ignored: list[str] = []
    found = usual
    where = f"annotation {ANNOTATION_COLOCATION_STRATEGY}:"
    if annotation:
        try:
            document = decode(_OBJECT, annotation) or {}
        except ValueError as error:
            ignored.append(f"{where} {error} (ignored)")
        else:
            found = overlay(usual, document, where, ignored)
    labels = Fields(dict(ratios), "label", ignored)
    for key, field in _RATIOS.items():
        usually = getattr(found, field)
        percent = labels.take(key, usually, _percent, "0 to 1", f"{usually} percent kept")
        found = replace(found, **{field: percent})  # type: ignore[arg-type]
    return found, tuple(ignored)


def on_node(
    usual: ColocationStrategy, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> tuple[ColocationStrategy, tuple[str, ...]]:
    """What a Node itself asks for, laid over what the ConfigMap says; lines on what is ignored."""
    ratios = tuple((key, labels[key]) for key in _RATIOS if key in labels)
    annotation = annotations.get(ANNOTATION_COLOCATION_STRATEGY, "")
    if not (annotation or ratios):
        return usual, ()
    found, ignored = _on_node(usual, annotation, ratios)
    said = (ANNOTATION_COLOCATION_STRATEGY, *(key for key, _ in ratios))[not annotation :]
    return replace(found, source=", ".join((usual.source, *said))), ignored


def _windows(fields: Fields, usual: tuple[str, ...]) -> tuple[str, ...]:
    expected = f'up to {_MOST_WINDOWS} durations from 1s to 12h like "5m"'
    return fields.of("metricAggregatePolicy").take("durations", usual, _durations, expected)


def _durations(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > _MOST_WINDOWS:
        raise ValueError(given)
    if not all(1 <= duration.seconds(text(one)) <= MOST_SECONDS for one in given):
        raise ValueError(given)
    return tuple(given)


def _mid_mode(fields: Fields, usual: MidReclaimMode) -> MidReclaimMode:
    # Not ``word``: here "" is a mode, the way back from what the cluster has.
    return fields.take("midReclaimMode", usual, lambda given: MidReclaimMode(text(given)), "static")


def _smoothing(fields: Fields, usual: Smoothing) -> Smoothing:
    return Smoothing(
        fall_percent=fields.number("fallPercent", usual.fall_percent, 0, 100),
        rise_percent=fields.number("risePercent", usual.rise_percent, 0, 100),
        step_seconds=fields.number("stepSeconds", usual.step_seconds, 1, _WEEK),
        hold_seconds=fields.number("holdSeconds", usual.hold_seconds, 0, _WEEK),
    )


def _fraction(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1:
        raise ValueError(given)
    return float(given)


def _percent(given: object) -> int:
    """A ratio in a label; Koordinator cuts 0.29 × 100 down to 28."""
    ratio = float(text(given))
    if not math.isfinite(ratio) or not 0 <= ratio <= 1:
        raise ValueError(given)
    return round(ratio * 100)
