"""Evicts pods, by the Eviction API or by deleting them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from koord_kube.core.evictions import (
    DisruptionTarget,
    EvictedPod,
    EvictionOutcome,
    EvictionResult,
    condition_request,
    deletion_request,
    eviction_request,
    outcome_of,
)
from koord_kube.protocol.api import ApiError, NotLeadingError
from koord_kube.protocol.request import Request
from koord_kube.shared_backoff import RequestBackoff, SharedBackoff

_TRIES = 4
_FIRST, _LONGEST = 1.0, 8.0


class PodEvictor:
    """Sends evictions by ``write``, a few times if the server fails.

    Each waits as ``backoff`` says, which is shared by all that ask this server.
    """

    def __init__(
        self,
        write: Callable[[Request], Awaitable[bytes]],
        backoff: SharedBackoff,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._backoff = backoff
        self._wall = wall

    async def evict(
        self,
        pod: EvictedPod,
        why: DisruptionTarget | None = None,
        *,
        grace_seconds: int | None = None,
    ) -> EvictionOutcome:
        """Evict a pod unless a disruption budget forbids it, with ``why`` as its condition.

        Without ``grace_seconds`` it has the time to end in that it asks for.

        Raises:
            NotLeadingError: this program may not write.
        """
        return await self._end(pod, why, eviction_request(pod, grace_seconds))

    async def delete(
        self,
        pod: EvictedPod,
        why: DisruptionTarget | None = None,
        *,
        grace_seconds: int | None = None,
    ) -> EvictionOutcome:
        """Do the same whatever budgets say."""
        return await self._end(pod, why, deletion_request(pod, grace_seconds))

    async def _end(
        self, pod: EvictedPod, why: DisruptionTarget | None, request: Request
    ) -> EvictionOutcome:
        if why is not None:
            outcome = await self._send(condition_request(pod, why, self._wall()))
            if outcome.pod_stays:
                return outcome
        return await self._send(request)

    async def _send(self, request: Request) -> EvictionOutcome:
        backoff = RequestBackoff(self._backoff, _FIRST, _LONGEST, longest=_LONGEST)
        for tries_left in reversed(range(_TRIES)):
            try:
                request.written_object(await self._write(request))
            except NotLeadingError:
                raise
            except ApiError as error:
                outcome = outcome_of(error)
                if not outcome.may_succeed or not tries_left:
                    return outcome
                await backoff.pause(error)
            else:
                return EvictionOutcome(EvictionResult.EVICTED)
        raise AssertionError  # pragma: no cover - the last try returns
