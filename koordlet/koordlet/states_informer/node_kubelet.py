"""The kubelet of a node in a cluster, at the address in the Node object."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from koord_kube.credentials import Credentials
from koord_kube.protocol.api import Object
from koord_model.excerpt import excerpt
from koord_service.addresses import host_port

from koordlet.states_informer.kubelet_client import KubeletClient
from koordlet.states_informer.pod_source import PodListPendingError

_HOST = re.compile(r"[0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
"""The name of a host, or an address."""

_PORT = 10250


class NodeKubelet:
    """Follows the Node's address; to be closed.

    ``node`` gives the Node, ``None`` while it is not known. With ``read_only_port`` it is
    asked there, over HTTP and without a token; otherwise over TLS at the port it names.
    """

    name = "the kubelet"

    def __init__(
        self,
        node: Callable[[], Object | None],
        *,
        address_type: str = "InternalIP",
        read_only_port: int | None = None,
        ca_file: str = "",
        credentials: Credentials | None = None,
        timeout: float = 3.0,
    ) -> None:
        self._node = node
        self._address_type = address_type
        self._read_only_port = read_only_port
        self._ca_file = ca_file
        self._credentials = credentials
        self._timeout = timeout
        self._client: KubeletClient | None = None

    async def pods(self) -> bytes:
        """The kubelet's list of pods.

        Raises:
            OSError: it cannot be had; the message says from where and why.
        """
        return await (await self._asked()).pods()

    async def configz(self) -> bytes:
        """The kubelet's configuration; raises like ``pods``."""
        return await (await self._asked()).configz()

    async def close(self) -> None:
        """Let go of the connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _asked(self) -> KubeletClient:
        url = self._url()
        if self._client is None or self._client.name != url:
            await self.close()
            self._client = KubeletClient(
                url,
                ca_file=self._ca_file,
                credentials=self._credentials,
                timeout=self._timeout,
            )
        return self._client

    def _url(self) -> str:
        node = self._node()
        if node is None:
            raise PodListPendingError(
                "the Node object is not known yet, and with it where the kubelet is"
            )
        status: dict[str, Any] = node.get("status") or {}
        found: dict[str, str] = {}
        for address in status.get("addresses") or ():
            # Of several of a type the first is the Node's primary one, on which it listens.
            found.setdefault(address["type"], address["address"])
        address = found.get(self._address_type)
        if not address:
            there = ", ".join(sorted(found)) or "none"
            raise OSError(
                f"the Node has no address of type {self._address_type}; it has {there} "
                "(--kubelet-preferred-address-type)"
            )
        if not _HOST.fullmatch(address):
            # Who may write the Node's status would lead our token elsewhere.
            raise OSError(f"the Node's {self._address_type} is {excerpt(address)}; expected a host")
        if self._read_only_port is not None:
            return f"http://{host_port(address, self._read_only_port)}/pods/"
        endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        port = endpoint.get("Port", _PORT)
        if not isinstance(port, int) or not 0 < port < 1 << 16:
            raise OSError(f"the Node's kubelet port is {excerpt(str(port))}; expected a port")
        return f"https://{host_port(address, port)}/pods/"
