"""Making good what was missed: hooks are asked again once their server answers.

What they want of a running container's limits is set by an update of the proxy's own.
What cannot be changed any more, a variable say, stays noted as missed, with that reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass, field

from koord_hooks.protocol import HookRequest
from koord_hooks.stages import POST_STAGES, Stage
from koord_service.backoff import exponential
from koord_service.logs import get_log

from koord_proxy.contract.runtime_api import RuntimeApi
from koord_proxy.contract.runtime_client import RuntimeCallError, RuntimeClient
from koord_proxy.dispatcher import Dispatcher
from koord_proxy.interceptor import SkipRule
from koord_proxy.rules.merge import RESOURCES, UNIFIED, ContainerHookRequest, Field, Merge
from koord_proxy.rules.records import MissedHookCall, RecordKind, RuntimeRecord, names_of
from koord_proxy.store import RecordStore

log = get_log("koord_proxy.repair")

LOOK_SECONDS = 0.5
"""Interval at which servers with missed hooks are looked for."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two attempts at one pod or container."""

_MADE_BY = {
    RecordKind.POD: (Stage.PRE_RUN_POD_SANDBOX,),
    RecordKind.CONTAINER: (Stage.PRE_CREATE_CONTAINER, Stage.POST_START_CONTAINER),
}
"""The stages that something went without which was made while the proxy did not look."""


@dataclass(slots=True)
class _Attempts:
    """Attempts to repair one record; what is settled cannot be repaired any further."""

    at: float = 0.0
    failures: int = 0
    settled: set[MissedHookCall] = field(default_factory=set)


class Repairer:
    """Asks hook servers again about what they missed."""

    def __init__(
        self,
        *,
        api: RuntimeApi,
        store: RecordStore,
        dispatcher: Dispatcher,
        connect: Callable[[], RuntimeClient],
        refresh: Callable[[RuntimeRecord], Awaitable[bool]] | None = None,
    ) -> None:
        """``refresh`` is as the interceptor's."""
        self._api = api
        self._store = store
        self._dispatcher = dispatcher
        self._connect = connect
        self._refresh = refresh
        self._attempts: dict[tuple[RecordKind, str], _Attempts] = {}

    async def run(self) -> None:
        """Repair for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Repair what can be repaired now."""
        records = [
            record for kind in RecordKind for record in self._store.records(kind) if record.missed
        ]
        known = {(record.kind, record.id): record for record in records}
        self._attempts = {key: self._attempts.get(key) or _Attempts() for key in known}
        if not any(True for record in records for _ in self._due(record)):
            return
        async with self._connect() as runtime:
            for record in records:
                try:
                    await self._try(runtime, record)
                except Exception as error:
                    # Of one record, and the others are not to suffer for it.
                    self._pause(record)
                    log.error("defect: repair failed", id=record.id, error=repr(error))

    def _due(self, record: RuntimeRecord) -> Iterator[MissedHookCall]:
        """Hooks that a record missed, of servers that may be asked now."""
        attempts = self._attempts[record.kind, record.id]
        if time.monotonic() < attempts.at:
            return
        there = self._there()
        for missed in record.missed:
            if missed.server in there and missed not in attempts.settled:
                yield missed

    def _there(self) -> set[str]:
        targets = self._dispatcher.targets
        return {target.name for target in targets if target.waits and target.breaker.admits}

    def _pause(self, record: RuntimeRecord) -> None:
        attempts = self._attempts[record.kind, record.id]
        attempts.failures += 1
        pause = exponential(FIRST_PAUSE, LONGEST_PAUSE, attempts.failures)
        attempts.at = time.monotonic() + pause

    async def _try(self, runtime: RuntimeClient, record: RuntimeRecord) -> None:
        """Ask again about one record, stage by stage in the order in which they were missed."""
        due: dict[str, list[MissedHookCall]] = {}
        for missed in self._due(record):
            due.setdefault(missed.stage, []).append(missed)
        for stage, missed_there in due.items():
            servers = {call.server for call in missed_there}
            try:
                repaired = await self._ask(runtime, record, Stage(stage), missed_there)
            except RuntimeCallError as error:
                log.warning(
                    "not repaired", stage=stage, error=str(error), **names_of(record.hook_request)
                )
                repaired = False
            if not repaired:
                # One that went away again is awaited; another reason may last.
                if servers <= self._there():
                    self._pause(record)
                return

    async def _ask(
        self,
        runtime: RuntimeClient,
        record: RuntimeRecord,
        stage: Stage,
        missed: Collection[MissedHookCall],
    ) -> bool:
        """Ask again about one stage, and do what can be done; whether all could be asked.

        Raises:
            RuntimeCallError: the runtime did not set the hooks' values.
        """
        is_known = True
        if self._refresh is not None and record.kind is RecordKind.CONTAINER:
            is_known = await self._refresh(record)
        before = record.hook_request
        update = self._api.update(record.id)
        if isinstance(before, ContainerHookRequest):
            hook_request: HookRequest = update.updated_hook_request(before)
        else:
            hook_request = deepcopy(before)
        verdict = await self._dispatcher.ask(stage, hook_request, {call.server for call in missed})
        if verdict.refusal or verdict.missed:
            return False
        merge, by = verdict.merge, dict(verdict.merge.claims)
        # Hooks that come after change nothing.
        beyond = list(by) if stage in POST_STAGES else _beyond_repair(merge)
        merge.undo(beyond)
        if merge.claims and self._is_current(record, before):
            message, left_out = update.rewrite(merge, complete=is_known)
            merge.undo(left_out)
            beyond += left_out
            if message is not None:
                await runtime.update(record.id, message)
        if not self._is_current(record, before):
            # It has ended, or an update of the client's came in between: look again.
            return True
        stuck = {} if stage in POST_STAGES else {field: by[field] for field in beyond}
        self._note(record, merge, missed, stuck)
        return True

    def _is_current(self, record: RuntimeRecord, hook_request: HookRequest) -> bool:
        return (
            record.hook_request is hook_request
            and self._store.get(record.kind, record.id) is record
        )

    def _note(
        self,
        record: RuntimeRecord,
        merge: Merge,
        missed: Collection[MissedHookCall],
        stuck: dict[Field, str],
    ) -> None:
        """Take the marks away, or say in them what cannot be changed any more."""
        left = []
        for call in missed:
            fields = sorted(str(field) for field, server in stuck.items() if server == call.server)
            if fields:
                reason = f"wants {', '.join(fields)}, which cannot be changed once it is made"
                left.append(call._replace(reason=reason))
        attempts = self._attempts[record.kind, record.id]
        attempts.settled.update(left)
        attempts.failures = 0
        if merge.claims:
            record.set_hook_request(merge.hook_request, record.last_requested)
        record.missed = [call for call in record.missed if call not in missed]
        record.note(left)
        self._store.put(record)
        log.info(
            "repaired" if not left else "partly repaired",
            **names_of(record.hook_request),
            stages=", ".join(sorted({call.stage for call in missed})),
            servers=", ".join(sorted({call.server for call in missed})),
            changed=", ".join(sorted(map(str, merge.claims))) or None,
            missed="; ".join(call.reason for call in left) or None,
        )


def _beyond_repair(merge: Merge) -> list[Field]:
    """The changes that are possible only when something is created."""
    limits = (RESOURCES, UNIFIED) if isinstance(merge.hook_request, ContainerHookRequest) else ()
    return [field for field in merge.claims if field.group not in limits]


def missed_when_made(
    dispatcher: Dispatcher, skip: SkipRule, record: RuntimeRecord
) -> list[MissedHookCall]:
    """The hooks that something went without which was made while the proxy did not look."""
    if skip.matches(record.hook_request):
        return []
    now = time.time()
    return [
        MissedHookCall(stage.value, target.name, "was made while the proxy did not look", now)
        for stage in _MADE_BY[record.kind]
        for target in dispatcher.subscribed[stage]
        if target.waits
    ]
