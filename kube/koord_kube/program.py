"""The frame of a control-plane program: replicas of which one leads, from start to hand-over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

import anyio
from koord_service import memory
from koord_service.logs import EventLog, get_log
from koord_service.pages import MakePage
from koord_service.program_end import on_signals
from koord_service.status import StatusServer

from koord_kube.client import Client
from koord_kube.health import EventLoopHealth, probe_pages
from koord_kube.leadership import Leadership

Part = Callable[[], Coroutine[Any, Any, None]]
_SETTLE_SECONDS = 3600.0


async def nothing() -> None:
    """A part that has nothing to do."""


async def settle_for_ever(read: Part = nothing) -> None:
    """Leave what stays to no collector, once all is ``read``; let old garbage go now and then."""
    await read()
    memory.freeze_startup()
    while True:
        await anyio.sleep(_SETTLE_SECONDS)
        memory.freeze_startup()


class ControlPlaneProgram:
    """Runs ``parts`` on every replica, and ``lead`` on the leader, for one term at a time.

    ``lead`` gets a client that writes only in this term, and the term's number. When it is time
    to stop, in this order: the replica is not ready any more; ``settle`` ends what the leader
    has begun; ``lead`` is cancelled and has ended; ``withdraw`` makes others look for the next
    leader; the Lease is released; ``drain`` finishes open requests; the parts are cancelled. If
    a part fails, all others are cancelled first, and the error is raised after ``drain``.
    """

    def __init__(
        self,
        name: str,
        leadership: Leadership,
        lead: Callable[[Client, int], Coroutine[Any, Any, None]],
        *,
        parts: Sequence[Part] = (),
        settle: Part = nothing,
        withdraw: Part = nothing,
        drain: Part = nothing,
        not_ready: Callable[[], str] = str,
        log: EventLog | None = None,
    ) -> None:
        """``name`` is for log lines; ``not_ready`` returns why it should get no requests."""
        self.name = name
        self.leadership = leadership
        self.health = EventLoopHealth()
        self._lead = lead
        self._parts = parts
        self._settle = settle
        self._withdraw = withdraw
        self._drain = drain
        self._not_ready = not_ready
        self._log = log or get_log("program")
        self._stopping = False
        self._stop: anyio.Event | None = None
        self._leader_work_ended = anyio.Event()

    @property
    def not_ready(self) -> str:
        """Reason why this replica should get no requests, in a line; "" if it is ready."""
        return f"this {self.name} is stopping" if self._stopping else self._not_ready()

    @property
    def probes(self) -> dict[str, MakePage]:
        """The pages that the kubelet asks for, by path."""
        return probe_pages(self.health, lambda: self.not_ready)

    async def run(self, servers: Sequence[StatusServer] = ()) -> None:
        """Until SIGTERM or SIGINT; ``servers`` show pages meanwhile.

        Raises:
            OSError: an address is in use, or not this machine's.
        """
        stop = self._stop = anyio.Event()
        on_signals(stop.set, loop=asyncio.get_running_loop())
        async with AsyncExitStack() as at_exit:
            at_exit.push_async_callback(self.leadership.close)
            for server in servers:
                server.start()
                at_exit.callback(server.stop)
            await self._run_until(stop)

    def stop(self) -> None:
        """Stop in order, as at SIGTERM."""
        if self._stop is not None:
            self._stop.set()

    async def _run_until(self, stop: anyio.Event) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.health.run)
            try:
                await self._run_parts_until(stop)
            except BaseException:
                # A part has failed, and all others were cancelled.
                with anyio.CancelScope(shield=True):
                    await self._hand_over()
                raise
            group.cancel_scope.cancel()

    async def _run_parts_until(self, stop: anyio.Event) -> None:
        async with anyio.create_task_group() as group:
            for part in (self.leadership.run, *self._parts):
                group.start_soon(part)
            leading = anyio.CancelScope()
            group.start_soon(self._lead_terms, leading)
            self._log.info(f"{self.name} is up", identity=self.leadership.identity)
            await stop.wait()
            self._log.info(f"{self.name} stops")
            self._stopping = True
            await self._settle()
            leading.cancel()
            await self._leader_work_ended.wait()
            await self._hand_over()
            group.cancel_scope.cancel()

    async def _lead_terms(self, leading: anyio.CancelScope) -> None:
        with leading:
            while True:
                await self.leadership.wait_leads()
                await self._lead_term(self.leadership.term)
                self._log.warning(f"this {self.name} leads no more")
        self._leader_work_ended.set()

    async def _lead_term(self, term: int) -> None:
        self._log.info(f"this {self.name} leads", term=term)
        async with anyio.create_task_group() as group:
            group.start_soon(self._lead, self.leadership.fenced_in(term), term)
            await self.leadership.wait_lost()
            group.cancel_scope.cancel()

    async def _hand_over(self) -> None:
        """The leader's work has ended, so the next replica may begin."""
        self._stopping = True
        await self._withdraw()
        await self.leadership.release()
        await self._drain()
