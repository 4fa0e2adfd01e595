"""Finds out by which formula the container runtime makes weights of shares: cgroup v2 only.

From containers whose shares are known and whose weight nobody has written since: those in a
hook call or from NRI, else what the kubelet makes of their CPU request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_host.knobs.weights import LEAST_SHARES, MOST_SHARES
from koord_host.planning.desired_values import Target
from koord_model.keys import CPU
from koord_model.pod import Container

from koordlet.states_informer.state.cgroup_paths import container_group
from koordlet.states_informer.state.pod_inventory import PodRecord

_SHARES = KNOBS["cpu.shares"]


class WeightLearner:
    """Looks at each container once; ``layout.weights`` keeps what it finds."""

    def __init__(
        self, layout: Layout, reader: FileReader, is_untouched: Callable[[Target], bool]
    ) -> None:
        self._layout = layout
        self._reader = reader
        self._is_untouched = is_untouched
        self._seen: frozenset[str] = frozenset()

    def examine(self, records: Iterable[PodRecord]) -> bool:
        """Learn from the containers that are new; whether another formula is known now."""
        if self._layout.version != 2:
            return False
        every = {ident: (record, c) for record in records for ident, c in record.containers.items()}
        news = [found for ident, found in every.items() if ident not in self._seen]
        self._seen = frozenset(every)
        before = self._layout.weights.formula
        for record, container in news:
            self._learn(record, container)
        return self._layout.weights.formula is not before

    def _learn(self, record: PodRecord, container: Container) -> None:
        shares = known_shares(record, container)
        group = container_group(record, container, self._layout)
        if shares is None or not self._is_untouched(Target(group, _SHARES.name)):
            return
        try:
            made = self._reader.identity(self._layout.group_path(group, _SHARES.subsystem))
            weight = int(self._reader.read(self._layout.path(_SHARES, group)))
        except (OSError, ValueError):
            return
        self._layout.weights.learn(group, shares, weight, made)


def known_shares(record: PodRecord, container: Container) -> int | None:
    """The shares that the runtime was given, ``None`` where they are not known."""
    given = container.resources.cpu_shares
    if given is not None or record.demand is None:
        return given
    requests = record.demand.container_requests.get(container.name)
    if requests is None:
        return None
    return min(max(requests.get(CPU, 0) * 1024 // 1000, LEAST_SHARES), MOST_SHARES)
