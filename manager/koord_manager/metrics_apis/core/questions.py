"""Requests for custom metrics: the metrics that they name, and the series that answer. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from koord_model.excerpt import excerpt
from koord_serving.aggregated.core.list_options import StatusError

from koord_manager.metrics_apis.core.aggregates import (
    AGGREGATES,
    GROUP_BY,
    MetricSelector,
    MetricSeries,
    aggregate,
    latest,
    read_selector,
    split,
)
from koord_manager.metrics_apis.core.catalogue import METRIC_LABELS

ALL = "*"
"""Stands for all metrics, or all objects."""

_LONGEST = 4096
"""Letters of a selector."""


@dataclass(frozen=True, slots=True)
class Question:
    """Metrics by name, the same aggregate of each or "", and a selector of their series."""

    names: tuple[str, ...]
    suffix: str
    selector: MetricSelector

    def answer(self, series: Sequence[MetricSeries], *, newest: bool) -> list[MetricSeries]:
        """The series asked for; of those of one object just the ``newest`` value."""
        if self.suffix:
            found = aggregate(series, self.suffix, self.selector)
        else:
            found = [known for known in series if self.selector.labels.matches(known.labels)]
        return latest(found) if newest else found


def read_question(plural: str, known: Sequence[str], metric: str, selector: str) -> Question:
    """The question for a metric of objects that have the ``known`` ones.

    Raises:
        StatusError: there is no such metric, or its series have no such labels.
    """
    name, suffix = (metric, "") if metric == ALL else split(metric)
    if name not in known and metric != ALL:
        raise StatusError(
            404,
            "NotFound",
            f"{plural} have no metric {excerpt(metric)}; there are {', '.join(known)}, "
            f"and of each its {', '.join(AGGREGATES)}",
        )
    names = tuple(known) if metric == ALL else (name,)
    return Question(names, suffix, _selector(names, suffix, selector))


def _selector(names: Sequence[str], suffix: str, text: str) -> MetricSelector:
    if len(text) > _LONGEST:
        raise _bad(f"metricLabelSelector is longer than {_LONGEST} letters")
    try:
        selector = read_selector(text)
    except ValueError as error:
        raise _bad(str(error)) from None
    if selector.group_by and not suffix:
        raise _bad(f"{GROUP_BY} is only for aggregates, such as {names[0]}{next(iter(AGGREGATES))}")
    labels = sorted({label for name in names for label in METRIC_LABELS[name]})
    unknown = sorted(selector.keys - set(labels))
    if unknown:
        there = f"it has {', '.join(labels)}" if labels else "it has none"
        raise _bad(f"{', '.join(names)} has no label {excerpt(unknown[0])}; {there}")
    return selector


def _bad(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)
