"""A Node's part in load-aware placement: its amounts, and thresholds. No IO."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec
from koord_model import duration
from koord_model.demand import Amounts, amounts
from koord_model.excerpt import excerpt
from koord_model.keys import ANNOTATION_RAW_ALLOCATABLE, ANNOTATION_USAGE_THRESHOLDS, HUGE_PAGES

from koord_scheduler.objects.annotations import NO_ANNOTATIONS, read_annotations
from koord_scheduler.objects.node import Node
from koord_scheduler.plugins.load_aware.settings import (
    AggregatedThresholds,
    LoadSettings,
    UsageWindow,
    Vector,
)

_PerCent = dict[str, int]

read_annotations(ANNOTATION_RAW_ALLOCATABLE, ANNOTATION_USAGE_THRESHOLDS)


class _Aggregated(msgspec.Struct, frozen=True, rename="camel"):
    usage_thresholds: _PerCent | None = None
    usage_aggregation_type: str = ""
    usage_aggregated_duration: str | None = None


class _Thresholds(msgspec.Struct, frozen=True, rename="camel"):
    usage_thresholds: _PerCent | None = None
    prod_usage_thresholds: _PerCent | None = None
    aggregated_usage: _Aggregated | None = None


class ThresholdOverrides(NamedTuple):
    """Per cent by resource that a node has in place of the configured ones; ``None``: it has none.

    ``window`` belongs to ``aggregated``.
    """

    usage: tuple[tuple[str, int], ...] | None = None
    prod: tuple[tuple[str, int], ...] | None = None
    aggregated: tuple[tuple[str, int], ...] | None = None
    window: UsageWindow = UsageWindow("")


class LoadNode(NamedTuple):
    """``allocatable`` is before any amplification: usage is measured in real CPUs and bytes.

    ``huge_pages`` are the bytes set aside for them, which are not in its memory.
    """

    name: str
    allocatable: Amounts
    overrides: ThresholdOverrides = ThresholdOverrides()
    huge_pages: int = 0


class NodeThresholds(NamedTuple):
    """Per cent by resource: for an audience, on a node; ``window`` where usage is aggregated."""

    per_cent: Vector
    of_prod: bool = False
    window: UsageWindow | None = None


def load_node(node: Node) -> tuple[LoadNode, list[str]]:
    """Return the parts of a node that count, and a line about each unreadable annotation."""
    annotations = node.metadata.annotations or NO_ANNOTATIONS
    allocatable, warnings = amounts(node.status.allocatable), list[str]()
    overrides = ThresholdOverrides()
    try:
        allocatable = {
            **allocatable,
            **_raw_allocatable(annotations.get(ANNOTATION_RAW_ALLOCATABLE) or ""),
        }
    except ValueError as error:
        warnings.append(_ignored(node, ANNOTATION_RAW_ALLOCATABLE, error))
    try:
        overrides = _overrides(annotations.get(ANNOTATION_USAGE_THRESHOLDS, ""))
    except ValueError as error:
        warnings.append(_ignored(node, ANNOTATION_USAGE_THRESHOLDS, error))
    huge_pages = sum(amount for name, amount in allocatable.items() if name.startswith(HUGE_PAGES))
    return LoadNode(node.name, allocatable, overrides, huge_pages), warnings


def thresholds(node: LoadNode, settings: LoadSettings, *, for_prod: bool) -> NodeThresholds:
    """Return a node's thresholds for production pods, or for all others."""
    of, resources = node.overrides, settings.resources
    prod = settings.prod if of.prod is None else _vector(of.prod, resources)
    if for_prod and any(prod):
        return NodeThresholds(prod, of_prod=True)
    aggregated = settings.aggregated
    if of.aggregated is not None:
        aggregated = AggregatedThresholds(_vector(of.aggregated, resources), of.window)
    if aggregated is not None:
        return NodeThresholds(aggregated.per_cent, window=aggregated.window)
    return NodeThresholds(settings.usage if of.usage is None else _vector(of.usage, resources))


def _ignored(node: Node, key: str, error: ValueError) -> str:
    return f"node {node.name}: annotation {key}: {error} (ignored)"


def _vector(per_cent: tuple[tuple[str, int], ...], resources: tuple[str, ...]) -> Vector:
    by_name = dict(per_cent)
    return tuple(by_name.get(name, 0) for name in resources)


_RAW = msgspec.json.Decoder(dict[str, str | int | float | None] | None)
_THRESHOLDS = msgspec.json.Decoder(_Thresholds)


# Nodes are written every minute, and their annotations hardly ever change.
@lru_cache(maxsize=8192)
def _raw_allocatable(text: str) -> Amounts:
    try:
        return amounts(_RAW.decode(text)) if text else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"{excerpt(text)} is not amounts by resource: {error}") from None


@lru_cache(maxsize=8192)
def _overrides(text: str) -> ThresholdOverrides:
    try:
        found = _THRESHOLDS.decode(text) if text else _Thresholds()
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"{excerpt(text)} is not usage thresholds: {error}") from None
    usage, prod = _pairs(found.usage_thresholds), _pairs(found.prod_usage_thresholds)
    one = found.aggregated_usage
    if one is None or not one.usage_aggregation_type or not one.usage_thresholds:
        return ThresholdOverrides(usage, prod)
    given = one.usage_aggregated_duration
    seconds = duration.seconds(given) if given is not None else 0.0
    window = UsageWindow(one.usage_aggregation_type, seconds)
    return ThresholdOverrides(usage, prod, _pairs(one.usage_thresholds), window)


def _pairs(per_cent: _PerCent | None) -> tuple[tuple[str, int], ...] | None:
    return tuple(sorted(per_cent.items())) if per_cent else None
