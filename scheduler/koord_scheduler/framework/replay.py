"""Makes the decisions of a recording again, and says what was decided then. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from koord_kube.protocol.resources import PODS

from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Decision
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.recording import (
    DecideInput,
    DecisionOutcome,
    EndInput,
    ForgetInput,
    PutInput,
    RecordedInput,
    RemoveInput,
    TickInput,
    WakeInput,
    decided_alone,
    outcome,
)
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.wake_budget import CountedBudget
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.state.cluster_kind import ClusterKind

BeforeDecision = Callable[[QueuedPod, DecisionOutcome | None], None]


class ReplayedDecision(NamedTuple):
    """A decision in its turn, then and now; ``None``: no pod was, or is, next."""

    at: float
    recorded: DecisionOutcome | None
    decision: Decision | None

    @property
    def replayed(self) -> DecisionOutcome | None:
        """Present outcome."""
        return outcome(self.decision)

    @property
    def is_same(self) -> bool:
        """True if the outcome is the same."""
        return self.recorded == self.replayed


class Replay:
    """A recording's inputs for ``scheduler``, which is as new.

    If it decides otherwise (it has other profiles), its own decisions count from then on: pods
    are bound to the nodes that it gave them, and wait if it gave them none. All else is as it was
    then: which pods came and went, victims of preemption, claims and volumes.
    ``before`` is called with each pod whose turn has come, and with what was decided then.
    """

    def __init__(self, scheduler: Scheduler, before: BeforeDecision) -> None:
        self._scheduler = scheduler
        self._before = before
        self._now = 0.0
        pods = pod_kind(scheduler, lambda: self._now)
        self._kinds: Mapping[str, ClusterKind] = {
            cluster_kind.name: cluster_kind
            for cluster_kind in [*cluster_kinds(scheduler, lambda: self._now), pods]
        }
        # By pod, what it was and is given: its uid and its node.
        self._recorded: dict[str, tuple[str, str]] = {}
        self._replayed: dict[str, tuple[str, str]] = {}

    def run(self, inputs: Iterable[RecordedInput]) -> Iterator[ReplayedDecision]:
        """All decisions.

        Raises:
            ValueError: an input is not valid.
        """
        for one in inputs:
            self._now = one.at
            match one:
                case DecideInput():
                    yield from self._decide(one)
                case PutInput():
                    kind = self._kind(one.kind)
                    raw = bytes(one.object)
                    if one.kind == PODS.kind:  # not those of a selector
                        raw = self._where_replayed(one.key, raw)
                    kind.put(one.key, kind.read(raw))
                case RemoveInput():
                    self._kind(one.kind).remove(one.key)
                case TickInput():
                    self._scheduler.tick(one.at, one.epoch)
                case WakeInput(looks=None):
                    self._scheduler.wake(one.at)
                case WakeInput(looks=int(looks), retries=retries):
                    self._scheduler.wake(one.at, CountedBudget(looks, retries))
                case ForgetInput():
                    assumed = self._scheduler.assumed.get(one.key)
                    if assumed is not None:
                        self._scheduler.forget(assumed, one.at)
                case EndInput():
                    return

    def _kind(self, name: str) -> ClusterKind:
        kind = self._kinds.get(name)
        if kind is None:
            raise ValueError(f"has an object of the kind {name}, which is not known here")
        return kind

    def _decide(self, then: DecideInput) -> Iterator[ReplayedDecision]:
        """Decide all pods that are next now, if no pod was next then."""
        while True:
            pod = self._scheduler.queue.next()
            if pod is not None:
                self._before(pod, then.outcome)
            decision = decided_alone(self._scheduler.decide(then.at))
            found = ReplayedDecision(then.at, then.outcome, decision)
            _note(self._recorded, found.recorded)
            _note(self._replayed, found.replayed)
            if found.recorded is not None or found.decision is not None:
                yield found
            if found.recorded is not None or found.decision is None:
                return

    def _where_replayed(self, key: str, raw: bytes) -> bytes:
        """A pod that was bound as decided then is bound as decided now."""
        pod = read_pod(raw)
        uid, node = pod.metadata.uid, pod.spec.node_name
        if not node or self._recorded.get(key) != (uid, node):
            return raw
        given_to, given = self._replayed.get(key, ("", ""))
        given = given if given_to == uid else ""
        if given == node:
            return raw
        spec = msgspec.structs.replace(pod.spec, node_name=given)
        return msgspec.json.encode(msgspec.structs.replace(pod, spec=spec))


def _note(nodes: dict[str, tuple[str, str]], decision_outcome: DecisionOutcome | None) -> None:
    if decision_outcome is not None and decision_outcome.result == "placed":
        nodes[decision_outcome.pod] = decision_outcome.uid, decision_outcome.node
