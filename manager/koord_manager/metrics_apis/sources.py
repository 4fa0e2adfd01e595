"""Sources of the metrics APIs, and refusals while they are not enough for an answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from koord_serving.aggregated.core.list_options import StatusError

from koord_manager.metrics_apis.core.catalogue import NodeCapacity
from koord_manager.metrics_apis.core.history import UsageHistory
from koord_manager.metrics_apis.core.pods import PodIndex
from koord_manager.metrics_apis.core.reports import UsageReport, report_of
from koord_manager.metrics_apis.core.samples import UsageSample, read_sample
from koord_manager.node_metric.core.store import NodeMetricStore
from koord_manager.slo_config.core.colocation import ColocationStrategy

_RETRY_SECONDS = 2


@dataclass(frozen=True)
class UsageSources:
    """Sources of the answers.

    ``complete`` says whether nodes had the time to report. ``pods`` are all that are on nodes,
    ``None`` while these are not known; ``labels`` and ``capacity`` are a node's. Samples are in the
    ``history`` for as long as somebody asks about the node.
    """

    store: NodeMetricStore
    complete: Callable[[], bool]
    pods: Callable[[], PodIndex | None]
    labels: Callable[[str], Mapping[str, str]]
    strategy: Callable[[str], ColocationStrategy]
    capacity: Callable[[str], NodeCapacity] = lambda _node: NodeCapacity()
    history: UsageHistory = field(default_factory=UsageHistory)
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic

    def report(self, node: str) -> UsageReport | None:
        """Decode a node's newest report; ``None`` if it is too old, or there is none."""
        kept = self.store.get(node)
        if kept is None:
            return None
        return report_of(kept, self.strategy(node), self._wall(kept.heard), self.clock())

    def remember(self, node: str, status: bytes, at: float) -> None:
        """Keep a sample of a report if somebody asks about the node; ``at`` in monotonic seconds.

        A sample costs as much as all else that is done with a report.
        """
        if self.history.wants(node, at):
            self._add(node, status, at)

    def samples(self, node: str) -> Sequence[UsageSample]:
        """Return a node's samples, oldest first; none of a node that is stale or gone.

        The first question about a node is answered from its newest report alone.
        """
        kept = self.store.get(node)
        if kept is None or kept.stale_since:
            return ()
        now = self.monotonic()
        if not self.history.wants(node, now):
            self._add(node, kept.status, kept.heard)
        self.history.ask(node, now)
        return self.history.of(node, self.clock(), self.strategy(node).degrade_seconds)

    def _add(self, node: str, status: bytes, at: float) -> None:
        window = float(self.strategy(node).metric_aggregate_seconds)
        sample = read_sample(status, self._wall(at), window)
        if sample is not None:
            self.history.add(node, sample)

    def known_pods(self) -> PodIndex:
        """Return the pods.

        Raises:
            StatusError: these are not all known yet, or not their usage.
        """
        self.require_complete()
        found = self.pods()
        if found is None:
            raise unavailable("this manager leads since a moment ago; it still reads the pods")
        return found

    def require_complete(self) -> None:
        """Raise a StatusError while nodes are still reporting."""
        if not self.complete():
            raise unavailable(
                "this manager leads since a moment ago; nodes are still reporting to it"
            )

    def _wall(self, at: float) -> float:
        return self.clock() - (self.monotonic() - at)


def unavailable(message: str) -> StatusError:
    """Return the refusal of a request that may succeed soon."""
    return StatusError(503, "ServiceUnavailable", message, retry_after=_RETRY_SECONDS)
