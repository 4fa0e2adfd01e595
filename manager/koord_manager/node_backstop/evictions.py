"""Evicts pods of unhealthy nodes, by the Eviction API and within one budget."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from koord_kube.core.events import reference
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_kube.core.token_bucket import TokenBucket
from koord_kube.event_recorder import EventRecorder
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.api import Api, ApiError
from koord_kube.protocol.resources import PODS
from koord_kube.protocol.selectors import field_is

from koord_manager.node_backstop.core.backstop import EvictionGrant
from koord_manager.node_backstop.core.victims import Victim, in_order, victim

PER_MINUTE = 10
"""As koordlet's: a wrong rule costs so many pods a minute until somebody looks."""
_AGAIN_SECONDS = 60.0
_MOST_LISTS = 10
_MOST_REFUSALS = 5

Grant = Callable[[str], EvictionGrant | None]
"""Leave to evict pods of a node, at the moment."""


class BackstopEvictor:
    """Empties nodes, one after the other.

    At most ``_MOST_LISTS`` nodes' pods are read in a round, and those of one node are in memory.
    """

    def __init__(
        self,
        api: Api,
        evictor: PodEvictor,
        recorder: EventRecorder,
        *,
        on_warning: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._evictor = evictor
        self._recorder = recorder
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._budget = TokenBucket(PER_MINUTE / 60, 1)
        self._due: dict[str, float] = {}
        self._refused: dict[str, float] = {}
        self.counts = Counter[str]()
        """Attempts by their result."""

    async def round(self, nodes: Sequence[str], grant: Grant) -> None:
        """Go on with these nodes as far as the budget allows, and as ``grant`` says at any time."""
        now = self._monotonic()
        self._refused = {uid: until for uid, until in self._refused.items() if until > now}
        self._due = {name: self._due.get(name, 0.0) for name in nodes}
        due = sorted((at, name) for name, at in self._due.items() if at <= now)
        for _, name in due[:_MOST_LISTS]:
            if not self._budget.turns(self._monotonic()):
                return
            try:
                is_done = await self._empty(name, grant)
            except ApiError as error:
                self._on_warning(f"node {name}: its pods are not evicted: {error}")
                return
            if is_done:
                self._due[name] = self._monotonic() + _AGAIN_SECONDS

    async def _empty(self, name: str, grant: Grant) -> bool:
        """Evict pods of a node; return True if none is left that could go now."""
        refusals = 0
        given = grant(name)
        for evicted in await self._victims(name, given) if given else ():
            given = grant(name)
            if given is None or not self._budget.turns(self._monotonic()):
                return given is None
            outcome = await self._evictor.evict(evicted.pod)
            self.counts[outcome.end.value] += 1
            if outcome.end is EvictionResult.EVICTED:
                self._budget.allow(self._monotonic())
                self._record(name, evicted, given)
            elif outcome.pod_stays:
                self._refuse(evicted, outcome)
                refusals += 1
                if refusals == _MOST_REFUSALS:
                    return False
        return True

    async def _victims(self, name: str, grant: EvictionGrant) -> list[Victim]:
        found: list[Victim] = []
        on_node = field_is("spec.nodeName", name)
        async for page in self._api.pages(PODS, field_selector=on_node, version="0"):
            if page.first:
                found.clear()
            found += [evicted for raw in page.items if (evicted := self._victim(name, raw, grant))]
        ordered = in_order(found, grant.scope)
        return [evicted for evicted in ordered if evicted.pod.uid not in self._refused]

    def _victim(self, name: str, raw: bytes, grant: EvictionGrant) -> Victim | None:
        try:
            return victim(raw, grant.taints)
        except ValueError as error:
            self._on_warning(f"node {name}: a pod of it is not evicted: {error}")
            return None

    def _refuse(self, evicted: Victim, outcome: EvictionOutcome) -> None:
        wait = max(_AGAIN_SECONDS, outcome.again_after)
        self._refused[evicted.pod.uid] = self._monotonic() + wait
        self._on_warning(
            f"pod {evicted.pod.namespace}/{evicted.pod.name} is not evicted: {outcome.reason}"
        )

    def _record(self, name: str, evicted: Victim, grant: EvictionGrant) -> None:
        about = reference(PODS, evicted.pod.name, evicted.pod.namespace, evicted.pod.uid)
        message = f"Evicted from node {name}: {grant.reason}"
        self._recorder.record(about, "NodeBackstopEvicted", message, warning=True)
