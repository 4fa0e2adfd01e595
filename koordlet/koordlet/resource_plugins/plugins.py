"""The registered resource plugins, and calls to them."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message
from koord_model.excerpt import excerpt
from koord_proto import resource_plugin_pb2 as pb
from koord_service.logs import get_log
from koord_service.write_access import may_everybody_write

from koordlet.plugin_watcher.client import PluginCallError, PluginClient
from koordlet.plugin_watcher.core.registrations import (
    MOST_SOCKETS,
    PLUGIN_NAME,
    RegisteredPlugin,
)
from koordlet.resource_plugins.core.checkpoint import SavedPlugin

KIND, VERSIONS = "ResourcePlugin", ("v1alpha1",)
_MOST_ANSWER = 4 << 20
_SERVICE = pb.DESCRIPTOR.services_by_name["ResourcePlugin"].full_name

M = TypeVar("M", bound=Message)
_Key = tuple[str, object]
"""A socket's path, and what differs once another plugin listens there."""

_log = get_log("koordlet.resources")


@dataclass(slots=True)
class ResourcePlugin:
    """A plugin; ``options`` are ``None`` until it has said them."""

    resource: str
    key: _Key
    client: PluginClient
    options: pb.ResourcePluginOptions | None = None

    @property
    def is_aligned(self) -> bool:
        """True if its hints count."""
        return self.options is not None and self.options.with_topology_alignment

    @property
    def is_reconciled(self) -> bool:
        """True if its allocations change while containers run."""
        return self.options is not None and self.options.need_reconcile


class ResourcePlugins:
    """Plugins by resource, one each: the one that is watched, else the last that registered itself.

    ``directory`` is that of the sockets of plugins that register themselves. ``changed`` is called
    when there is another plugin, ``calls`` are counts by resource, method and outcome.
    """

    def __init__(self, directory: str) -> None:
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.saved: Mapping[str, SavedPlugin] = {}
        """Those that registered themselves."""
        self._directory = Path(directory)
        self.changed: Callable[[], None] = lambda: None
        self._watched: Mapping[str, RegisteredPlugin] = {}
        self._plugins: dict[str, ResourcePlugin] = {}
        self._retired: list[PluginClient] = []

    def all(self) -> tuple[ResourcePlugin, ...]:
        """All plugins."""
        return tuple(self._plugins.values())

    def get(self, resource: str) -> ResourcePlugin | None:
        """The plugin of a resource."""
        return self._plugins.get(resource)

    def register(self, request: pb.RegisterRequest) -> None:
        """Take a plugin that registers itself.

        Raises:
            ValueError: it is refused; the message is one line.
        """
        resource, endpoint = request.resource_name, request.endpoint
        if request.version not in VERSIONS:
            raise ValueError(f"version is {excerpt(request.version)}; expected {VERSIONS[0]}")
        if not PLUGIN_NAME.fullmatch(resource):
            raise ValueError(f"resource_name {excerpt(resource)} is not the name of a resource")
        if not _is_socket_beside(self._directory, endpoint):
            there = f"expected the name of a socket in {self._directory}, without o+w"
            raise ValueError(f"endpoint is {excerpt(endpoint)}; {there}")
        if resource not in self.saved and len(self.saved) >= MOST_SOCKETS:
            raise ValueError(f"{len(self.saved)} plugins have registered; there may be no more")
        options = request.options
        plugin = SavedPlugin(endpoint, options.with_topology_alignment, options.need_reconcile)
        self.saved = {**self.saved, resource: plugin}
        # It may have restarted on the same socket.
        self._retire(resource)
        self._update()
        _log.info("resource plugin registered", resource=resource, socket=endpoint)

    def recall(self, saved: Mapping[str, SavedPlugin]) -> None:
        """Take the plugins that had registered themselves before a restart."""
        self.saved = {
            resource: plugin
            for resource, plugin in saved.items()
            if _is_socket_beside(self._directory, plugin.endpoint)
        }
        self._update()

    def follow(self, plugins: Iterable[RegisteredPlugin]) -> None:
        """Take the plugins that are watched, all of them."""
        self._watched = {plugin.name: plugin for plugin in plugins if plugin.connected}
        self._update()

    async def call(
        self, plugin: ResourcePlugin, method: str, request: Message, answer: type[M], seconds: float
    ) -> M:
        """Call a plugin's method.

        Raises:
            PluginCallError: there is no answer that can be used.
        """
        outcome = "cancelled"
        try:
            said = await plugin.client.call(
                f"/{_SERVICE}/{method}", request.SerializeToString(), answer, seconds
            )
            outcome = "answered"
        except PluginCallError as error:
            outcome = "not called" if error.paused else "failed"
            raise
        finally:
            self.calls[plugin.resource, method, outcome] += 1
        return said

    async def refresh(self, seconds: float) -> None:
        """Ask those plugins for their options that have not said them; let go of old ones."""
        retired, self._retired = self._retired, []
        for client in retired:
            await client.close()
        for plugin in self.all():
            if plugin.options is None:
                try:
                    plugin.options = await self.call(
                        plugin,
                        "GetResourcePluginOptions",
                        pb.Empty(),
                        pb.ResourcePluginOptions,
                        seconds,
                    )
                except PluginCallError as error:
                    _log.debug("no options yet", resource=plugin.resource, reason=str(error))

    async def close(self) -> None:
        """Close all connections."""
        for resource in tuple(self._plugins):
            self._retire(resource)
        for client in self._retired:
            await client.close()

    def _update(self) -> None:
        """Connect to those that are new, and let go of those that are gone."""
        found: dict[str, tuple[_Key, pb.ResourcePluginOptions | None]] = {}
        for resource, saved in self.saved.items():
            options = pb.ResourcePluginOptions(
                with_topology_alignment=saved.aligned, need_reconcile=saved.reconciled
            )
            found[resource] = (str(self._directory / saved.endpoint), saved), options
        for resource, watched in self._watched.items():
            found[resource] = (watched.endpoint, watched.identity), None
        for resource in self._plugins.keys() - found.keys():
            self._retire(resource)
        for resource, (key, said) in found.items():
            present = self._plugins.get(resource)
            if present is None or present.key != key:
                self._retire(resource)
                client = PluginClient(key[0], most_bytes=_MOST_ANSWER)
                self._plugins[resource] = ResourcePlugin(resource, key, client, said)
        self.changed()

    def _retire(self, resource: str) -> None:
        if (plugin := self._plugins.pop(resource, None)) is not None:
            self._retired.append(plugin.client)


def _is_socket_beside(directory: Path, name: str) -> bool:
    """True if the name is that of a socket in the directory itself, and its owner's for sure."""
    if not name or name != Path(name).name or not name.isprintable():
        return False
    try:
        trusted = not may_everybody_write(directory.stat())
        return trusted and stat.S_ISSOCK((directory / name).lstat().st_mode)
    except OSError:
        return False
