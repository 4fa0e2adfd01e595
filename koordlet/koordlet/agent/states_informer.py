"""The API server and this node's kubelet, as the settings name them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from koord_kube.protocol.api import Object
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koordlet.agent.config import KoordletSettings, node_name
from koordlet.metrics_reporter.documents import kubelet_config
from koordlet.metrics_reporter.documents.kubelet_config import KubeletConfig
from koordlet.states_informer.node_kubelet import NodeKubelet
from koordlet.states_informer.node_objects import NodeObjects
from koordlet.states_informer.state.informer_age import InformerAge

if TYPE_CHECKING:
    from koord_kube.client import Client

_log = get_log("koordlet.cluster")

_CONFIGZ_SECONDS = 300.0
"""A kubelet's configuration changes with a restart of it."""
_NODE_SECONDS = 1.0


@dataclass(slots=True)
class StatesInformer:
    """The cluster's state about this node; ``name`` is the node's.

    ``kubelet_config`` is ``None`` until the kubelet has said it, or where it is not asked.
    """

    name: str
    client: Client
    state: NodeObjects
    kubelet: NodeKubelet
    deduplicator: LogDeduplicator
    ask_kubelet: bool = True
    kubelet_config: KubeletConfig | None = None

    def node(self) -> Object | None:
        """The Node, as far as it is known."""
        return self.state.get("Node")

    def ages(self) -> Mapping[str, InformerAge]:
        """Return the ages of the API server's objects."""
        return self.state.ages()

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.state.run())
                if self.ask_kubelet:
                    group.create_task(self._follow_configz())
        finally:
            await self.kubelet.close()
            await self.client.close()

    def complain(self, *lines: str) -> None:
        """Say what is not as expected, each line once."""
        for line in lines:
            if self.deduplicator.is_new(line):
                _log.warning("cannot use part of an object", reason=line)

    async def _follow_configz(self) -> None:
        while True:
            # The kubelet's address is unknown before the Node is: not a separate error.
            known = self.node() is not None
            await asyncio.sleep(await self._ask_configz() if known else _NODE_SECONDS)

    async def _ask_configz(self) -> float:
        """The seconds until the next request."""
        try:
            answer = msgspec.json.decode(await self.kubelet.configz(), type=dict[str, object])
            self.kubelet_config, problems = kubelet_config.parse(answer)
            self.complain(*problems)
        except (OSError, msgspec.MsgspecError, UnicodeError) as error:
            self.complain(f"kubelet /configz: {error}")
            return _CONFIGZ_SECONDS / 10
        return _CONFIGZ_SECONDS


async def open_states_informer(
    settings: KoordletSettings, environ: Mapping[str, str]
) -> StatesInformer | None:
    """The cluster that the settings or the pod's environment name; ``None`` where there is none.

    Raises:
        ValueError: what names it cannot be used.
    """
    if settings.standalone or not (settings.kubeconfig or "KUBERNETES_SERVICE_HOST" in environ):
        return None
    # Imported late: 8 MB and a tenth of a second, which a node alone does not need.
    from koord_kube.client import Limits
    from koord_kube.connect import ConnectError, connect

    # A node for each of thousands: after an outage they are not all to come within two seconds.
    limits = Limits(qps=settings.kube_api_qps, burst=settings.kube_api_burst, probe=10.0)
    try:
        client = await connect(settings.kubeconfig, limits, environ=environ)
    except ConnectError as error:
        raise ValueError(f"{error} (or use none: --standalone)") from None
    name = node_name(settings, environ)

    def on_warning(line: str) -> None:
        # Each outage is said anew; within one the informers say a line once.
        _log.warning("API server", reason=line)

    state = NodeObjects(client, name, f"{settings.state_dir}/cluster.json", on_warning)
    kubelet = NodeKubelet(
        partial(state.get, "Node"),
        address_type=settings.kubelet_preferred_address_type,
        read_only_port=settings.kubelet_read_only_port if settings.kubelet_insecure_tls else None,
        ca_file=settings.kubelet_ca_file,
        # Who we are to the API server we are to the kubelet: it asks the API server. It knows of
        # no impersonation, and would take us for whom the credentials are.
        credentials=None if client.cluster.headers else client.cluster.credentials,
        timeout=settings.kubelet_sync_timeout,
    )
    ask = not settings.disable_query_kubelet_config
    return StatesInformer(name, client, state, kubelet, LogDeduplicator(), ask_kubelet=ask)
