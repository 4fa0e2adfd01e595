"""Carries out the acts of tide pools, each by one write."""

from __future__ import annotations

from collections.abc import Callable

from koord_kube.client import Client
from koord_kube.core.events import reference
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import DRAIN_NODES, NODES, TIDE_NODE_POOLS

from koord_descheduler.migration.core.documents import kind_of
from koord_descheduler.tide.core.node_marks import (
    LABEL_RESERVE,
    cleaning_patch,
    marks_patch,
    read_last_move,
    side_of,
)
from koord_descheduler.tide.core.pool_spec import FINALIZER, TidePool
from koord_descheduler.tide.core.pool_state import TideMove
from koord_descheduler.tide.core.tide_drain import drain_document
from koord_descheduler.tide.core.tide_plan import (
    BeginMove,
    CleanNode,
    DropDrain,
    EndMove,
    KeepPoolFinalizer,
    MarkNode,
    TideAct,
)
from koord_descheduler.tide.tide_metrics import TideMetrics


class TideActWriter:
    """Writes by ``api``, which is fenced. Nodes are read first: informers may be late."""

    def __init__(
        self, api: Client, recorder: EventRecorder, metrics: TideMetrics, wall: Callable[[], float]
    ) -> None:
        self._api = api
        self._recorder = recorder
        self._metrics = metrics
        self._wall = wall

    async def perform(self, act: TideAct, pool: TidePool, document: Object) -> None:
        """Carry out an act of a pool; ``document`` is the TideNodePool as last seen.

        Raises:
            ConflictError: it is done already, or what it is about has changed.
            NotFoundError: what it is about is gone.
        """
        match act:
            case MarkNode(name, side, is_reserved):
                node = await self._api.get(NODES, name)
                if side_of(_labels(node), pool) is side:
                    await self._patch(node, marks_patch(node, pool, side, reserved=is_reserved))
            case BeginMove(move):
                await self._begin(move, pool, document)
            case EndMove():
                await self._end(act, pool, document)
            case DropDrain(drain):
                await self._api.delete(DRAIN_NODES, drain.name, uid=drain.uid)
            case CleanNode(name):
                node = await self._api.get(NODES, name)
                await self._patch(node, cleaning_patch(node, pool))
            case KeepPoolFinalizer(keep):
                await self._keep_finalizer(document, keep=keep)

    async def _begin(self, move: TideMove, pool: TidePool, document: Object) -> None:
        node = await self._api.get(NODES, move.node)
        last = read_last_move(node["metadata"].get("annotations") or {})
        if side_of(_labels(node), pool) is move.to or (
            last is not None and last.at + pool.cool_down > self._wall()
        ):
            return
        await self._api.create(DRAIN_NODES, drain_document(pool, move.node, move.to, move.why))
        about = f"{move.node} begins to go {move.to}: {move.why}"
        self._record(document, move.node, "TideMoveBegins", about)

    async def _end(self, act: EndMove, pool: TidePool, document: Object) -> None:
        drain, last = act.drain, act.last
        node = await self._api.get(NODES, drain.node)
        known = read_last_move(node["metadata"].get("annotations") or {})
        if known is not None and known.drain == drain.uid:
            return
        side = drain.to if last.is_done else side_of(_labels(node), pool)
        is_reserved = not last.is_done and _labels(node).get(LABEL_RESERVE) == "true"
        await self._patch(node, marks_patch(node, pool, side, reserved=is_reserved, move=last))
        self._metrics.moves.labels(
            pool.name, drain.to.value, "done" if last.is_done else "given back"
        ).inc()
        if last.is_done:
            self._record(document, drain.node, "TideMoveEnds", f"{drain.node} is {drain.to} now")
        else:
            about = f"{drain.node} stays {side}: {last.why}"
            self._record(document, drain.node, "TideMoveFails", about, warning=True)

    async def _patch(self, node: Object, change: Object | None) -> None:
        if change is not None:
            meta = node["metadata"]
            await self._api.patch(NODES, meta["name"], change, version=meta["resourceVersion"])

    async def _keep_finalizer(self, document: Object, *, keep: bool) -> None:
        meta = document["metadata"]
        before = list(meta.get("finalizers") or ())
        others = [each for each in before if each != FINALIZER]
        after = [*others, FINALIZER] if keep else others
        if sorted(after) != sorted(before):
            change = {"metadata": {"finalizers": after}}
            version = meta["resourceVersion"]
            await self._api.patch(TIDE_NODE_POOLS, meta["name"], change, version=version)

    def _record(
        self, document: Object, node: str, reason: str, message: str, *, warning: bool = False
    ) -> None:
        pool = kind_of(TIDE_NODE_POOLS) | document
        for about in (pool, reference(NODES, node)):
            self._recorder.record(about, reason, message, warning=warning)


def _labels(node: Object) -> dict[str, str]:
    return node["metadata"].get("labels") or {}
