"""Connections to the plugins of one kind."""

from __future__ import annotations

from collections.abc import Mapping

from koord_service.logs import get_log

from koordlet.plugin_watcher.client import PluginClient
from koordlet.plugin_watcher.core.registrations import RegisteredPlugin

MOST_PLUGINS = 8
"""Plugins of a kind that are asked, those that come first by name."""
MOST_ANSWER = 4 << 20
"""Bytes of one answer: the default of Go's gRPC, which plugins' requests have too."""

_log = get_log("koordlet.plugins")


class PluginClients:
    """Clients of the plugins that are connected; an answer has at most ``most_bytes``."""

    def __init__(self, most_bytes: int = MOST_ANSWER) -> None:
        self._most_bytes = most_bytes
        self._plugins: tuple[RegisteredPlugin, ...] = ()
        self._clients: dict[RegisteredPlugin, PluginClient] = {}

    def follow(self, plugins: tuple[RegisteredPlugin, ...]) -> None:
        """Have clients of these plugins from now on; a disconnected one has none."""
        connected = tuple(plugin for plugin in plugins if plugin.connected)
        if (more := len(connected) - MOST_PLUGINS) > 0:
            kind = connected[0].kind
            _log.warning("too many plugins", kind=kind, not_asked=more, most=MOST_PLUGINS)
        self._plugins = connected[:MOST_PLUGINS]

    async def connect(self) -> Mapping[RegisteredPlugin, PluginClient]:
        """A client of each plugin; one that registered again gets a new one."""
        for gone in self._clients.keys() - set(self._plugins):
            await self._clients.pop(gone).close()
        for plugin in self._plugins:
            if plugin not in self._clients:
                self._clients[plugin] = PluginClient(plugin.endpoint, most_bytes=self._most_bytes)
        return self._clients

    async def close(self) -> None:
        """Close all connections."""
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()
