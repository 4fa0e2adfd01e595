"""Drains nodes as DrainNodes ask: reads what there is, takes a step, and carries it out.

All that it knows is in the API: after a restart it goes on where it, or another one, was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import anyio
from koord_kube.client import Client
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.core.warnings import OnWarning
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError, Object
from koord_kube.protocol.resources import (
    DRAIN_NODES,
    NODES,
    POD_MIGRATION_JOBS,
    RESERVATIONS,
    Resource,
)
from koord_kube.protocol.selectors import label_is
from koord_kube.reconcile_loop import ReconcileLoop

from koord_descheduler.drain.act_writer import ActWriter
from koord_descheduler.drain.api_objects import listed_objects, queued_objects
from koord_descheduler.drain.drain_acts import KeepFinalizer
from koord_descheduler.drain.drain_decision import decide
from koord_descheduler.drain.drain_document import drained_node, observe, status_document
from koord_descheduler.drain.drain_objects import (
    LABEL_DRAIN,
    DrainedNode,
    read_job,
    read_node,
    read_reservation,
)
from koord_descheduler.drain.drain_view import DrainView
from koord_descheduler.drain.drained_pods import Forbids, forbid_nothing
from koord_descheduler.drain.group_controller import DrainGroupController
from koord_descheduler.drain.other_drains import other_drains
from koord_descheduler.drain.phases import DrainPhase
from koord_descheduler.drain.pod_states import DrainParts
from koord_descheduler.drain.status_writer import write_status
from koord_descheduler.migration.core.documents import kind_of
from koord_descheduler.planner.cluster import ClusterModel

POLL_SECONDS = 5.0
"""Between two looks at a drain in which nothing changes."""
_SOON_SECONDS = 0.5
_WARNED = (DrainPhase.BLOCKED, DrainPhase.FAILED)

T = TypeVar("T", bound=tuple[object, ...])


class DrainController:
    """Runs while this descheduler leads: ``api`` must write only then; groups too.

    ``silence`` says why nothing may be decided at present, ``forbids`` why migrations never move a
    pod: it blocks before anything is confirmed. In a ``dry_run`` all drains are planned
    only, and undone where somebody aborts them.
    """

    def __init__(
        self,
        api: Client,
        cluster: ClusterModel,
        recorder: EventRecorder,
        *,
        on_warning: OnWarning,
        silence: Callable[[], str] = lambda: "",
        forbids: Forbids = forbid_nothing,
        dry_run: bool = False,
        poll: float = POLL_SECONDS,
        pace: ReflectorTiming | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._recorder = recorder
        self._silence = silence
        self._forbids = forbids
        self._dry_run = dry_run
        self._poll = poll
        self._wall = wall
        self._acts = ActWriter(api, wall)
        # One worker: each plan counts on those before it.
        self.loop = ReconcileLoop(
            "drainnode", self._reconcile, workers=1, on_warning=on_warning, backoff=api.backoff
        )
        self._drains = queued_objects(
            api, DRAIN_NODES, self.loop.add, on_warning=on_warning, timing=pace
        )
        self._groups = DrainGroupController(
            api,
            cluster,
            recorder,
            self._drains,
            on_warning=on_warning,
            silence=silence,
            poll=poll,
            pace=pace,
            wall=wall,
        )

    @property
    def problem(self) -> str:
        """Reason why drains may not go on, in a line; "" while there is none."""
        return self._drains.problem or self.loop.problem or self._groups.problem

    async def run(self) -> None:
        """For ever; the cluster has to be known before."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._drains.run)
            group.start_soon(self.loop.run)
            group.start_soon(self._groups.run)

    async def _reconcile(self, name: str) -> float | None:
        if not self._drains.synced or self._silence():
            return _SOON_SECONDS
        try:
            document = await self._api.get(DRAIN_NODES, name)
        except NotFoundError:
            return None
        try:
            view = await self._observe(document)
        except ValueError as error:
            self._record(document, "InvalidDrainNode", str(error), warning=True)
            await write_status(self._api, DRAIN_NODES, document, {"message": str(error)})
            return None
        return await self._step(document, view)

    async def _step(self, document: Object, view: DrainView) -> float | None:
        """Record the next phase first: what is done in it is done again after a crash."""
        decision = decide(view)
        status = decision.status
        try:
            shown = status_document(view, status)
            document = await write_status(self._api, DRAIN_NODES, document, shown)
        except ConflictError:
            return _SOON_SECONDS
        except NotFoundError:
            return None
        if status.phase is not view.status.phase:
            is_warning = status.phase in _WARNED
            self._record(document, status.phase.value, status.message, warning=is_warning)
        is_changed = False
        for act in decision.acts:
            try:
                is_changed |= await self._acts.perform(act, view, document)
            except (ConflictError, NotFoundError):
                is_changed = True  # it is done, or has changed meanwhile: the next step shows it
                if isinstance(act, KeepFinalizer):
                    break  # nobody would uncordon a node that a deleted drain claims
            except NotLeadingError:
                raise
            except ApiError as error:
                self._record(document, "FailedDrainStep", str(error), warning=True)
                raise
        if is_changed:
            return _SOON_SECONDS
        is_over = status.phase in (DrainPhase.FAILED, DrainPhase.ABORTED)
        return None if is_over else self._poll

    async def _observe(self, document: Object) -> DrainView:
        name = document["metadata"]["name"]
        uid = document["metadata"]["uid"]
        reservations, reserves = await self._parts(RESERVATIONS, uid, read_reservation)
        jobs, _ = await self._parts(POD_MIGRATION_JOBS, uid, read_job)
        others = other_drains(name, self._drains.objects)
        reluctant = self._groups.reluctant(document)
        others = others._replace(reluctant=reluctant - others.nodes)
        node = await self._node(drained_node(document))
        parts = DrainParts(
            uid, {each.name: each for each in reservations}, {each.name: each for each in jobs}
        )
        now = self._wall()
        if self._dry_run:
            document = document | {"spec": (document.get("spec") or {}) | {"dryRun": True}}
        return observe(
            document,
            self._cluster,
            node,
            parts,
            others,
            now,
            reserves=reserves,
            forbids=self._forbids,
        )

    async def _node(self, name: str) -> DrainedNode | None:
        try:
            return read_node(await self._api.get(NODES, name))
        except NotFoundError:
            return None

    async def _parts(
        self, resource: Resource, uid: str, read: Callable[[Object], T]
    ) -> tuple[list[T], bool]:
        """The objects of a drain, and whether the API server has their kind."""
        try:
            found = await listed_objects(self._api, resource, label_is(LABEL_DRAIN, uid))
        except NotFoundError:
            return [], False
        return list(map(read, found)), True

    def _record(self, document: Object, reason: str, message: str, *, warning: bool) -> None:
        kind = kind_of(DRAIN_NODES)
        self._recorder.record(
            kind | document, reason, message, warning=warning, is_numbered=not warning
        )
