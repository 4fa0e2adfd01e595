"""Charges quotas for pods that are created, through the API server.

What is charged is the quota's annotation ``child-request``, which the scheduler brings back to what
it counts. Each write names the resource version that was judged, so that several managers cannot
admit more than there is: of two writes at once the API server refuses one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import Api, ApiError, ConflictError
from koord_kube.protocol.resources import ELASTIC_QUOTAS
from koord_model.demand import Amounts
from koord_model.excerpt import excerpt

from koord_manager.quota.core.charge import (
    QuotaAccount,
    QuotaCharge,
    charge_all,
    charge_patch,
    read_account,
)

ANSWER_SECONDS = 4.0
"""API servers wait for 5."""

_MOST_ACCOUNTS = 1000
_RANDOM = random.SystemRandom()


@dataclass(slots=True, eq=False)
class _Waiting:
    """A charge, and why it cannot be, "" if it was; ``None`` while that is not known."""

    charge: QuotaCharge
    until: float
    refusal: str | None = None


@dataclass(slots=True)
class _Queue:
    """Those who wait for one quota, and the task that charges for some of them, if there is."""

    waiting: list[_Waiting] = field(default_factory=list)
    batch: asyncio.Task[None] | None = None


class QuotaCharger:
    """Those who wait for one quota are charged with one write.

    After a write that came too late the quota is read and charged again, ``retries`` times, at once
    or after a moment of at most ``jitter`` seconds. ``on_warning`` gets a line on each failure:
    what the API server says is not for those who create pods.
    """

    def __init__(
        self,
        api: Api,
        *,
        retries: int = 3,
        jitter: float = 0.0,
        answer: float = ANSWER_SECONDS,
        chance: Callable[[], float] = _RANDOM.random,
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        self._api = api
        self._on_warning = on_warning
        self._retries = retries
        self._jitter = jitter
        self._answer = answer
        self._chance = chance
        self._queues: dict[str, _Queue] = {}
        self._accounts: dict[str, QuotaAccount] = {}

    async def charge(self, charge: QuotaCharge) -> str:
        """Charge a pod to its quota; return why it cannot be, in a line, "" if it was."""
        mine = _Waiting(charge, anyio.current_time() + self._answer)
        queue = self._queues.setdefault(charge.key, _Queue())
        queue.waiting.append(mine)
        try:
            with anyio.move_on_after(self._answer):
                while mine.refusal is None:
                    # Whoever goes away leaves it to the others: it is not done in vain.
                    await asyncio.shield(queue.batch or self._begin(charge.key, queue))
        finally:
            if mine in queue.waiting:
                queue.waiting.remove(mine)
        if mine.refusal is None:
            about = f"its ElasticQuota {excerpt(charge.name)}"
            return f"{about} could not be charged in {self._answer:g} s; try again"
        return mine.refusal

    def _begin(self, key: str, queue: _Queue) -> asyncio.Task[None]:
        def done(_task: asyncio.Task[None]) -> None:
            queue.batch = None
            if not queue.waiting:
                self._queues.pop(key, None)

        queue.batch = asyncio.get_running_loop().create_task(self._charge_batch(queue))
        queue.batch.add_done_callback(done)
        return queue.batch

    async def _charge_batch(self, queue: _Queue) -> None:
        """Charge for all who wait; it ends when the last one's time is over, not the first one's.

        Cancelled under way, a write might be done and not known of, and charged again.
        """
        batch = tuple(queue.waiting)
        key = batch[0].charge.key
        refusals: Sequence[str | None] = (None,) * len(batch)
        with anyio.CancelScope(deadline=max(waiting.until for waiting in batch)):
            try:
                refusals = await self._refusals(key, [waiting.charge for waiting in batch])
            except (ApiError, ValueError) as error:
                self._on_warning(f"quota charge: ElasticQuota {key}: {error}")
                said = f"its ElasticQuota {excerpt(batch[0].charge.name)} could not be charged"
                refusals = (f"{said}; the manager's log says why",) * len(batch)
        for waiting, refusal in zip(batch, refusals, strict=True):
            waiting.refusal = refusal
        queue.waiting = [waiting for waiting in queue.waiting if waiting.refusal is None]

    async def _refusals(self, key: str, charges: Sequence[QuotaCharge]) -> tuple[str, ...]:
        """Charge them, and say why which of them cannot be; nobody is refused by an old state.

        Raises:
            ApiError: the quota cannot be read or written, or was changed over and over.
            ValueError: it cannot be understood.
        """
        known = self._accounts.pop(key, None)
        left = self._retries
        while True:
            found = known or await self._read(charges[0])
            charged, refusals = charge_all(found, charges)
            if known is None or not any(refusals):
                try:
                    await self._write(found, charged, charges[0])
                except ConflictError:
                    if not left:
                        raise
                    left -= 1
                    await anyio.sleep(self._jitter * self._chance())
                else:
                    return refusals
            known = None

    async def _read(self, charge: QuotaCharge) -> QuotaAccount:
        return read_account(await self._api.get(ELASTIC_QUOTAS, charge.name, charge.namespace))

    async def _write(self, found: QuotaAccount, charged: Amounts, charge: QuotaCharge) -> None:
        if charged != found.charged:
            written = await self._api.patch(
                ELASTIC_QUOTAS,
                charge.name,
                charge_patch(charged),
                charge.namespace,
                version=found.version,
            )
            found = read_account(written)
        if len(self._accounts) >= _MOST_ACCOUNTS:
            self._accounts.clear()
        self._accounts[charge.key] = found
