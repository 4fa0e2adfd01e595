"""Has nodes of TideNodePools change sides: reads what there is, plans a step, carries it out.

All that it knows is in the API: DrainNodes are the moves under way, nodes say what became of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import msgspec
from koord_kube.client import Client
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.core.warnings import OnWarning
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Informer
from koord_kube.protocol.api import ConflictError, NotFoundError, Object
from koord_kube.protocol.resources import DRAIN_NODES, TIDE_NODE_POOLS
from koord_kube.reconcile_loop import ReconcileLoop

from koord_descheduler.drain.api_objects import listed_objects, queued_objects
from koord_descheduler.drain.drained_pods import Forbids, forbid_nothing
from koord_descheduler.drain.other_drains import other_drains
from koord_descheduler.drain.status_writer import write_status
from koord_descheduler.migration.core.documents import kind_of
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.tide.core.node_marks import LABEL_POOL
from koord_descheduler.tide.core.pool_spec import TidePool, read_pool
from koord_descheduler.tide.core.pool_state import PoolState
from koord_descheduler.tide.core.pool_status import pool_counts, pool_status
from koord_descheduler.tide.core.tide_drain import drains_of
from koord_descheduler.tide.core.tide_nodes import tide_nodes
from koord_descheduler.tide.core.tide_plan import EndMove, plan_pool
from koord_descheduler.tide.tide_acts import TideActWriter
from koord_descheduler.tide.tide_metrics import PoolFigures, TideMetrics

POLL_SECONDS = 5.0
"""Between two steps of a pool."""
_SOON_SECONDS = 0.5
_PAUSE_FACTOR = 20.0
"""A pool waits so many times as long as its last plan took: 5 % of a CPU at most."""


class TideController:
    """Runs while this descheduler leads: ``api`` must write only then.

    ``silence`` says why nothing may be decided at present, ``forbids`` why migrations never move a
    pod. In a ``dry_run`` nothing begins.
    """

    def __init__(
        self,
        api: Client,
        cluster: ClusterModel,
        recorder: EventRecorder,
        metrics: TideMetrics,
        *,
        on_warning: OnWarning,
        silence: Callable[[], str] = lambda: "",
        forbids: Forbids = forbid_nothing,
        dry_run: bool = False,
        poll: float = POLL_SECONDS,
        pace: ReflectorTiming | None = None,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._recorder = recorder
        self._metrics = metrics
        self._silence = silence
        self._forbids = forbids
        self._dry_run = dry_run
        self._poll = poll
        self._wall = wall
        self._monotonic = monotonic
        self._next: dict[str, float] = {}
        self._acts = TideActWriter(api, recorder, metrics, wall)
        # One worker: each plan counts on those before it.
        self.loop = ReconcileLoop(
            "tidenodepool", self._reconcile, workers=1, on_warning=on_warning, backoff=api.backoff
        )
        self._pools = queued_objects(
            api, TIDE_NODE_POOLS, self.loop.add, on_warning=on_warning, timing=pace
        )
        self._moves: Informer[Object] = Informer(
            api,
            DRAIN_NODES,
            decode=msgspec.json.Decoder(Object).decode,
            on_change=self._move_changed,
            on_warning=on_warning,
            optional=True,
            timing=pace,
        )

    @property
    def problem(self) -> str:
        """Reason why pools may not go on, in a line; "" while there is none."""
        return self._pools.problem or self._moves.problem or self.loop.problem

    async def run(self) -> None:
        """For ever; the cluster has to be known before."""
        self._metrics.pools.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(self._pools.run)
            group.start_soon(self._moves.run)
            group.start_soon(self.loop.run)

    def _move_changed(self, _key: str, before: Object | None, now: Object | None) -> None:
        """A move goes on with its DrainNode's next phase."""
        pool = _pool_of(now or before or {})
        if pool and _phase(before) != _phase(now):
            self.loop.add(pool)

    async def _reconcile(self, name: str) -> float | None:
        if not self._pools.synced or self._silence():
            return _SOON_SECONDS
        if (pause := self._next.get(name, 0.0) - self._monotonic()) > 0:
            return pause
        try:
            document = await self._api.get(TIDE_NODE_POOLS, name)
        except NotFoundError:
            self._metrics.pools.pop(name, None)
            self._next.pop(name, None)
            return None
        try:
            pool = read_pool(document)
        except ValueError as error:
            kind = kind_of(TIDE_NODE_POOLS)
            self._recorder.record(kind | document, "InvalidTideNodePool", str(error), warning=True)
            await write_status(self._api, TIDE_NODE_POOLS, document, {"message": str(error)})
            return None
        return await self._step(document, pool)

    async def _step(self, document: Object, pool: TidePool) -> float | None:
        if self._dry_run:
            pool = pool._replace(is_dry_run=True)
        state = await self._observe(pool)
        began = self._monotonic()
        plan = plan_pool(state)
        self._next[pool.name] = began + (self._monotonic() - began) * _PAUSE_FACTOR
        self._metrics.pools[pool.name] = PoolFigures(pool_counts(state), plan.requested)
        try:
            document = await write_status(
                self._api, TIDE_NODE_POOLS, document, pool_status(state, plan)
            )
        except ConflictError:
            return _SOON_SECONDS
        except NotFoundError:
            return None
        for act in plan.acts:
            try:
                await self._acts.perform(act, pool, document)
            except (ConflictError, NotFoundError):
                continue  # it is done, or has changed meanwhile: the next step shows it
        has_ended = any(isinstance(act, EndMove) for act in plan.acts)
        return _SOON_SECONDS if has_ended else self._poll

    async def _observe(self, pool: TidePool) -> PoolState:
        """The state now: DrainNodes by a list, so that those just made are among them."""
        documents = await self._drains()
        now = self._wall()
        drains = drains_of(pool, documents.values())
        foreign = {name: each for name, each in documents.items() if _pool_of(each) != pool.name}
        nodes = tide_nodes(
            self._cluster,
            pool,
            drains,
            drained=other_drains("", foreign).nodes,
            pools=self._pools.objects.keys(),
        )
        others = other_drains("", documents)
        return PoolState(self._cluster, pool, nodes, drains, others, now, self._forbids)

    async def _drains(self) -> dict[str, Object]:
        found = await listed_objects(self._api, DRAIN_NODES)
        return {each["metadata"]["name"]: each for each in found}


def _pool_of(drain: Object) -> str:
    return str(((drain.get("metadata") or {}).get("labels") or {}).get(LABEL_POOL, ""))


def _phase(drain: Object | None) -> str | None:
    """The phase of a drain; ``None`` if there is none."""
    return None if drain is None else str((drain.get("status") or {}).get("phase", ""))
