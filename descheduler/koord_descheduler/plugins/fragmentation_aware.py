"""FragmentationAware: pods leave nodes whose resources are requested unevenly. No IO.

Koordinator looks at the source alone. Here the worse of source and target has to get better, so
that no pod goes to and fro.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from koord_model.keys import CPU, MEMORY
from koord_scheduler.arguments.problems import problem

from koord_descheduler.framework.balancing.request_table import Parts, RequestTable
from koord_descheduler.framework.pod_selection import PodSelection, SelectingArgs
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.plugin import DeschedulerPlugin

_LEAST_GAIN = 1e-9


class FragmentationAwareArgs(SelectingArgs, frozen=True):
    """Arguments of FragmentationAware; whatever ``nodeFit`` says, there has to be a place."""

    node_fit: bool = True
    resources: tuple[str, ...] = (CPU, MEMORY)
    imbalance_threshold: float = 0.15
    min_improvement_threshold: float = 0.02

    def problems(self, path: str) -> Iterator[str]:
        yield from super().problems(path)
        if not self.resources or len(set(self.resources)) < len(self.resources):
            yield problem(f"{path}.resources", list(self.resources), "different resources")
        for name, least in (
            ("imbalanceThreshold", self.imbalance_threshold),
            ("minImprovementThreshold", self.min_improvement_threshold),
        ):
            if least < 0:
                yield problem(f"{path}.{name}", least, "0 or more")


class _Candidate(NamedTuple):
    pod: KnownPod
    before: float
    after: float

    @property
    def reason(self) -> str:
        """Return why it goes, in Koordinator's words."""
        gain = self.before - self.after
        words = f"stdBefore={self.before:.4f} stdAfter={self.after:.4f} gain={gain:.4f}"
        return f"fragmentation reduction: {words}"


class FragmentationAware(DeschedulerPlugin):
    """Koordinator's plugin of that name."""

    name: ClassVar[str] = "FragmentationAware"
    Args: ClassVar[type[FragmentationAwareArgs]] = FragmentationAwareArgs

    def __init__(self, args: FragmentationAwareArgs) -> None:
        self._args = args
        self._selection = PodSelection(args)
        self.dry_run = args.dry_run

    def balance(self, cluster: ProfileRound) -> None:
        if self._args.paused:
            return
        table = self.table(cluster)
        uneven = deviations(table.parts(), table.has)
        worst_first = np.argsort(-uneven, kind="stable").tolist()
        for row in worst_first:
            if uneven[row] <= self._args.imbalance_threshold:
                return
            self._serve(row, table, cluster)

    def table(self, cluster: ProfileRound) -> RequestTable:
        """The nodes that are selected, and what is requested of them."""
        return RequestTable(cluster, self._selection.nodes(cluster), self._args.resources)

    def _serve(self, row: int, table: RequestTable, cluster: ProfileRound) -> None:
        """Move the one pod of a node with the most gain that can go."""
        tried: set[object] = set()
        for candidate in self.candidates(row, table, cluster):
            pod = candidate.pod
            waiting = pod.replacement.waiting
            alike = waiting and waiting.pod_class, pod.view.owner
            if alike not in tried and self._move(candidate, row, table, cluster):
                return
            tried.add(alike)

    def candidates(self, row: int, table: RequestTable, cluster: ProfileRound) -> list[_Candidate]:
        """The pods without which an uneven node is more even, the best first."""
        parts = table.parts()
        before = float(deviations(parts, table.has)[row])
        if before <= self._args.imbalance_threshold:
            return []
        found = []
        for pod in cluster.pods_on(table.names[row]):
            if pod.view.has_ended:
                continue
            left = (parts[row] - table.parts_of(pod)[row])[None]
            after = float(deviations(left, table.has[row][None])[0])
            if before - after > self._args.min_improvement_threshold and self._selection.may_move(
                pod.view, cluster
            ):
                found.append(_Candidate(pod, before, after))
        return sorted(found, key=lambda gain: (gain.after, gain.pod.view.key))

    def _move(
        self, candidate: _Candidate, row: int, table: RequestTable, cluster: ProfileRound
    ) -> bool:
        pod, before, after = candidate
        parts = table.parts()
        now = deviations(parts, table.has)
        then = deviations(parts + table.parts_of(pod), table.has)
        better = np.maximum(after, then) < np.maximum(before, now) - _LEAST_GAIN
        better[row] = False
        if not better.any():
            return cluster.refuse(pod.view, "Target", "every other node would be less even")
        places = {name: place for place, name in enumerate(table.names)}
        return cluster.move(
            pod,
            candidate.reason,
            among=cluster.virtual.mask(table.rows[better]),
            arithmetic=lambda _, target: {
                "source": {"before": round(before, 4), "after": round(after, 4)},
                "target": _rounded(now, then, places.get(target)),
            },
        )


def _rounded(
    before: npt.NDArray[np.float64], after: npt.NDArray[np.float64], place: int | None
) -> dict[str, float]:
    if place is None:
        return {}
    return {"before": round(float(before[place]), 4), "after": round(float(after[place]), 4)}


def deviations(parts: Parts, has: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Standard deviation of each node's parts, of the resources that it has."""
    number = np.maximum(has.sum(axis=1), 1)
    mean = parts.sum(axis=1) / number
    squares = np.where(has, (parts - mean[:, None]) ** 2, 0.0)
    found: npt.NDArray[np.float64] = np.sqrt(squares.sum(axis=1) / number)
    return found
