"""Prometheus metrics of gangs; one metric is Koordinator's, by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from koord_scheduler.gangs.gangs import Gang, Gangs

WAITING, STARTED, EMPTY = "waiting", "started", "empty"


class GangMetrics(Collector):
    """Read at each scrape, in another thread than that of decisions."""

    def __init__(self, gangs: Gangs) -> None:
        self._gangs = gangs

    def describe(self) -> Iterable[Metric]:
        """Nothing: gangs are not known yet when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Collect the number of gangs, and of groups that are being bound."""
        gangs = list(self._gangs.by_key.values())
        groups = {gang.group_id for gang in gangs if gang.assumed}
        yield GaugeMetricFamily(
            "scheduler_waiting_gang_group_number",
            "Gang groups with pods that are about to be bound.",
            value=len(groups),
        )
        states = Counter(map(_state, gangs))
        family = GaugeMetricFamily("pykoord_scheduler_gangs", "Gangs by state.", labels=["state"])
        for state in (WAITING, STARTED, EMPTY):
            family.add_metric([state], states[state])
        yield family


def _state(gang: Gang) -> str:
    if not gang.members:
        return EMPTY
    return STARTED if gang.assumed or gang.bound else WAITING
