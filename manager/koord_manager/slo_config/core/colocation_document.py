"""``colocation-config``, and a Node's own annotation and labels. No IO."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec
from koord_kube.definitions.schema import Schema
from koord_model import duration
from koord_model.annotations import decode
from koord_model.fields import Fields, plain_number, text
from koord_model.keys import (
    ANNOTATION_COLOCATION_STRATEGY,
    LABEL_CPU_RECLAIM_RATIO,
    LABEL_MEMORY_RECLAIM_RATIO,
    LABEL_MID_STATIC_CPU_RATIO,
    LABEL_MID_STATIC_MEMORY_RATIO,
)
from koord_model.metric_policy import MOST_SECONDS

from koord_manager.slo_config.core.colocation import ColocationStrategy, MidReclaimMode, Smoothing
from koord_manager.slo_config.core.schema import fields_of

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


def _windows(fields: Fields, name: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    expected = f'up to {_MOST_WINDOWS} durations from 1s to 12h like "5m"'
    return fields.of(name).take("durations", usual, _durations, expected)


def _durations(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > _MOST_WINDOWS:
        raise ValueError(given)
    if not all(1 <= duration.seconds(text(item)) <= MOST_SECONDS for item in given):
        raise ValueError(given)
    return tuple(given)


def _mid_mode(fields: Fields, name: str, usual: MidReclaimMode) -> MidReclaimMode:
    # Not ``word``: here "" is a mode, the way back from what the cluster has.
    return fields.take(name, usual, lambda given: MidReclaimMode(text(given)), "static")


def _diff_threshold(fields: Fields, name: str, usual: float) -> float:
    return fields.take(name, usual, _fraction, "above 0, up to 1")


def _fraction(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1:
        raise ValueError(given)
    return float(given)


_SMOOTHING: Mapping[str, tuple[str, int, int]] = {
    "fallPercent": ("fall_percent", 0, 100),
    "risePercent": ("rise_percent", 0, 100),
    "stepSeconds": ("step_seconds", 1, _WEEK),
    "holdSeconds": ("hold_seconds", 0, _WEEK),
}
"""Our own fields in ``extensions.pykoord.smoothing``, and their bounds."""


def _extensions(fields: Fields, name: str, usual: Smoothing) -> Smoothing:
    ours = fields.of(name).of("pykoord").of("smoothing")
    found = {
        attribute: ours.number(field, getattr(usual, attribute), low, high)
        for field, (attribute, low, high) in _SMOOTHING.items()
    }
    return Smoothing(**found)


_Reader = Callable[[Fields, str, Any], Any]
"""Takes a field by its name, or what is usual."""


def _number(low: int, high: int) -> _Reader:
    return lambda fields, name, usual: fields.number(name, usual, low, high)


_percent = _number(0, 100)
_oversold = _number(0, MOST_OVERSOLD)

_FIELDS: Mapping[str, tuple[str, _Reader]] = {
    "enable": ("enable", Fields.flag),
    "metricAggregateDurationSeconds": ("metric_aggregate_seconds", _number(1, MOST_SECONDS)),
    "metricReportIntervalSeconds": ("metric_report_seconds", _number(1, MOST_SECONDS)),
    "metricAggregatePolicy": ("metric_aggregate_durations", _windows),
    "metricMemoryCollectPolicy": ("metric_memory_policy", Fields.word),
    "cpuReclaimThresholdPercent": ("cpu_reclaim_percent", _percent),
    "cpuCalculatePolicy": ("cpu_policy", Fields.word),
    "memoryReclaimThresholdPercent": ("memory_reclaim_percent", _percent),
    "memoryCalculatePolicy": ("memory_policy", Fields.word),
    "degradeTimeMinutes": ("degrade_minutes", _number(1, _WEEK // 60)),
    "updateTimeThresholdSeconds": ("update_seconds", _number(1, _WEEK)),
    "resourceDiffThreshold": ("diff_threshold", _diff_threshold),
    "midReclaimMode": ("mid_mode", _mid_mode),
    "midCPUThresholdPercent": ("mid_cpu_percent", _percent),
    "midMemoryThresholdPercent": ("mid_memory_percent", _percent),
    "midUnallocatedPercent": ("mid_unallocated_percent", _percent),
    "midStaticCPUReservedPercent": ("mid_static_cpu_percent", _percent),
    "midStaticMemoryReservedPercent": ("mid_static_memory_percent", _percent),
    "batchCPUThresholdPercent": ("batch_cpu_percent", _oversold),
    "batchMemoryThresholdPercent": ("batch_memory_percent", _oversold),
    "extensions": ("smoothing", _extensions),
}
"""Every field of the document: where ``ColocationStrategy`` has it, and how it is read."""

_FREE: Schema = {"x-kubernetes-preserve-unknown-fields": True}
SCHEMA: Schema = fields_of(
    _FIELDS,
    metricAggregatePolicy=fields_of(["durations"]),
    # Vendors' extensions are theirs; ours are known.
    extensions=_FREE | fields_of([], pykoord=fields_of([], smoothing=fields_of(_SMOOTHING))),
)
"""The names of all fields; what they may hold is known to the readers above."""


def overlay(
    usual: ColocationStrategy, document: Mapping[str, object], where: str, problems: list[str]
) -> ColocationStrategy:
    """The strategy in a document, laid over ``usual``."""
    fields = Fields(document, where, problems)
    found = {
        attribute: read(fields, name, getattr(usual, attribute))
        for name, (attribute, read) in _FIELDS.items()
    }
    return replace(usual, **found, source=where.rstrip(":") if document else usual.source)


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
        percent = labels.take(key, usually, _percent_of_ratio, "0 to 1", f"{usually} percent kept")
        found = replace(found, **{field: percent})  # type: ignore[arg-type]
    return found, tuple(ignored)


def on_node(
    usual: ColocationStrategy, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> tuple[ColocationStrategy, tuple[str, ...]]:
    """A Node's own settings merged over the ConfigMap's; a line for each that is ignored."""
    ratios = tuple((key, labels[key]) for key in _RATIOS if key in labels)
    annotation = annotations.get(ANNOTATION_COLOCATION_STRATEGY, "")
    if not (annotation or ratios):
        return usual, ()
    found, ignored = _on_node(usual, annotation, ratios)
    sources = (ANNOTATION_COLOCATION_STRATEGY, *(key for key, _ in ratios))[not annotation :]
    return replace(found, source=", ".join((usual.source, *sources))), ignored


def _percent_of_ratio(given: object) -> int:
    """A ratio in a label; Koordinator cuts 0.29 × 100 down to 28."""
    ratio = plain_number(given)
    if not math.isfinite(ratio) or not 0 <= ratio <= 1:
        raise ValueError(given)
    return round(ratio * 100)
