"""Reasons of koordlet's actions: decisions with arithmetic, desired values, strategies. No IO.

Times are seconds since the epoch. A history entry's ``until`` is ``None`` where it stands, or
where nobody knows any more: the journal, which has what is older, does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from koord_model import katalyst

from koordlet.http_api.documents.node import Document, DocumentSources
from koordlet.qos_manager.core.decision_log import (
    CurrentDecision,
    DecisionKey,
    DecisionList,
    DecisionLog,
    DecisionRecord,
    names_pod,
    of_evicted,
    of_group,
    of_pod,
    of_strategies,
)
from koordlet.qos_manager.core.strategy import Decision, StrategyMode, StrategySignal
from koordlet.qos_manager.core.strategy_runner import StrategyState
from koordlet.states_informer.state.pod_inventory import PodRecord

NOTHING_DECIDED = "koordlet decides nothing on this node: its log says why"
MOST_PODS = 16
"""Largest number of pods of one name, in many namespaces, whose cgroups are read."""


def _no_values(_: str) -> Sequence[Document]:
    return ()


def _no_cgroups(_: PodRecord) -> Sequence[Document]:
    return ()


@dataclass(frozen=True, slots=True)
class DecisionSources:
    """Koordlet's decisions for pages; all of it is safe to ask from any thread.

    ``signals`` are those of the last round, by strategy. ``desired`` gives all values desired
    of a cgroup's knobs: documents with ``knob``, ``value``, ``owner``, ``why``, and ``conflict``
    ("" for none: other owners and their values). ``cgroups`` gives what those of a pod hold now.
    """

    decisions: DecisionLog
    strategies: Callable[[], tuple[StrategyState, ...]] = tuple
    signals: Callable[[], Mapping[str, tuple[StrategySignal, ...]]] = dict
    desired: Callable[[str], Sequence[Document]] = _no_values
    cgroups: Callable[[PodRecord], Sequence[Document]] = _no_cgroups


@dataclass(frozen=True, slots=True)
class WhyQuery:
    """A question: at most one of these, without any only the strategies.

    ``pod`` is "namespace/name" or a name, ``evicted`` too, "" for all evictions; ``group`` is a
    cgroup as ``Layout`` names it.
    """

    strategies: tuple[str, ...] = ()
    pod: str = ""
    group: str = ""
    evicted: str | None = None

    def wanted(self) -> Callable[[DecisionKey], bool]:
        """Return the filter of the decisions in question."""
        if self.pod:
            return of_pod(self.pod)
        if self.group:
            return of_group(self.group)
        if self.evicted is not None:
            return of_evicted(self.evicted)
        return of_strategies(*self.strategies)

    def named(self, pod: str) -> bool:
        """True if a pod, "namespace/name", is the one in question."""
        return bool(self.pod) and names_pod(self.pod, pod)


def why_document(
    observed: DocumentSources,
    decided: DecisionSources | None,
    asked: WhyQuery,
    found: DecisionList,
    answers: Sequence[Document] = (),
) -> Document:
    """Build the document of the ``found`` decisions, the hook answers and the strategies.

    ``pods`` are those that run and are called as was asked.
    """
    document: Document = {"node": observed.node, "at": observed.clock()}
    document |= {"hooks": list(answers)}
    if decided is None:
        return document | {"decides": False, "reason": NOTHING_DECIDED}
    called = asked.pod or asked.evicted
    records = observed.pods() if called else ()
    running = [record for record in records if called and names_pod(called, record.pod.full_name)]
    held = (decided.cgroups(record) for record in running[:MOST_PODS] if asked.pod)
    return document | {
        "decides": True,
        "pods": [record.pod.full_name for record in running],
        "ignored": list(_ignored(running)) if asked.pod else [],
        "cgroups": [group for groups in held for group in groups],
        "decisions": [_standing(decision) for decision in found.standing],
        "history": [_entry(decision) for decision in found.history],
        "wishes": list(decided.desired(asked.group)) if asked.group else [],
        "strategies": strategy_documents(decided),
    }


def _ignored(records: Iterable[PodRecord]) -> Iterator[Document]:
    """Lines on Katalyst's words of pods that have no effect."""
    for record in records:
        pod = record.pod
        for line in katalyst.translate(pod.labels, pod.annotations, None).ignored:
            yield {"pod": pod.full_name, "line": line}


def strategy_documents(decided: DecisionSources) -> list[Document]:
    """Describe each strategy's state, with its last outcome."""
    newest: dict[str, CurrentDecision] = {}
    for decision in decided.decisions.find(lambda _: True, most=0).standing:
        other = newest.get(decision.strategy)
        if other is None or decision.since > other.since:
            newest[decision.strategy] = decision
    return [
        {
            **asdict(state),
            "mode": state.mode.value,
            "latest": _standing(newest[state.name]) if state.name in newest else None,
        }
        for state in decided.strategies()
    ]


def with_older(found: DecisionList, older: Iterable[DecisionRecord], most: int) -> DecisionList:
    """The history with what the journal has in addition, newest first; ``most`` of all."""
    entries = sorted((*found.history, *older), key=lambda decision: decision.at, reverse=True)
    began: dict[DecisionKey, float] = {}
    history = []
    for entry in entries:
        # What was decided next ended it, where nobody remembers when else that was.
        until = began.get(entry.key) if entry.until is None else entry.until
        history.append(replace(entry, until=until))
        began[entry.key] = entry.at
    return found._replace(history=tuple(history[:most]))


def _standing(current_decision: CurrentDecision) -> Document:
    shared = _decision(current_decision.strategy, current_decision.mode, current_decision.decision)
    return shared | {"since": current_decision.since, "said_at": current_decision.said_at}


def _entry(decision_record: DecisionRecord) -> Document:
    return _decision(decision_record.strategy, decision_record.mode, decision_record.decision) | {
        "at": decision_record.at,
        "until": decision_record.until,
    }


def _decision(strategy: str, mode: StrategyMode, decision: Decision) -> Document:
    return {"strategy": strategy, "mode": mode.value, **decision.document()}
