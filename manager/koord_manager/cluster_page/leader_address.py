"""The address of the leader's page, for those who have opened another manager's."""

from __future__ import annotations

import anyio
from koord_kube.protocol.api import Api, ApiError
from koord_kube.protocol.resources import PODS
from koord_service.addresses import host_port

_SECONDS = 2.0


class LeaderAddress:
    """The address of the pod that leads; the API server is asked once for each leader.

    With the ``port`` 0 there is none.
    """

    def __init__(self, api: Api, namespace: str, port: int) -> None:
        self._api = api
        self._namespace = namespace
        self._port = port
        self._known = ("", "")

    async def of(self, identity: str) -> str:
        """HOST:PORT of the manager of an identity; "" if that is not a pod, or not known."""
        if self._port and self._known[0] != identity:
            # An identity is the pod's name, and what makes this run of it the only one.
            pod = identity.rpartition("_")[0]
            try:
                with anyio.fail_after(_SECONDS):  # the page has to be there all the same
                    found = await self._api.get(PODS, pod, self._namespace)
            except (ApiError, TimeoutError):
                return ""
            ip = str((found.get("status") or {}).get("podIP") or "")
            self._known = (identity, host_port(ip, self._port) if ip else "")
        return self._known[1]
