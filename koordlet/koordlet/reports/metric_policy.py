"""How the cluster wants the node measured and told: the policy in a NodeMetric's spec. No IO."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from koord_model.fields import Fields, text

MOST_SECONDS = 12 * 3600
"""What the metric cache keeps; older points nobody can aggregate."""

_LEAST_AGGREGATE = 60
_LEAST_INTERVAL = 30
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_DURATION = re.compile(rf"(?:{_PART.pattern}){{1,8}}")


class MemoryPolicy(StrEnum):
    """Which memory counts as used."""

    WITHOUT_PAGE_CACHE = "usageWithoutPageCache"
    WITH_PAGE_CACHE = "usageWithPageCache"
    WITH_HOT_PAGE_CACHE = "usageWithHotPageCache"


@dataclass(frozen=True, slots=True)
class Policy:
    """Times are seconds; ``durations`` are the windows of the aggregated usages."""

    aggregate: int = 300
    interval: int = 60
    durations: tuple[float, ...] = (300.0, 600.0, 1800.0)
    memory: MemoryPolicy = MemoryPolicy.WITHOUT_PAGE_CACHE


def policy(document: Mapping[str, object]) -> tuple[Policy, tuple[str, ...]]:
    """The policy in a NodeMetric, and lines on what of it cannot be used."""
    ignored: list[str] = []
    fields = Fields(document, "NodeMetric", ignored).of("spec").of("metricCollectPolicy")
    usual = Policy()
    found = Policy(
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


def duration(given: object) -> float:
    """The seconds of a Go duration ("5m0s") from one second to ``MOST_SECONDS``.

    Raises:
        ValueError: it is none.
    """
    word = text(given)
    if _DURATION.fullmatch(word) is None:
        raise ValueError(given)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(word))
    if not 1 <= seconds <= MOST_SECONDS:
        raise ValueError(given)
    return seconds


def go_duration(seconds: float) -> str:
    """A duration of a second or more as Go writes it: 300 is "5m0s"."""
    minutes, rest = divmod(round(seconds, 9), 60)
    hours, minutes = divmod(int(minutes), 60)
    written = f"{round(rest, 9):g}s"
    if hours:
        return f"{hours}h{minutes}m{written}"
    return f"{minutes}m{written}" if minutes else written


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
    if given is None:
        return default
    # Each by itself, so that a bad one costs only itself.
    one_by_one = Fields(
        {f"durations[{index}]": one for index, one in enumerate(given)},
        "NodeMetric",
        fields.ignored,
        "spec.metricCollectPolicy.nodeAggregatePolicy",
    )
    expected = 'a duration from 1s to 12h like "5m"'
    read = (
        one_by_one.take(f"durations[{index}]", 0.0, duration, expected, "left out")
        for index in range(len(given))
    )
    return tuple(dict.fromkeys(seconds for seconds in read if seconds))


def _listed(given: object) -> list[object]:
    if not isinstance(given, list):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return given
