"""The policy in a NodeMetric's spec: how to measure the node and report it. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koord_model import duration
from koord_model.fields import Fields, text
from koord_model.metric_policy import MOST_SECONDS as MOST_SECONDS
from koord_model.metric_policy import MemoryPolicy as MemoryPolicy

_LEAST_AGGREGATE = 60
_LEAST_INTERVAL = 30


@dataclass(frozen=True, slots=True)
class MetricCollectPolicy:
    """Times are seconds; ``durations`` are the windows of the aggregated usages."""

    aggregate: int = 300
    interval: int = 60
    durations: tuple[float, ...] = (300.0, 600.0, 1800.0)
    memory: MemoryPolicy = MemoryPolicy.WITHOUT_PAGE_CACHE


def policy(document: Mapping[str, object]) -> tuple[MetricCollectPolicy, tuple[str, ...]]:
    """The policy in a NodeMetric, and lines on what of it cannot be used."""
    ignored: list[str] = []
    fields = Fields(document, "NodeMetric", ignored).of("spec").of("metricCollectPolicy")
    usual = MetricCollectPolicy()
    found = MetricCollectPolicy(
        aggregate=_seconds(
            fields, "aggregateDurationSeconds", usual.aggregate, _LEAST_AGGREGATE, MOST_SECONDS
        ),
        interval=_seconds(
            fields, "reportIntervalSeconds", usual.interval, _LEAST_INTERVAL, MOST_SECONDS
        ),
        durations=_durations(fields.of("nodeAggregatePolicy"), usual.durations),
        memory=fields.word("nodeMemoryCollectPolicy", usual.memory),
    )
    return found, tuple(ignored)


def window(given: object) -> float:
    """The seconds of a duration from one second to ``MOST_SECONDS``.

    Raises:
        ValueError: it is none.
    """
    seconds = duration.seconds(text(given))
    if not 1 <= seconds <= MOST_SECONDS:
        raise ValueError(given)
    return seconds


def _seconds(fields: Fields, name: str, default: int, least: int, most: int) -> int:
    given = fields.take(name, default, _whole, f"{least} to {most}", f"default {default} kept")
    nearest = min(max(given, least), most)
    if nearest != given:
        fields.refuse(name, f"{least} to {most}", f"{nearest} taken")
    return nearest


def _whole(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return given


def _durations(fields: Fields, default: tuple[float, ...]) -> tuple[float, ...]:
    given = fields.take("durations", None, _listed, "a list of durations", "defaults kept")
    if not given:
        return default  # an empty list as none: Go writes the former as the latter
    # Each by itself, so that a bad one costs only itself.
    one_by_one = Fields(
        {f"durations[{index}]": item for index, item in enumerate(given)},
        "NodeMetric",
        fields.ignored,
        "spec.metricCollectPolicy.nodeAggregatePolicy",
    )
    expected = 'a duration from 1s to 12h like "5m"'
    read = (
        one_by_one.take(f"durations[{index}]", 0.0, window, expected, "left out")
        for index in range(len(given))
    )
    return tuple(dict.fromkeys(seconds for seconds in read if seconds))


def _listed(given: object) -> list[object]:
    if not isinstance(given, list):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return given
