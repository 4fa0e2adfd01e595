"""Gangs are tried where all their pods are on nodes with one value of a label. No IO.

The widest rule, if it is for all gangs of the group, is tried in each of its domains, those first
that all pods fit in, the fullest of these first: large domains stay free for large gangs. Below
that each gang gets the fullest domain that its pods fit in beside the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from koord_scheduler.framework.gang_planner import GangCandidate, GangPlanner, GangRequest
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.gangs.gang_spec import DomainRule
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.state.arrays import Amounts, Codes, Rows
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_class import PodClass

_NOWHERE: Rows = np.array([], np.intp)
_MOST_SLOTS = 1e6
"""On a node, for pods that ask for nothing: sums stay finite."""
_ScoresKey = tuple[str, PodClass]


class _Domain(NamedTuple):
    """Rows with one value of a label, and how many pods have room there; less is tried first."""

    lacks_room: bool
    slots: float
    value: str
    rows: Rows


class DomainPlanner:
    """Plans for gangs with such rules; ``placed`` says where their bound members are."""

    def __init__(self, placed: PlacedPods, otherwise: GangPlanner) -> None:
        self._placed = placed
        self._otherwise = otherwise

    def candidates(self, request: GangRequest) -> Iterable[GangCandidate] | str:
        """Parts of the cluster in which all rules are kept; or why there are none."""
        rules = _rules(request)
        if not rules:
            return self._otherwise.candidates(request)
        found = list(_Plan(request, self._placed, rules).candidates())
        if found:
            return found
        labels = ", ".join(dict.fromkeys(rule.label for rule in rules))
        required = len(request.required or request.pods[:1])
        return f"no nodes with one value of {labels} have room for {required} pods at once"

    def rows_to_free(self, request: GangRequest) -> Rows | None:
        """Of the domains of a single rule, the one that is largest."""
        rules = _rules(request)
        if not rules:
            return self._otherwise.rows_to_free(request)
        if len(rules) > 1 or set(rules[0].gangs) < {gang.key for gang in request.gangs}:
            return _NOWHERE
        return _Plan(request, self._placed, rules).largest(rules[0])

    def domains(self, request: GangRequest) -> Sequence[Rows] | None:
        """Return the domains of the widest rule, if it is for all gangs."""
        rules = _rules(request)
        if not rules:
            return self._otherwise.domains(request)
        return _Plan(request, self._placed, rules).split()


def _rules(request: GangRequest) -> list[DomainRule]:
    """Those of all gangs of a request, the widest first."""
    found: dict[DomainRule, int] = {}
    for gang in request.gangs:
        for depth, rule in enumerate(gang.spec.domains if gang.spec is not None else ()):
            found[rule] = min(depth, found.get(rule, depth))
    return sorted(found, key=lambda rule: found[rule])


class _Plan:
    """State of the nodes while rules are planned for."""

    def __init__(
        self, request: GangRequest, placed: PlacedPods, rules: Sequence[DomainRule]
    ) -> None:
        self._request = request
        self._placed = placed
        self._rules = rules
        self._gang_of = {pod.key: self._gang(pod) for pod in request.pods}
        self._slots: dict[_ScoresKey, Amounts] = {}
        # Held room and other pods that leave may make room that slots say nothing of.
        self._is_certain = not request.nodes.holds_room()

    def candidates(self) -> Iterator[GangCandidate]:
        """For each domain of the widest rule one, in which the others are kept, too."""
        first, everywhere = self._rules[0], self._everywhere()
        if not self._is_for_all(first):
            yield from self._below(self._rules, everywhere)
            return
        for domain in self._domains(first, everywhere, self._all_slots()):
            yield from self._below(self._rules[1:], domain.rows)

    def largest(self, rule: DomainRule) -> Rows:
        """The rows of the domain that would have room for most pods if it had no others."""
        nodes, pod = self._request.nodes, (self._request.required or self._request.pods)[0]
        slots, resources = np.full(len(nodes), _MOST_SLOTS), nodes.resources
        for name, amount in pod.waiting.usage.request:
            has = resources.allocatable[resources.column(name), : len(nodes)]
            np.minimum(slots, has // amount, out=slots)
        slots[~nodes.is_node[: len(nodes)]] = 0.0
        split = self._split(rule, self._everywhere())
        best = max(split, key=lambda one: (float(slots[one[1]].sum()), one[0]), default=None)
        return _NOWHERE if best is None else best[1]

    def split(self) -> list[Rows] | None:
        """The rows of each domain of the widest rule; ``None`` if it is not for all gangs."""
        if not self._is_for_all(self._rules[0]):
            return None
        return [rows for _, rows in self._split(self._rules[0], self._everywhere())]

    def _everywhere(self) -> Rows:
        return np.flatnonzero(self._request.nodes.is_node)

    def _is_for_all(self, rule: DomainRule) -> bool:
        return {gang.key for gang in self._request.gangs} <= set(rule.gangs)

    def _below(self, rules: Sequence[DomainRule], rows: Rows) -> Iterator[GangCandidate]:
        """Within some rows, each rule in the first of its domains that its pods fit in."""
        allowed = {one.key: rows for one in self._request.gangs}
        slots = (
            {key: all_slot.copy() for key, all_slot in self._all_slots().items()} if rules else {}
        )
        for rule in rules:
            gangs = [key for key in rule.gangs if key in allowed]
            domain = next(self._domains(rule, allowed[gangs[0]], slots), None)
            if domain is None:
                return
            allowed |= dict.fromkeys(gangs, domain.rows)
            if len(gangs) == 1:
                self._take(rule, domain.rows, slots)
        plan = {key: allowed.get(gang, rows) for key, gang in self._gang_of.items()}
        yield GangCandidate(rows, plan if rules else {})

    def _domains(
        self, rule: DomainRule, rows: Rows, slots: dict[_ScoresKey, Amounts]
    ) -> Iterator[_Domain]:
        required = self._counts(rule, self._request.required or self._request.pods[:1])
        wanted = self._counts(rule, self._request.pods)
        found = []
        for value, part in self._split(rule, rows):
            room = {key: float(slots[key][part].sum()) for key in wanted}
            if self._is_certain and any(room[key] < number for key, number in required.items()):
                continue
            lacks = any(room[key] < number for key, number in wanted.items())
            total = sum(room.values())
            found.append(_Domain(lacks, -total if lacks else total, value, part))
        return iter(sorted(found, key=lambda one: one[:3]))

    def _split(self, rule: DomainRule, rows: Rows) -> Iterator[tuple[str, Rows]]:
        """Some rows by the values of the label; only that one which pods of these gangs have."""
        codes: Codes = self._request.nodes.labels.column(rule.label).codes[rows]
        there = self._bound_code(rule)
        for code in np.unique(codes[codes >= 0]) if there is None else [there]:
            part = rows[codes == code]
            if len(part):
                yield f"{code:08}", part

    def _bound_code(self, rule: DomainRule) -> int | None:
        """The value that most pods of some gangs have already."""
        nodes, counts = self._request.nodes, Counter[int]()
        codes = nodes.labels.column(rule.label).codes
        for key in rule.gangs:
            gang = nodes.use(Gangs).by_key.get(key)
            for pod in [*gang.bound, *gang.assumed] if gang is not None else ():
                one = self._placed.by_key.get(pod)
                row = nodes.row(one.node) if one is not None else None
                counts.update([int(codes[row])] if row is not None else [])
        return counts.most_common(1)[0][0] if counts else None

    def _counts(self, rule: DomainRule, pods: Iterable[QueuedPod]) -> Counter[_ScoresKey]:
        return Counter(pod.scores_key for pod in pods if self._gang(pod) in rule.gangs)

    def _all_slots(self) -> dict[_ScoresKey, Amounts]:
        """By class, how many pods have room on each row."""
        for pod in self._request.pods if not self._slots else ():
            if pod.scores_key not in self._slots:
                rows = self._request.feasible(pod)
                slots = self._slots[pod.scores_key] = np.zeros(len(self._request.nodes))
                slots[rows] = np.minimum(self._request.slots(pod, rows), _MOST_SLOTS)
        return self._slots

    def _take(self, rule: DomainRule, rows: Rows, slots: dict[_ScoresKey, Amounts]) -> None:
        """The room of a gang is there for no other."""
        for key, number in self._counts(rule, self._request.required).items():
            before = np.cumsum(slots[key][rows]) - slots[key][rows]
            taken = np.clip(number - before, 0.0, slots[key][rows])
            slots[key][rows] -= taken

    def _gang(self, pod: QueuedPod) -> str:
        gang = self._request.nodes.use(Gangs).gang_of(pod.key)
        return gang.key if gang is not None else ""
