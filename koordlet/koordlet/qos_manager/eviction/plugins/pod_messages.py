"""The bytes of this node's pods for eviction plugins, from the API server where it may be asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Set

from koord_kube.protocol.api import ApiError
from koord_service.backoff import exponential
from koord_service.error_text import describe_error
from koord_service.log_deduplicator import LastingProblems
from koord_service.logs import get_log

from koordlet.qos_manager.eviction.plugins.core.pods import make_message, slice_list
from koordlet.states_informer.state.pod_inventory import PodRecord

MOST_LIST = 16 << 20
"""Bytes of the API server's list of one node's pods."""
_LIST_SECONDS = 2.0
_MISSING_SECONDS, _REFRESH_SECONDS = 10.0, 300.0
"""Time between two lists if a pod is missing from the last, which doubles; else between any two."""

_log = get_log("koordlet.plugins")


class PodMessages:
    """Pods' bytes by UID.

    ``read_list`` reads the node's PodList in protobuf, ``None`` where there is no API server.
    It is read when a pod appears, less and less often while it lacks one, and each five minutes,
    since thousands of nodes do so. What it lacks, or if it cannot be read, is made of the kubelet's
    list.
    """

    def __init__(
        self,
        node: str,
        read_list: Callable[[], Awaitable[bytes]] | None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._read_list = read_list
        self._now = now
        self._listed: dict[str, bytes] = {}
        self._due = float("-inf")
        self._again = float("-inf")
        self._misses = 0
        self._problems = LastingProblems()

    async def of(self, records: Iterable[PodRecord]) -> dict[str, bytes]:
        """The bytes of these pods."""
        pods = {record.pod.uid: record for record in records}
        now = self._now()
        missing = bool(pods.keys() - self._listed.keys())
        if self._read_list is not None and now >= (self._again if missing else self._due):
            await self._list(self._read_list, pods.keys())
        self._listed = {uid: said for uid, said in self._listed.items() if uid in pods}
        return {
            uid: self._listed.get(uid) or make_message(record, self._node)
            for uid, record in pods.items()
        }

    async def _list(self, read_list: Callable[[], Awaitable[bytes]], wanted: Set[str]) -> None:
        now = self._now()
        self._due = now + _REFRESH_SECONDS
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                self._listed = slice_list(await read_list())
            self._problems.is_new("list", "")
            self._misses = self._misses + 1 if wanted - self._listed.keys() else 1
            self._again = now + exponential(_MISSING_SECONDS, _REFRESH_SECONDS, self._misses)
        except (ApiError, OSError, ValueError) as error:
            # TimeoutError is an OSError. A missing right does not come within seconds.
            self._again = now + _REFRESH_SECONDS
            self._complain(describe_error(error))

    def _complain(self, reason: str) -> None:
        if self._problems.is_new("list", reason):
            way_out = (
                "plugins get only what the kubelet's list says (deploy/components/eviction-plugins)"
            )
            _log.warning("cannot list pods for eviction plugins", reason=reason, otherwise=way_out)
