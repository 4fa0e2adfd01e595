"""Drains nodes of DrainNodeGroups one by one, by DrainNodes of their own."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
from koord_kube.client import Client
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.core.warnings import OnWarning
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Informer
from koord_kube.protocol.api import ConflictError, NotFoundError, Object
from koord_kube.protocol.resources import DRAIN_NODE_GROUPS, DRAIN_NODES
from koord_kube.reconcile_loop import ReconcileLoop
from koord_model.times import rfc3339

from koord_descheduler.drain.api_objects import listed_objects, queued_objects
from koord_descheduler.drain.drain_group import (
    LABEL_GROUP,
    DrainGroup,
    GroupDrain,
    GroupPhase,
    drain_document,
    group_drains,
    read_group,
)
from koord_descheduler.drain.free_nodes import free_percentage, most_free_first
from koord_descheduler.drain.group_decision import (
    GroupAct,
    GroupDecision,
    GroupView,
    PlanNode,
    SetConfirm,
    decide_group,
    group_status,
)
from koord_descheduler.drain.other_drains import other_drains
from koord_descheduler.drain.status_writer import write_status
from koord_descheduler.migration.core.documents import kind_of
from koord_descheduler.planner.cluster import ClusterModel


class DrainGroupController:
    """Runs while this descheduler leads: ``api`` must write only then."""

    def __init__(
        self,
        api: Client,
        cluster: ClusterModel,
        recorder: EventRecorder,
        drains: Informer[Object],
        *,
        on_warning: OnWarning,
        silence: Callable[[], str],
        poll: float,
        pace: ReflectorTiming | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._recorder = recorder
        self._drains = drains
        self._silence = silence
        self._poll = poll
        self._wall = wall
        # One worker: one group is under way at a time.
        self.loop = ReconcileLoop(
            "drainnodegroup", self._reconcile, workers=1, on_warning=on_warning, backoff=api.backoff
        )
        self._groups = queued_objects(
            api, DRAIN_NODE_GROUPS, self.loop.add, on_warning=on_warning, timing=pace
        )

    @property
    def problem(self) -> str:
        """Reason why groups may not go on, in a line; "" while there is none."""
        return self._groups.problem or self.loop.problem

    async def run(self) -> None:
        """For ever."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._groups.run)
            group.start_soon(self.loop.run)

    def reluctant(self, drain: Object) -> frozenset[str]:
        """The nodes that the group of a DrainNode is to empty later."""
        uid = (drain["metadata"].get("labels") or {}).get(LABEL_GROUP)
        for document in self._groups.objects.values():
            if uid and document["metadata"].get("uid") == uid:
                try:
                    return frozenset(self._selected(read_group(document)))
                except ValueError:
                    break
        return frozenset()

    async def _reconcile(self, name: str) -> float | None:
        if not (self._groups.synced and self._drains.synced) or self._silence():
            return self._poll
        try:
            document = await self._api.get(DRAIN_NODE_GROUPS, name)
        except NotFoundError:
            return None
        if document["metadata"].get("deletionTimestamp"):
            return None
        try:
            group = read_group(document)
        except ValueError as error:
            self._record(document, "InvalidDrainNodeGroup", str(error), warning=True)
            await write_status(self._api, DRAIN_NODE_GROUPS, document, {"message": str(error)})
            return None
        return await self._step(document, group)

    async def _step(self, document: Object, group: DrainGroup) -> float | None:
        drains = group_drains(group.uid, await listed_objects(self._api, DRAIN_NODES))
        selected = self._selected(group)
        view = self._view(group, drains, selected)
        decision = decide_group(view)
        if decision.phase is not group.phase:
            is_warning = decision.phase is GroupPhase.FAILED
            self._record(document, decision.phase.value, decision.message, warning=is_warning)
        try:
            status = group_status(view, decision, len(selected), self._ended(document, decision))
            await write_status(self._api, DRAIN_NODE_GROUPS, document, status)
            for act in decision.acts:
                await self._perform(act, group)
        except (ConflictError, NotFoundError):
            return self._poll  # it has changed meanwhile
        is_undone = all(drain.is_undone for drain in drains)
        is_over = decision.phase.is_end and (decision.phase is not GroupPhase.ABORTED or is_undone)
        return None if is_over else self._poll

    def _selected(self, group: DrainGroup) -> list[str]:
        nodes = self._cluster.nodes.items()
        return [name for name, node in nodes if group.nodes.matches(node.labels)]

    def _view(self, group: DrainGroup, drains: list[GroupDrain], selected: list[str]) -> GroupView:
        planned = {drain.node for drain in drains}
        claimed = other_drains("", self._drains.objects).nodes
        left = [name for name in selected if name not in planned | claimed]
        candidates = most_free_first(self._cluster, left)
        free = free_percentage(self._cluster, planned | set(candidates[:1])) if candidates else 0.0
        return GroupView(group, drains, candidates, free, self._active(group))

    def _active(self, group: DrainGroup) -> str:
        """The oldest group that has not ended; "" if that is this one."""
        others = []
        for document in self._groups.objects.values():
            try:
                other = read_group(document)
            except ValueError:
                continue  # its author hears of it
            if not (other.phase.is_end or other.is_aborted):
                others.append((other.created, other.name))
        first = min(others, default=(group.created, group.name))
        return first[1] if first < (group.created, group.name) else ""

    def _ended(self, document: Object, decision: GroupDecision) -> str | None:
        if not decision.phase.is_end:
            return None
        before: str | None = (document.get("status") or {}).get("endTime")
        return before or rfc3339(self._wall())

    async def _perform(self, act: GroupAct, group: DrainGroup) -> None:
        match act:
            case PlanNode(node):
                await self._api.create(DRAIN_NODES, drain_document(group, node))
            case SetConfirm(drain, state):
                await self._api.patch(DRAIN_NODES, drain, {"spec": {"confirmState": state}})

    def _record(self, document: Object, reason: str, message: str, *, warning: bool) -> None:
        kind = kind_of(DRAIN_NODE_GROUPS)
        self._recorder.record(
            kind | document, reason, message, warning=warning, is_numbered=not warning
        )
