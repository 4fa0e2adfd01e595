"""Locks nodes for the time in which a pod's device plugin has to find it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotFoundError, NotLeadingError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import NODES

from koord_scheduler.io.limited_writer import Write
from koord_scheduler.io.look_up import ReadObject
from koord_scheduler.plugins.device_share.node_lock import is_expired, lock_owner, written_lock

_ATTEMPTS = 5
_ENDED = ("Succeeded", "Failed")


class NodeLocker:
    """Each lock is an annotation of the Node, ``key``, with the namespace/name of a pod.

    The Node is read anew and written only if nobody wrote it meanwhile: of two schedulers one
    gets the lock. A lock counts for five minutes, as long as its pod may still start there; the
    pod itself may take it again, so that one left by a scheduler that died keeps it from nothing.
    """

    def __init__(
        self,
        write: Write,
        read_node: ReadObject,
        read_pod: ReadObject,
        *,
        on_warning: OnWarning = ignore_warning,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._read_node = read_node
        self._read_pod = read_pod
        self._on_warning = on_warning
        self._wall = wall

    async def lock(self, node: str, key: str, pod: str) -> str:
        """Lock a node for a pod; returns why not, "" once it is done.

        Raises:
            ApiError: the API server refuses it.
        """
        failure = ""
        for _ in range(_ATTEMPTS):
            found = await self._read_node(node, "")
            if held := await self._held(found, key, pod):
                return held
            try:
                await self._patch(found, key, written_lock(pod, self._wall()))
            except NotLeadingError:
                raise
            except ApiError as error:
                if 0 < error.status < 500 and error.status != 409:
                    raise
                failure = str(error)  # somebody wrote the Node, or it may be locked by now
            else:
                return ""
        return failure

    async def release(self, node: str, key: str, pod: str) -> None:
        """A pod does not start on a node: others may. As far as that works; it ends by itself."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                found = await self._read_node(node, "")
                if lock_owner(_annotation(found, key)) == pod:
                    await self._patch(found, key, None)
                return
            except NotFoundError:
                return
            except ApiError as error:
                if error.status != 409 or attempt == _ATTEMPTS:
                    self._on_warning(f"{error} (lock {key}, of a pod that was not bound)")
                    return

    async def _held(self, node: Object, key: str, pod: str) -> str:
        """Return why a pod may not lock a node at present."""
        lock, name = _annotation(node, key), node["metadata"]["name"]
        owner = lock_owner(lock)
        if not lock or owner == pod:
            return ""
        try:
            if is_expired(lock, self._wall()):
                return ""
        except ValueError as error:
            return f"node {name} annotation {key} {error}"
        if owner and not await self._may_start(owner, name):
            return ""
        return f"node {name} is locked for {owner or 'another pod'} ({key})"

    async def _may_start(self, pod: str, node: str) -> bool:
        namespace, _, name = pod.partition("/")
        try:
            found = await self._read_pod(name, namespace)
        except NotFoundError:
            return False
        where = found.get("spec", {}).get("nodeName") or node
        return where == node and found.get("status", {}).get("phase") not in _ENDED

    async def _patch(self, node: Object, key: str, lock: str | None) -> None:
        known = node["metadata"]
        version = {"uid": known["uid"], "resourceVersion": known["resourceVersion"]}
        body: dict[str, Any] = {"metadata": {**version, "annotations": {key: lock}}}
        await self._write(Request("PATCH", NODES, known["name"], body=body))


def _annotation(node: Object, key: str) -> str:
    found: str = (node["metadata"].get("annotations") or {}).get(key, "")
    return found
