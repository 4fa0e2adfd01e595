"""Leadership of this replica, its terms, and clients that write only during them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from koord_kube.client import Client
from koord_kube.core.election import ElectionTiming
from koord_kube.core.token_bucket import TokenBucket
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.lease_elector import LeaseElector

_LEASE_CONNECTIONS = 3
"""One for the watch, one for a request, and one for the next if that hangs."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """The Lease that replicas compete for."""

    name: str
    namespace: str
    timing: ElectionTiming = field(default_factory=ElectionTiming)


class Leadership:
    """The replica ``identity``, which is this run's alone; without a ``lease`` it always leads.

    Renewals have connections of their own, so that no other request delays them.
    ``writes`` slows down all that is written by ``fenced`` clients.
    """

    def __init__(
        self,
        client: Client,
        identity: str,
        lease: LeaseSettings | None,
        *,
        writes: TokenBucket | None = None,
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        self._client = client
        self.identity = identity
        self._writes = writes
        self._elector = None
        if lease is not None:
            self._lease_client = client.separate(_LEASE_CONNECTIONS)
            self._elector = LeaseElector(
                self._lease_client,
                identity,
                name=lease.name,
                namespace=lease.namespace,
                timing=lease.timing,
                on_warning=on_warning,
            )

    @property
    def leads(self) -> bool:
        """True if this replica leads at this moment."""
        return self._elector is None or self._elector.leads

    @property
    def leader(self) -> str:
        """The identity of the leader as last seen; "" if nobody leads, or without a Lease."""
        return self._elector.leader if self._elector is not None else ""

    @property
    def term(self) -> int:
        """A number that is greater than that of all leaders before; 0 without a Lease."""
        return self._elector.term if self._elector is not None else 0

    @property
    def problem(self) -> str:
        """Reason for which the last request for the Lease failed, in a line; "" if it did not."""
        return self._elector.problem if self._elector is not None else ""

    def fenced(self) -> Client:
        """A client that writes only while this replica leads."""
        return self._fenced(lambda: self.leads)

    def fenced_in(self, term: int) -> Client:
        """A client that writes only while this replica leads in this very term."""
        return self._fenced(lambda: self.leads and self.term == term)

    async def wait_leads(self) -> None:
        """Wait until this replica leads."""
        if self._elector is not None:
            await self._elector.wait_leads()

    async def wait_lost(self) -> None:
        """Wait until the current term is over."""
        if self._elector is not None:
            await self._elector.wait_lost()
        else:
            await anyio.sleep_forever()

    async def run(self) -> None:
        """Take part in the election until cancelled or released."""
        if self._elector is not None:
            await self._elector.run()

    async def release(self) -> None:
        """Stop leading for good; the leader's work has to have ended before."""
        if self._elector is not None:
            await self._elector.release()

    async def close(self) -> None:
        """Close the connections of renewals."""
        if self._elector is not None:
            await self._lease_client.close()

    def _fenced(self, leads: Callable[[], bool]) -> Client:
        return self._client.fenced(leads, self._writes)
